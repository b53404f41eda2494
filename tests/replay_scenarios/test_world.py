"""The simulated cell: time, delivery, crashes and outages, with the real core in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.agents.simulated_gang import Program
from gangline.events import decisions as d
from gangline.events.facts import JobCancelRequested, MemberStarted, PolicySet, TeamSet
from gangline.events.spec import CheckpointSpec, Spec
from gangline.replay.broken_rule import BrokenRuleError
from gangline.replay.fleet_file import regular_fleet
from gangline.replay.scenario_replay import check_replay
from gangline.replay.world import RestlessError, World
from gangline.scheduler import core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.replay.core_port import Step

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
FOREVER = Program()


def make_world(*, nodes: int = 4) -> World:
    """A cell with one block of nodes and one team that is guaranteed all of it."""
    world = World(core)
    fleet = regular_fleet((1, 1, nodes), levels=("spine", "block"), gpus_per_node=8)
    world.admit(fleet.admissions())
    world.control(TeamSet(team="a", guaranteed=8 * nodes))
    return world


def spec(gpus: int = 8, *, limit: int | None = None, count: int = 1) -> Spec:
    """A job of the team that can save every ten minutes."""
    return Spec(
        team="a",
        gpus=gpus,
        limit_ms=limit,
        count=count,
        checkpoint=CheckpointSpec(interval_ms=10 * MINUTE),
    )


def made(world: World, kind: type) -> list[tuple[float, str]]:
    """When decisions of a kind were made, in minutes from the start, and of which job or node."""
    start_ms = world.steps[0].now_ms
    return [
        ((step.now_ms - start_ms) / MINUTE, getattr(one, "job", "") or getattr(one, "node", ""))
        for step in world.steps
        for one in step.decisions
        if isinstance(one, kind)
    ]


def test_a_job_lives_from_submission_to_its_end() -> None:
    """Placed, started and ended without anybody but core and agents doing anything."""
    world = make_world()

    world.submit("j", spec(16), Program(runtime_ms=25 * MINUTE))
    world.run(world.now_ms + HOUR)

    assert made(world, d.GangPlaced) == [(0, "j")]
    assert made(world, d.GangStarted) == [(0, "j")]
    assert made(world, d.CheckpointRecorded) == [(10, "j"), (20, "j")]
    assert made(world, d.JobFinished) == [(25, "j")]


def test_the_core_is_asked_only_when_there_is_something_to_decide() -> None:
    """A quiet day costs nothing: neither heartbeats nor ticks."""
    world = make_world()
    world.submit("j", Spec(team="a", gpus=8), FOREVER)
    before = len(world.steps)

    world.run(world.now_ms + 20 * HOUR)

    assert len(world.steps) - before <= 2


def test_what_happens_at_one_instant_is_done_when_time_arrives_there() -> None:
    """Agents and timers first, the calendar's entries then, in the order they were made."""
    world = make_world(nodes=1)
    world.submit("first", spec(), Program(runtime_ms=10 * MINUTE))
    at_ms = world.now_ms + 10 * MINUTE
    world.at(at_ms, lambda: world.submit("second", spec(), FOREVER))
    world.at(at_ms, lambda: world.submit("third", spec(), FOREVER))

    world.run(at_ms)

    assert made(world, d.GangStarted) == [(0, "first"), (10, "second")]


def test_every_command_is_a_step_of_its_own() -> None:
    """A cancel at the instant of the submission finds a running job."""
    world = make_world()

    world.submit("j", spec(), FOREVER)
    world.ask(JobCancelRequested(job="j"))
    world.run(world.now_ms + HOUR)

    assert made(world, d.GangStarted) == [(0, "j")]
    assert made(world, d.JobFinished) == [(1, "j")]


def test_a_new_leader_goes_on_where_the_old_one_was() -> None:
    """Its state is the fold of the decisions; agents notice nothing."""
    world = make_world()
    world.submit("j", spec(16), Program(runtime_ms=25 * MINUTE))
    world.run(world.now_ms + 15 * MINUTE)
    before = core.state_digest(world.state)
    old = world.state

    world.crash()

    assert world.state is not old
    assert [why for _, why in taken(world)] == ["start", "takeover"]
    assert core.state_digest(world.state) != before
    world.run(world.now_ms + HOUR)
    assert made(world, d.GangStarted) == [(0, "j")]
    assert made(world, d.JobFinished) == [(25, "j")]


