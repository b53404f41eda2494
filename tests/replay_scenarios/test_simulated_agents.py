"""Simulated agents: what they say of what they are told, and how their gangs work meanwhile."""

from __future__ import annotations

from typing import Any

from gangline.agents.simulated import SimulatedFleet
from gangline.agents.simulated_gang import Program
from gangline.events.batch import AssignedMember, MemberPhase
from gangline.events.facts import (
    CheckpointSaved,
    FaultDetected,
    MemberExited,
    MemberReady,
    MemberStarted,
    NodeRegistered,
)
from gangline.events.spec import CheckpointSpec, Spec

MINUTE = 60_000
PREPARE, RUN, STOP = MemberPhase.PREPARE, MemberPhase.RUN, MemberPhase.STOP


class Stage:
    """Two nodes and one job on both; the test is their scheduler."""

    def __init__(
        self, *, runtime: int = 60 * MINUTE, checkpoint: int | None = 10 * MINUTE, code: int = 0
    ) -> None:
        self.fleet = SimulatedFleet(lambda _job: Program(runtime_ms=runtime, code=code))
        self.now_ms = 0
        self.checkpoint = checkpoint
        for node in ("n0", "n1"):
            self.fleet.add(node, 8)
        self.said()

    def tell(
        self, phase: MemberPhase | None, *, on: str = "", attempt: int = 1, **more: Any
    ) -> None:
        """Assign the member of both nodes, or of one; None assigns nothing."""
        interval = self.checkpoint
        spec = Spec(
            team="a",
            gpus=16,
            checkpoint=None if interval is None else CheckpointSpec(interval_ms=interval),
        )
        for member, node in enumerate(("n0", "n1")):
            if on not in {"", node}:
                continue
            assigned = AssignedMember(
                job="j",
                number=1,
                attempt=attempt,
                phase=phase or PREPARE,
                gpus=tuple(range(8)),
                member=member,
                nodes=("n0", "n1"),
                gpus_by_node=(8, 8),
                first_rank=8 * member,
                world_size=16,
                spec=spec,
                **more,
            )
            self.fleet.hear(node, () if phase is None else (assigned,), self.now_ms)

    def running(self, **more: Any) -> None:
        """Bring the job to run."""
        self.tell(PREPARE, **more)
        self.tell(RUN, **more)
        self.said()

    def until(self, minutes: float) -> list[Any]:
        """Let time pass up to then; the facts on the way."""
        end_ms = int(minutes * MINUTE)
        while (at_ms := self.fleet.next_ms()) is not None and at_ms <= end_ms:
            self.now_ms = at_ms
            self.fleet.advance(at_ms)
        self.now_ms = end_ms
        return self.said()

    def said(self) -> list[Any]:
        """The facts that got through since the last time."""
        return [fact for _, fact in self.fleet.take_facts()]


def exits(facts: list[Any]) -> list[tuple[str, int, str]]:
    """Who is out, with which code, and why."""
    return [(f.node, f.code, f.reason) for f in facts if isinstance(f, MemberExited)]


