"""Past moments of a live log, from kept states: the same answers, sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.events.log import Message, Topic
from gangline.events.memory import MemoryLog
from gangline.replay import moments
from gangline.replay.demo_cell import DemoCell
from gangline.replay.demo_story import Size
from gangline.replay.history import LogSource, steps
from gangline.replay.moments import Moments
from gangline.replay.timetravel import When, state_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.events.log import Record

NOW_MS = 1_800_000_000_000
SIZE = Size(nodes=40, days=1, load=0.6, rush=4, seed=5)


def _history() -> MemoryLog:
    """A log in memory with a day of a small fleet; only its decisions matter here."""
    log = MemoryLog("main")
    log.create_topics()
    writer = log.writer("scheduler")

    def load(records: Sequence[Record]) -> None:
        decided = [record for record in records if record.topic == Topic.DECISIONS]
        writer.commit([Message(topic=Topic.DECISIONS, value=each.value) for each in decided])

    cell = DemoCell(load, now_ms=NOW_MS, size=SIZE)
    cell.make_history(lambda: NOW_MS)
    return log


@pytest.fixture(scope="module")
def history() -> MemoryLog:
    """The log, made once."""
    return _history()


def test_every_moment_is_that_of_the_whole_fold(
    history: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked in any order, by time or by batch, with few kept states or many."""
    monkeypatch.setattr(moments, "EVERY_STEPS", 7)
    monkeypatch.setattr(moments, "MOST_FRAMES", 5)
    last = [step.link.seq for step in steps(LogSource(history))][-1]
    asked = Moments(history)

    for when in (
        When(at_ms=NOW_MS - 3_600_000),
        When(seq=last // 2),
        When(at_ms=NOW_MS - 60_000_000),
        When(seq=1),
        When(at_ms=0),
        When(),
        When(seq=last - 3),
    ):
        assert asked.state(when) == state_at(LogSource(history), when)


def test_kept_states_are_few_however_long_the_log_is(
    history: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When there are too many, every second one goes and they are kept half as often."""
    monkeypatch.setattr(moments, "EVERY_STEPS", 3)
    monkeypatch.setattr(moments, "MOST_FRAMES", 6)
    asked = Moments(history)

    asked.state(When())

    assert 0 < len(asked.frames) <= 6


def test_the_same_story_gives_the_same_log() -> None:
    """The demo's past depends on nothing but its size and its clock."""
    first, second = _history(), _history()

    ends = [state_at(LogSource(log), When())["state_digest"] for log in (first, second)]
    assert ends[0] == ends[1]