def taken(world: World) -> list[tuple[int, str]]:
    """Terms and reasons of leadership."""
    return [
        (one.term, one.why)
        for step in world.steps
        for one in step.decisions
        if isinstance(one, d.LeadershipTaken)
    ]


def test_facts_pile_up_while_there_is_no_scheduler() -> None:
    """They are read on its return, by the time they were appended, and it is late then."""
    world = make_world(nodes=1)
    world.submit("running", spec(), Program(runtime_ms=10 * MINUTE))
    world.stop_scheduler(HOUR)
    world.submit("waiting", spec(), FOREVER)
    steps = len(world.steps)

    world.run(world.now_ms + HOUR - 1)
    assert len(world.steps) == steps
    world.run(world.now_ms + 1)

    [first, *_] = world.steps[steps:]
    assert [edge.why for edge in first.edges] == ["takeover"]
    appended = [fact.appended_ms for fact in first.facts]
    assert appended == sorted(appended)
    assert appended[0] < appended[-1]
    assert made(world, d.JobFinished) == [(60, "running")]
    assert made(world, d.GangStarted) == [(0, "running"), (60, "waiting")]


def test_a_reader_that_is_far_behind_reads_in_parts() -> None:
    """Only the last of them is caught up, and only then anything is placed."""
    world = make_world()
    world.stop_scheduler(HOUR)
    for number in range(1_200):
        world.submit(f"j{number}", spec(), FOREVER)
    steps = len(world.steps)

    world.run(world.now_ms + HOUR)

    parts = [step for step in world.steps[steps:] if step.edges or not step.caught_up]
    assert [len(step.facts) for step in parts] == [500, 500]
    assert not [one for step in parts for one in step.decisions if isinstance(one, d.GangPlaced)]
    assert len(made(world, d.GangPlaced)) == 4


def test_a_silent_node_is_an_edge_after_its_time() -> None:
    """Not before, and never when it is heard again in time."""
    world = make_world()
    world.cut("s0-b0-n0", for_ms=29 * SECOND)
    world.run(world.now_ms + HOUR)
    assert made(world, d.NodeHealthChanged) == []

    world.cut("s0-b0-n0", for_ms=5 * MINUTE)
    world.run(world.now_ms + HOUR)

    assert made(world, d.NodeHealthChanged) == [
        (60.5, "s0-b0-n0"),
        (62, "s0-b0-n0"),
        (65, "s0-b0-n0"),
    ]


def test_a_doubled_log_holds_everything_twice() -> None:
    """The second copy stands behind the first, and is refused."""
    world = make_world()
    world.log.doubled = True

    world.submit("j", spec(), FOREVER)

    jobs = [fact for step in world.steps for fact in step.facts if fact.topic == "jobs"]
    assert [fact.offset for fact in jobs] == [0, 1]
    assert jobs[0].event == jobs[1].event
    assert len(made(world, d.JobQueued)) == 1


def test_a_shuffled_log_keeps_the_order_of_each_partition() -> None:
    """Across partitions it is another one each time; the last part is caught up."""
    world = make_world()
    world.log.shuffled = True
    seen = len(world.steps)
    for round_ in range(4):
        world.control(TeamSet(team=f"t{round_}", guaranteed=0))
        world.submit(f"a{round_}", spec(), FOREVER)
        world.submit(f"b{round_}", spec(), FOREVER)
        world.run(world.now_ms + MINUTE)

    topics = [{fact.topic for fact in step.facts} - {"nodes"} for step in world.steps[seen:]]
    assert max(map(len, topics)) == 1
    firsts = [next(iter(found)) for found in topics if found]
    assert firsts[:2] in (["jobs", "control"], ["control", "jobs"])
    assert {"jobs", "control"} == set(firsts[::2])
    parts = world.steps[seen:]
    jobs = [fact.offset for step in parts for fact in step.facts if fact.topic == "jobs"]
    assert jobs == sorted(jobs)


