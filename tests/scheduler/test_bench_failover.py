"""The bench of failovers runs on a small cell and says what it measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.replay.bench_failover import FailoverSettings, bench_failover
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.scheduler import core
from tests.support.buses import opened

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.postgres
def test_kills_and_hand_overs_are_timed(postgres_url: str, tmp_path: Path) -> None:
    """Each is a change of leader in a log that verifies."""
    settings = FailoverSettings(bus=postgres_url, nodes=8, runs=1, standing_s=0)
    said: list[int] = []

    numbers = bench_failover(settings, tmp_path, progress=said.append)

    assert (numbers["nodes"], numbers["gpus"], numbers["gangs"]) == (8, 64, 2)
    assert numbers["kill_to_first_decision_s"]["p50"] > 1.5
    assert 0 <= numbers["hand_over_s"]["p50"] < numbers["kill_to_first_decision_s"]["p50"]
    assert said == [1, 2]
    with opened(postgres_url, settings.cell) as log:
        report = verify(LogSource(log), core)
    assert report.difference is None
    assert report.steps >= 3
