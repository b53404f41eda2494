"""Schedulers die, hang and race; what was acknowledged happens once, whoever leads."""

from __future__ import annotations

import pytest

from gangline.events import decisions as d
from gangline.events import facts
from gangline.events.log import Topic
from gangline.events.memory import MemoryLog
from gangline.scheduler.ports import Point
from tests.scheduler.cell import Cell, KillAt
from tests.scheduler.theatre import Company, judge, play


@pytest.mark.parametrize("passing", [1, 3])
@pytest.mark.parametrize("point", list(Point))
def test_a_scheduler_may_die_anywhere(point: Point, passing: int) -> None:
    """At the first and at a later passing of every point."""
    cell = Cell()
    probe = KillAt(point, passing=passing)
    company = Company(cell, probe)

    play(cell, company)

    judge(cell)
    assert company.deaths == (1 if probe.done else 0)


def test_the_play_passes_every_point() -> None:
    """Else some of the deaths above never happened."""
    passed: set[Point] = set()
    cell = Cell()
    company = Company(cell, passed.add)

    play(cell, company)

    judge(cell)
    assert passed == set(Point)


@pytest.mark.parametrize("visible", [True, False])
def test_a_commit_with_a_lost_answer_is_recovered_from(visible: bool) -> None:  # noqa: FBT001
    """By the same recovery, whether the batch is there or not, and at once."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.admit("n1")
    cell.led_by(scheduler)
    assert isinstance(cell.log, MemoryLog)
    cell.run(scheduler, ms=300)
    cell.submit("job-1")
    (cell.log.lose_next_answer if visible else cell.log.lose_next_commit)()

    before = cell.clocks.passed_ms
    cell.until(lambda: cell.decisions(d.GangPlaced), scheduler)

    assert cell.clocks.passed_ms - before < 500
    cell.run(scheduler, ms=500)
    assert [each.job for each in cell.decisions(d.JobQueued)] == ["job-1"]
    assert [member.job for member in cell.assignments()["n1"].members] == ["job-1"]
    assert cell.replayed().link is not None


def test_a_torn_batch_gets_its_assignments_from_the_next_leader() -> None:
    """A batch may become visible without them; the new leader publishes them again first."""
    cell = Cell()
    first = cell.scheduler()
    cell.admit("n1")
    cell.led_by(first)
    cell.submit("job-1")
    cell.run(first)
    assert cell.assignments()["n1"].members
    store = cell.log._store  # type: ignore[attr-defined]
    for name, partition in store.partitions.items():
        if name.topic == Topic.ASSIGNMENTS:
            partition.records.clear()
    assert cell.assignments() == {}
    first.close()

    second = cell.scheduler("two")
    cell.led_by(second)

    assert [member.job for member in cell.assignments()["n1"].members] == ["job-1"]


def test_a_standby_takes_over_a_second_and_a_half_after_the_last_beat() -> None:
    """Not earlier, and the next one would be a second later."""
    cell = Cell()
    leader, standby = cell.scheduler("one"), cell.scheduler("two", index=0)
    cell.led_by(leader)
    later = cell.scheduler("three", index=1)
    cell.run(leader, standby, later, ms=2_000)
    assert leader.leader is not None
    died = cell.clocks.passed_ms

    cell.until(lambda: standby.leader, standby, later)

    assert 1_000 <= cell.clocks.passed_ms - died <= 1_700
    cell.run(standby, later, ms=5_000)
    assert later.leader is None
    assert [batch.term for batch in cell.batches()] == sorted({1, 2})


def test_a_paused_leader_is_fenced_and_does_not_disturb_the_new_one() -> None:
    """It wakes up, tries to write, is refused, and stands by."""
    cell = Cell()
    paused, standby = cell.scheduler("one"), cell.scheduler("two", index=1)
    cell.admit("n1")
    cell.led_by(paused)
    cell.run(paused, standby, ms=1_000)

    cell.submit("job-1")
    cell.until(lambda: standby.leader, standby)
    cell.run(standby)
    cell.submit("job-2")
    cell.run(paused, standby, ms=5_000)

    assert paused.leader is None
    assert standby.leader is not None
    assert [each.job for each in cell.decisions(d.JobQueued)] == ["job-1", "job-2"]
    assert cell.replayed().leader == "two"


def test_a_paused_standby_does_not_take_its_own_absence_for_the_leaders() -> None:
    """It reads what waits before it judges."""
    cell = Cell()
    leader, standby = cell.scheduler("one"), cell.scheduler("two", index=1)
    cell.led_by(leader)
    cell.run(leader, standby, ms=1_000)

    cell.run(leader, ms=60_000)
    cell.run(standby, leader, ms=10_000)

    assert leader.leader is not None
    assert standby.leader is None


def test_a_fenced_scheduler_holds_back() -> None:
    """Two that fence each other in turn would get nothing done."""
    cell = Cell()
    one, two = cell.scheduler("one"), cell.scheduler("two", index=1)
    cell.led_by(one)
    cell.run(one, two, ms=500)
    cell.until(lambda: two.leader, two)

    terms = []
    for _ in range(100):
        cell.run(one, two, ms=100)
        terms.append(cell.batches()[-1].term)

    assert set(terms) == {2}
    assert two.leader is not None


def test_a_planned_hand_over_leaves_no_gap() -> None:
    """The next one leads within a second and does not hand over for the same request."""
    cell = Cell()
    one, two = cell.scheduler("one"), cell.scheduler("two", index=1)
    cell.led_by(one)
    cell.run(one, two, ms=1_000)

    cell.say(Topic.CONTROL, facts.HandOverRequested(why="upgrade"))
    asked = cell.clocks.passed_ms
    cell.until(lambda: two.leader, one, two)
    assert cell.clocks.passed_ms - asked <= 1_000
    cell.run(one, two, ms=10_000)

    assert [each.why for each in cell.decisions(d.LeadershipTaken)] == ["start", "hand_over"]
    assert two.leader is not None


def test_a_hand_over_with_nobody_there_is_taken_back() -> None:
    """After a few seconds the same scheduler leads again, and stays."""
    cell = Cell()
    only = cell.scheduler()
    cell.led_by(only)

    cell.say(Topic.CONTROL, facts.HandOverRequested())
    cell.run(only, ms=30_000)

    assert only.leader is not None
    assert len(cell.decisions(d.LeadershipTaken)) == 2


def test_two_leaders_never_write_in_turn() -> None:
    """Whoever opened the writer last is the only one; the other's batch is in nobody's log."""
    cell = Cell()
    one = cell.scheduler("one")
    cell.led_by(one)
    cell.submit("job-1")
    two = cell.scheduler("two")
    cell.until(lambda: two.leader, two)
    cell.run(two)
    before = len(cell.batches())

    cell.submit("job-2")
    cell.run(one)

    assert one.leader is None
    assert len(cell.batches()) == before
    assert cell.replayed().link is not None


def test_a_leader_in_doubt_does_not_take_the_lead_from_a_newer_one() -> None:
    """Its commit failed as somebody else took over meanwhile: it stands by, and stays there."""
    cell = Cell()
    one, two = cell.scheduler("one"), cell.scheduler("two", index=1)
    cell.led_by(one)
    cell.run(one, two, ms=1_000)
    cell.until(lambda: two.leader, two)
    doubting = one.leader
    assert doubting is not None
    doubting.beater.doubtful = True

    cell.run(one, two, ms=10_000)

    assert (one.leader, cell.batches()[-1].term) == (None, 2)
    assert two.leader is not None