def test_what_got_no_decision_is_given_again() -> None:
    """A batch holds what was read since the batch before, as a live driver has it."""
    world = make_world()

    world.submit("j", spec(), Program(runtime_ms=5 * MINUTE))
    world.run(world.now_ms + HOUR)

    started = [
        (
            bool(step.decisions),
            [type(fact.event.body).__name__ for fact in step.facts if fact.event],
        )
        for step in world.steps
        if any(fact.event and type(fact.event.body) is MemberStarted for fact in step.facts)
    ]
    assert set(map(str, started[:-1])) == {"(False, ['MemberStarted'])"}
    assert started[-1] == (True, ["MemberStarted", "MemberExited"])
    assert world.facts_read == sum(len(step.facts) for step in world.steps) - len(started) + 1


def test_an_array_is_many_programs() -> None:
    """Every task does what the array was said to do."""
    world = make_world()

    world.submit("arr", spec(count=3), Program(runtime_ms=5 * MINUTE))
    world.run(world.now_ms + HOUR)

    assert sorted(made(world, d.JobFinished)) == [(5, "arr.1"), (5, "arr.2"), (5, "arr.3")]


def test_a_run_reads_the_same_again() -> None:
    """Folded, continued from snapshots, stepped again, and through bytes."""
    world = make_world()
    world.submit("j", spec(16), Program(runtime_ms=25 * MINUTE))
    world.fail("s0-b0-n0", for_ms=10 * MINUTE)
    world.run(world.now_ms + HOUR)
    world.crash()

    check_replay(core, world.steps)


def test_a_changed_decision_is_found() -> None:
    """Whoever alters history is told at which step."""
    world = make_world()
    world.submit("j", spec(16), Program(runtime_ms=25 * MINUTE))
    world.run(world.now_ms + HOUR)
    told = [step for step in world.steps if step.decisions]
    at = next(
        at for at, step in enumerate(told) if isinstance(step.decisions[0], d.CheckpointRecorded)
    )
    [saved] = told[at].decisions
    assert isinstance(saved, d.CheckpointRecorded)
    told[at] = told[at]._replace(decisions=(replace(saved, step=saved.step + 1),))

    with pytest.raises(BrokenRuleError, match=rf"rule 6.*digest when step {at} is folded"):
        check_replay(core, told)


def test_a_core_that_never_rests_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waking for nothing again and again would be an endless loop live."""
    world = make_world()
    monkeypatch.setattr(core, "next_wake", lambda _state: world.now_ms)

    with pytest.raises(RestlessError, match="wakes again"):
        world.submit("j", spec(), FOREVER)


class Eyes:
    """An observer that remembers what it was shown."""

    def __init__(self) -> None:
        self.kinds: list[type] = []

    def stepped(self, _world: World, step: Step) -> None:
        """Note the decisions."""
        self.kinds += [type(one) for one in step.decisions]


def test_observers_see_every_step_and_nothing_need_be_kept() -> None:
    """A long simulation remembers no steps; whoever wants something folds it on the way."""
    eyes = Eyes()
    observers: Sequence[Eyes] = (eyes,)
    world = World(core, observers=observers, keeps_steps=False)
    fleet = regular_fleet((1, 1, 1), levels=("spine", "block"), gpus_per_node=8)
    world.admit(fleet.admissions())

    assert world.steps == []
    assert eyes.kinds[0] is d.LeadershipTaken
    assert d.NodeAdded in eyes.kinds


def test_silence_is_judged_by_the_policy_of_the_moment() -> None:
    """A shorter time is told sooner, a longer one later, also of nodes that are silent already."""
    world = make_world()
    world.cut("s0-b0-n0", for_ms=None)
    world.run(world.now_ms + 10 * SECOND)

    world.control(PolicySet(values={"suspect_after": 15 * SECOND}))
    world.run(world.now_ms + MINUTE)
    assert made(world, d.NodeHealthChanged) == [(0.25, "s0-b0-n0")]

    world.cut("s0-b0-n1", for_ms=None)
    world.control(PolicySet(values={"suspect_after": 60 * SECOND, "lost_after": HOUR}))
    world.run(world.now_ms + 2 * MINUTE)
    assert made(world, d.NodeHealthChanged)[-1] == (2 + 10 / 60, "s0-b0-n1")


def test_a_core_that_wakes_all_the_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every millisecond a little later is no rest either."""
    world = make_world()
    monkeypatch.setattr(core, "next_wake", lambda _state: world.now_ms + 1)
    world.submit("j", spec(), FOREVER)

    with pytest.raises(RestlessError, match="1000 wakes for nothing new"):
        world.run(world.now_ms + HOUR)
