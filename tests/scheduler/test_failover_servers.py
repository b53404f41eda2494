"""The same deaths on real servers, where a dead scheduler's connections and transactions linger."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from gangline.events.bus import open_log
from gangline.events.postgres_log import PostgresLog
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.scheduler.ports import Point
from tests.scheduler.cell import Cell, KillAt
from tests.scheduler.theatre import Company, judge, play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.log import Log

_numbers = itertools.count(1)


@pytest.fixture
def postgres_log(postgres_url: str) -> Iterator[Log]:
    """A log on a real Postgres."""
    log = PostgresLog(postgres_url, f"failover-{next(_numbers)}")
    yield log
    log.close()


@pytest.fixture
def kafka_log(kafka_bootstrap: str) -> Iterator[Log]:
    """A log on a real broker."""
    log = open_log(f"kafka://{kafka_bootstrap}", f"failover-{next(_numbers)}")
    yield log
    log.close()


@pytest.mark.parametrize("point", list(Point))
def test_a_scheduler_may_die_anywhere_on_kafka(point: Point, kafka_log: Log) -> None:
    """A dead leader's transaction is settled by the next one's writer."""
    cell = Cell(kafka_log)
    company = Company(cell, KillAt(point, passing=2))
    try:
        play(cell, company, seconds=3)
        judge(cell)
        assert verify(LogSource(cell.log), cell.core).difference is None
    finally:
        company.close()


@pytest.mark.parametrize("point", list(Point))
def test_a_scheduler_may_die_anywhere_on_postgres(point: Point, postgres_log: Log) -> None:
    """What was acknowledged happens once; the log verifies from end to end."""
    cell = Cell(postgres_log)
    company = Company(cell, KillAt(point, passing=2))

    try:
        play(cell, company, seconds=6)
        judge(cell)
        assert verify(LogSource(cell.log), cell.core).difference is None
    finally:
        company.close()