def saves(facts: list[Any]) -> list[int]:
    """The productive minutes that checkpoints hold."""
    return [f.productive_ms // MINUTE for f in facts if isinstance(f, CheckpointSaved)]


def test_an_agent_says_that_it_is_there() -> None:
    """With the boot id of its machine."""
    fleet = SimulatedFleet(lambda _job: Program())

    fleet.add("n0", 8)

    [(node, fact)] = fleet.take_facts()
    assert (node, type(fact), fact.gpus) == ("n0", NodeRegistered, 8)


def test_members_are_ready_and_start_at_once() -> None:
    """Each answers for its own node."""
    stage = Stage()

    stage.tell(PREPARE)
    assert [(type(f), f.node) for f in stage.said()] == [(MemberReady, "n0"), (MemberReady, "n1")]

    stage.tell(RUN)
    assert [(type(f), f.node) for f in stage.said()] == [
        (MemberStarted, "n0"),
        (MemberStarted, "n1"),
    ]


def test_a_gang_saves_at_its_interval_and_ends_by_itself() -> None:
    """One agent reports each save; every member reports its end. What is resumed counts as done."""
    stage = Stage(runtime=45 * MINUTE)
    stage.running(resumed_ms=20 * MINUTE)

    facts = stage.until(100)

    assert saves(facts) == [30, 40]
    assert exits(facts) == [("n0", 0, "exited"), ("n1", 0, "exited")]


def test_nothing_works_before_every_member_runs() -> None:
    """The clock of the work starts with the last member."""
    stage = Stage(runtime=30 * MINUTE)
    stage.tell(PREPARE)
    stage.tell(RUN, on="n0")
    stage.until(15)
    stage.tell(RUN, on="n1")
    stage.said()

    assert exits(stage.until(44)) == []
    assert exits(stage.until(45)) == [("n0", 0, "exited"), ("n1", 0, "exited")]


def test_a_slow_node_is_ready_late() -> None:
    """So late as was said, and never when that was said."""
    stage = Stage()
    stage.fleet.slow("n0", ready_ms=3 * MINUTE)
    stage.fleet.slow("n1", ready_ms=None)

    stage.tell(PREPARE)

    assert stage.said() == []
    assert [fact.node for fact in stage.until(60)] == ["n0"]


def test_what_is_told_to_stop_works_through_its_grace_and_saves() -> None:
    """The save holds the work of the grace too."""
    stage = Stage()
    stage.running()
    stage.until(25)

    stage.tell(STOP, grace_ms=2 * MINUTE)

    assert stage.said() == []
    facts = stage.until(27)
    assert saves(facts) == [27]
    assert exits(facts) == [("n0", 143, "stopped"), ("n1", 143, "stopped")]


def test_without_checkpoints_the_grace_saves_nothing() -> None:
    """It works on all the same, as it might end."""
    stage = Stage(checkpoint=None)
    stage.running()
    stage.until(25)

    stage.tell(STOP, grace_ms=2 * MINUTE)

    facts = stage.until(30)
    assert saves(facts) == []
    assert exits(facts) == [("n0", 143, "stopped"), ("n1", 143, "stopped")]


def test_what_completes_in_its_grace_has_ended_by_itself() -> None:
    """Its own end comes first, also when both come at the same moment."""
    stage = Stage(runtime=27 * MINUTE)
    stage.running()
    stage.until(25)

    stage.tell(STOP, grace_ms=2 * MINUTE)

    assert exits(stage.until(30)) == [("n0", 0, "exited"), ("n1", 0, "exited")]


def test_a_second_order_to_stop_starts_no_second_grace() -> None:
    """Whoever else wants it gone, it is out at the end of the first."""
    stage = Stage()
    stage.running()
    stage.tell(STOP, grace_ms=5 * MINUTE)
    stage.until(3)

    stage.tell(STOP, grace_ms=5 * MINUTE)

    assert len(exits(stage.until(5))) == 2


def test_a_starting_gang_is_out_at_once() -> None:
    """There is nothing to save."""
    stage = Stage()
    stage.fleet.slow("n1", ready_ms=None)
    stage.tell(PREPARE)
    stage.said()

    stage.tell(STOP, grace_ms=5 * MINUTE)

    assert exits(stage.said()) == [("n0", 0, "not_started"), ("n1", 0, "not_started")]


def test_a_gang_with_a_dead_member_stands_still() -> None:
    """The dead machine says nothing; the other saves nothing more, and is out at once when told."""
    stage = Stage()
    stage.running()
    stage.until(25)

    stage.fleet.fail("n0", for_ms=None, now_ms=stage.now_ms)

    assert stage.until(120) == []
    stage.tell(STOP, grace_ms=5 * MINUTE)
    assert exits(stage.said()) == [("n1", 143, "stopped")]


def test_a_machine_comes_back_empty() -> None:
    """Under another boot id, and it does not start again what died with it."""
    stage = Stage()
    stage.running()
    stage.fleet.fail("n0", for_ms=10 * MINUTE, now_ms=stage.now_ms)

    facts = stage.until(11)

    assert [(type(f), f.boot_id) for f in facts] == [(NodeRegistered, "n0-boot-2")]
    assert stage.fleet.take_heard() == [("n0", False, 0), ("n0", True, 10 * MINUTE)]


def test_a_broken_gpu_takes_its_member_along() -> None:
    """The fault and the end are said; the other member stands still until it is told."""
    stage = Stage()
    stage.running()
    stage.until(5)

    stage.fleet.break_gpu("n1", gpu=3, kind="xid", now_ms=stage.now_ms)

    facts = stage.said()
    assert [type(fact) for fact in facts] == [FaultDetected, MemberExited]
    assert exits(facts) == [("n1", 1, "infrastructure")]
    assert stage.until(90) == []
    stage.tell(None, on="n1")
    stage.tell(STOP, on="n0", grace_ms=MINUTE)
    assert exits(stage.said()) == [("n0", 143, "stopped")]


def test_broken_hardware_is_found_again_after_a_reboot() -> None:
    """Also when the machine died before it could say so."""
    stage = Stage()
    stage.fleet.cut("n0", for_ms=None, now_ms=0)
    stage.fleet.break_gpu("n0", gpu=3, kind="ecc", now_ms=0)
    stage.fleet.fail("n0", for_ms=MINUTE, now_ms=0)
    stage.fleet.cut("n0", for_ms=0, now_ms=0)

    facts = stage.until(2)

    assert [type(fact) for fact in facts] == [NodeRegistered, FaultDetected]


def test_a_cut_off_node_works_on_and_tells_later() -> None:
    """Its facts come in order, then it obeys the newest assignment."""
    stage = Stage(runtime=60 * MINUTE)
    stage.running()
    for node in ("n0", "n1"):
        stage.fleet.cut(node, for_ms=30 * MINUTE, now_ms=0)

    assert stage.until(29) == []
    assert saves(stage.until(30)) == [10, 20, 30]
    assert exits(stage.until(60)) == [("n0", 0, "exited"), ("n1", 0, "exited")]


def test_a_checkpoint_is_reported_by_whoever_gets_through() -> None:
    """One reachable member is enough."""
    stage = Stage()
    stage.running()

    stage.fleet.cut("n0", for_ms=None, now_ms=0)

    facts = stage.until(10)
    assert [(f.node, type(f)) for f in facts] == [("n1", CheckpointSaved)]


def test_a_fenced_member_is_stopped_when_its_node_is_back() -> None:
    """It reports its end under its old attempt, and then makes ready for the new one."""
    stage = Stage()
    stage.running()
    stage.fleet.cut("n0", for_ms=30 * MINUTE, now_ms=0)
    stage.tell(PREPARE, on="n0", attempt=2)

    stage.until(29)
    facts = stage.until(30)

    assert [(type(f), f.attempt) for f in facts if not isinstance(f, CheckpointSaved)] == [
        (MemberExited, 1),
        (MemberReady, 2),
    ]


def test_programs_end_where_they_say() -> None:
    """A code at its moment, or success when the work is done before."""
    assert Program(runtime_ms=10, code=1).end == (10, 1)
    assert Program(runtime_ms=10, code=1, exits_after_ms=4).end == (4, 1)
    assert Program(runtime_ms=10, code=1, exits_after_ms=40).end == (10, 0)
    assert Program().end == (None, 0)


def test_nothing_is_left_of_a_gang_that_is_over() -> None:
    """Neither alarms nor objects pile up."""
    stage = Stage(runtime=MINUTE)
    stage.running()
    stage.until(2)

    stage.tell(None)

    assert stage.fleet.gang("j", 1) is None
    assert stage.fleet.gangs_on("n0") == []
    assert stage.fleet.next_ms() is None


def test_what_an_agent_never_had_is_not_started() -> None:
    """Told to stop a member that it does not know, it says that nothing of it runs."""
    stage = Stage()

    stage.tell(STOP, on="n0", grace_ms=0)

    facts = stage.said()
    assert [type(fact) for fact in facts] == [MemberExited]
    assert exits(facts) == [("n0", 0, "not_started")]
