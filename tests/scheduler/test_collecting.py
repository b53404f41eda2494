"""Python's long collector passes are made when there is nothing to do."""

from __future__ import annotations

import gc

import pytest

from gangline.scheduler.collecting import EVERY_MS, IdleCollector, only_short_passes
from tests.scheduler.cell import Clocks


class Knot:
    """Something that only the collector can let go."""

    def __init__(self) -> None:
        self.itself = self


def test_a_pass_is_made_in_an_idle_moment_once_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, and not again at once."""
    passes: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: passes.append(1))
    clocks = Clocks()
    collector = IdleCollector(clocks)

    found = []
    for ms in (0, EVERY_MS - 1, 1, 1, EVERY_MS):
        clocks.passed_ms += ms
        found.append(collector.idle())

    assert found == [False, False, True, False, True]
    assert len(passes) == 2


def test_only_short_passes_come_by_themselves() -> None:
    """Young knots still go; the collector is as before afterwards."""
    before = gc.get_threshold()
    long_passes = []

    def told(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            long_passes.append(info)

    gc.callbacks.append(told)
    try:
        with only_short_passes():
            for _ in range(200_000):
                Knot()
            counted = list(long_passes)
    finally:
        gc.callbacks.remove(told)

    assert counted == []
    assert gc.get_threshold() == before
