"""The same deaths on real servers, where a dead scheduler's connections and transactions linger."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.parametrize("point", list(Point))
def test_a_scheduler_may_die_anywhere_on_postgres(point: Point, postgres_log: Log) -> None:
    """What was acknowledged happens once; the log verifies from end to end."""
    cell = Cell(postgres_log)
    company = Company(cell, KillAt(point, passing=2))

    play(cell, company, seconds=6)

    judge(cell)
    assert verify(LogSource(cell.log), cell.core).difference is None
    company.close()
