"""How long a standby waits, what it takes for silence, and what it refuses to follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gangline.events import decisions as d
from gangline.events import facts
from gangline.events.log import Topic
from gangline.scheduler.follower import DivergedError, Follower, UnknownLogicError
from gangline.scheduler.takeover import WRITER_ROLE
from tests.scheduler.cell import Cell
from tests.scheduler.toy_core import ToyCore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.events.log import Record


class Deaf:
    """A reader that is cut off: it knows where it is, and nothing comes."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def poll(self, timeout_s: float, *, limit: int = 1000) -> Sequence[Record]:
        """Nothing."""
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


class Watched:
    """A reader that notes how long it was asked to wait."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self.waits_s: list[float] = []

    def poll(self, timeout_s: float, *, limit: int = 1000) -> Sequence[Record]:
        """What the reader has."""
        self.waits_s.append(timeout_s)
        return self._reader.poll(timeout_s, limit=limit)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def test_a_standby_looks_up_when_the_silence_is_over() -> None:
    """Not a whole turn later: it waits as long as it may, at last for what is left, never not."""
    cell = Cell()
    leader, standby = cell.scheduler("one"), cell.scheduler("two", index=1)
    cell.led_by(leader)
    cell.run(leader, standby, ms=1_000)
    assert standby.standby is not None
    watching = standby.standby
    watched = watching._reader = Watched(watching._reader)

    for silent_ms in (0, 2_100, 2_440, 2_500, 9_999):
        watching._silent_ms = silent_ms
        watching._looked_ms = cell.clocks.passed_ms
        watching.turn(0.25)

    assert watched.waits_s == [0.25, 0.25, 0.06, 0.02, 0.02]


def test_a_standby_that_is_cut_off_does_not_take_over() -> None:
    """The log's ends tell it that there are beats which it has not read."""
    cell = Cell()
    leader, standby = cell.scheduler("one"), cell.scheduler("two", index=1)
    cell.led_by(leader)
    cell.run(leader, standby, ms=1_000)
    assert standby.standby is not None
    standby.standby._reader = Deaf(standby.standby._reader)

    cell.run(leader, standby, ms=30_000)

    assert standby.leader is None
    assert {batch.term for batch in cell.batches()} == {1}


@pytest.mark.parametrize(("index", "least_ms"), [(0, 1_500), (1, 2_500), (3, 4_500)])
def test_each_standby_waits_a_second_longer_than_the_one_before(index: int, least_ms: int) -> None:
    """Counted from the last beat that it heard."""
    cell = Cell()
    leader, standby = cell.scheduler("one"), cell.scheduler("two", index=index)
    cell.led_by(leader)
    cell.run(leader, standby, ms=2_000)
    last_beat = cell.records(Topic.LEADER)[-1].appended_ms

    cell.until(lambda: standby.leader, standby)

    assert least_ms <= cell.clocks.log_ms() - last_beat <= least_ms + 700


def test_whoever_was_fenced_waits_longer() -> None:
    """Else two that cannot see each other would take the lead from each other for ever."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    cell.log.writer(WRITER_ROLE)
    cell.submit("job-1")
    cell.run(scheduler)
    assert scheduler.leader is None
    fenced = cell.clocks.passed_ms

    cell.until(lambda: scheduler.leader, scheduler)

    assert cell.clocks.passed_ms - fenced >= 3_500
    cell.run(scheduler)
    assert [each.job for each in cell.decisions(d.JobQueued)] == ["job-1"]


def test_whoever_handed_over_lets_others_go_first() -> None:
    """It leads again only when nobody has come forward."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    cell.say(Topic.CONTROL, facts.HandOverRequested())
    cell.run(scheduler)
    assert scheduler.leader is None
    handed_over = cell.clocks.passed_ms

    cell.until(lambda: scheduler.leader, scheduler)

    assert cell.clocks.passed_ms - handed_over >= 4_500


class Drifting(ToyCore):
    """A core that folds otherwise than it stepped."""

    def fold(self, state: Any, decisions: Sequence[d.Decision], *, now_ms: int) -> None:
        """Forget the leader."""
        super().fold(state, decisions, now_ms=now_ms)
        state.kept["leader"] = ""


def test_a_standby_whose_state_diverges_stops_at_once() -> None:
    """It would lead from a state that never was."""
    cell = Cell()
    cell.led_by(cell.scheduler())

    with pytest.raises(DivergedError, match="state digest"):
        Follower(Drifting()).read_to_end(cell.log)


def test_nobody_follows_a_newer_logic() -> None:
    """It says which version is needed."""
    cell = Cell(core=ToyCore(logic_version=2))
    cell.led_by(cell.scheduler())

    with pytest.raises(UnknownLogicError, match="logic version 2 decides, this program has 1"):
        Follower(ToyCore(logic_version=1)).read_to_end(cell.log)


def test_a_hung_leader_is_replaced() -> None:
    """Its loop does not come round, so its beats stop, though their thread lives."""
    cell = Cell()
    hung, standby = cell.scheduler("one"), cell.scheduler("two")
    cell.led_by(hung)
    assert hung.leader is not None
    beater = hung.leader.beater
    for _ in range(300):
        cell.clocks.passed_ms += 100
        beater.beat_if_due()
        standby.turn(0)

    assert standby.leader is not None


def test_an_idle_leader_learns_by_its_beat_that_it_leads_no_more() -> None:
    """It has nothing to commit that would be refused."""
    cell = Cell()
    idle, standby = cell.scheduler("one"), cell.scheduler("two")
    cell.led_by(idle)
    cell.run(idle, standby, ms=500)
    cell.until(lambda: standby.leader, standby)

    cell.run(idle, ms=1_000)

    assert idle.leader is None
