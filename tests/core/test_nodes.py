"""Nodes: silence and loss, strikes and quarantine, unreadiness, what lingers."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.batch import Edge
from gangline.events.terms import Health, StopCause
from gangline.scheduler import core
from gangline.scheduler.core.turn import Refusal
from tests.core import make

LOST_AFTER = 2 * make.MINUTE
UNREADY_FOR = 10 * make.MINUTE


def fault(gpu: int, node: str = "n0", number: int = 0) -> f.FaultDetected:
    """A GPU breaks."""
    return f.FaultDetected(node=node, gpu=gpu, fault="xid", number=number)


def lost_world(**more: Any) -> make.World:
    """Three nodes; a gang on `n0` and `n1`; `n0` fell silent and is lost."""
    running = [make.gang("j", on=["n0", "n1"], gpus=16, saves=True)]
    world = make.world(nodes=3, running=running, **more)
    world.step(edges=[make.silent("n0", world.now_ms)])
    world.wait(LOST_AFTER)
    return world


# --- silence and loss -----------------------------------------------------------------------------


def test_a_silent_node_gets_no_new_work_and_keeps_its_gangs() -> None:
    """It is suspected; nothing is known to be broken."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0", gpus=4)])

    world.step(make.submitted("new", gpus=4), edges=[make.silent("n0", world.now_ms)])

    assert world.node("n0").health is Health.SUSPECTED
    assert [world.state_of(one) for one in ("old", "new")] == ["running", "queued"]


def test_a_node_that_is_heard_again_takes_new_work() -> None:
    """At once."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"), edges=[make.silent("n0", world.now_ms)])

    told = world.step(edges=[make.heard("n0", world.now_ms)])

    assert make.kinds(told) == ["NodeHealthChanged", "GangPlaced"]


def test_a_node_that_is_silent_for_too_long_is_lost() -> None:
    """From when it was last heard, not from when that was noticed; its gang is stopped."""
    world = make.world(nodes=2, running=[make.gang("j", on=["n0", "n1"], gpus=16)])
    world.step(edges=[make.silent("n0", world.now_ms - 30 * make.SECOND)])
    assert make.kinds(world.wait(LOST_AFTER - 30 * make.SECOND - 1)) == []

    told = world.wait(1)

    assert make.kinds(told) == ["NodeHealthChanged", "MemberEnded", "GangStopping"]
    assert world.node("n0").health is Health.LOST
    assert make.only(told, d.GangStopping).cause is StopCause.INFRASTRUCTURE


def test_the_gang_of_a_lost_node_goes_on_elsewhere_from_its_checkpoint() -> None:
    """As soon as its other members are out; no retry is lost."""
    world = make.world(nodes=3, running=[make.gang("j", on=["n0", "n1"], gpus=16, saves=True)])
    world.step(world.saved("j", make.MINUTE))
    world.step(edges=[make.silent("n0", world.now_ms)])
    world.wait(LOST_AFTER)

    world.exits("j", "n1", reason="stopped")
    started = make.only(world.ready("j"), d.GangStarted)

    assert world.nodes_of("j") == {"n1", "n2"}
    assert started.resumed_ms == make.MINUTE
    assert world.job("j").retries_used == 0


def test_what_a_lost_node_may_still_run_keeps_its_gpus_out() -> None:
    """Until the node says that it is gone: unreachable is not dead."""
    world = lost_world()
    world.exits("j", "n1", reason="stopped")
    world.ready("j")
    world.step(edges=[make.heard("n0", world.now_ms)])
    assert world.node("n0").health is Health.WELL
    assert world.node("n0").avail == 0

    world.step(f.MemberExited(node="n0", job="j", attempt=1, code=0, reason="stopped"))

    assert world.node("n0").avail == 0xFF


def test_a_fenced_attempt_is_assigned_to_be_stopped() -> None:
    """The agent that comes back is told so, until it says that nothing is left."""
    world = lost_world()
    world.exits("j", "n1", reason="stopped")

    (member,) = core.assigned_members(world.state, "n0")

    assert (member.job, member.attempt, member.phase) == ("j", 1, "stop")


def test_an_agent_that_does_not_list_the_fenced_attempt_frees_its_gpus() -> None:
    """Its registration says what it still has."""
    world = lost_world()
    world.exits("j", "n1", reason="stopped")

    world.step(f.NodeRegistered(node="n0", boot_id="b", gpus=8))

    assert world.node("n0").lingering == ()


def test_a_presumed_member_that_says_itself_that_it_is_out_does_not_linger() -> None:
    """Though its word came before the gang was released."""
    world = lost_world()

    world.step(world.exited("j", "n0", reason="stopped"))
    world.exits("j", "n1", reason="stopped")

    assert world.node("n0").lingering == ()


def test_a_gap_in_reading_gives_silent_nodes_their_time_again() -> None:
    """Their heartbeats may stand in what was not read."""
    world = make.world(nodes=1)
    world.step(edges=[make.silent("n0", world.now_ms)])
    gap = Edge(kind="led", node="s1", at_ms=0, why="gap")
    world.later(LOST_AFTER - 1).step(edges=[gap])

    world.wait(LOST_AFTER - 1)
    assert world.node("n0").health is Health.SUSPECTED
    world.wait(1)

    assert world.node("n0").health is Health.LOST


def test_edges_of_unknown_nodes_and_repeated_ones_change_nothing() -> None:
    """The driver may know a node that is gone."""
    world = make.world(nodes=1)
    world.step(edges=[make.silent("n0", world.now_ms)])
    again = [make.silent("n0", world.now_ms), make.heard("ghost", 1), make.silent("ghost", 1)]

    assert world.step(edges=again) == []


# --- registration ---------------------------------------------------------------------------------


def test_a_node_that_nobody_admitted_is_refused() -> None:
    """Its own word is not enough."""
    world = make.world()

    assert world.refusals(f.NodeRegistered(node="new", boot_id="b", gpus=8)) == [
        Refusal.NO_SUCH_NODE
    ]


def registered(**said: Any) -> f.NodeRegistered:
    """What a new node says of itself."""
    known: dict[str, Any] = {"path": ("s0", "b0"), "levels": ("spine", "block"), "gpus": 8}
    return f.NodeRegistered(boot_id="b", **{"node": "new", **known, **said})


def test_under_auto_admit_a_nodes_word_is_enough() -> None:
    """It serves demo and laptop."""
    world = make.world(auto_admit=1)

    told = world.step(registered())

    assert make.kinds(told) == ["NodeAdded", "NodeBooted"]
    assert world.node("new").avail == 0xFF


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"node": "two words"}, Refusal.BAD_NAME),
        ({"gpus": 0}, Refusal.BAD_VALUE),
        ({"gpus": 64}, Refusal.BAD_VALUE),
        ({"levels": ("rack", "row")}, Refusal.OTHER_LEVELS),
        ({"path": ("s0",)}, Refusal.OTHER_LEVELS),
    ],
)
def test_a_word_that_makes_no_sense_is_not(said: dict[str, Any], reason: Refusal) -> None:
    """The same rules as for an operator's."""
    assert make.world(auto_admit=1).refusals(registered(**said)) == [reason]


def test_after_a_reboot_what_is_not_listed_is_gone() -> None:
    """The gang is out at once, and starts anew."""
    world = make.world(nodes=1, running=[make.gang("j", on="n0")])
    world.step(f.NodeRegistered(node="n0", boot_id="before", gpus=8))

    told = world.later(make.HOUR).step(f.NodeRegistered(node="n0", boot_id="after", gpus=8))

    assert make.only(told, d.GangReleased).lingering == ()
    assert world.state_of("j") == "starting"
    assert world.job("j").attempt == 2


def test_an_agent_that_was_started_anew_keeps_its_gangs() -> None:
    """The machine is the same, and so are its processes."""
    world = make.world(nodes=1, running=[make.gang("j", on="n0")])
    world.step(f.NodeRegistered(node="n0", boot_id="same", gpus=8))
    listed = (f.RunningMember(job="j", attempt=1),)

    told = world.step(f.NodeRegistered(node="n0", boot_id="same", gpus=8, running=listed))

    assert told == []


def test_a_node_may_state_facts_of_itself_only() -> None:
    """Whoever says otherwise is refused."""
    world = make.world(nodes=2)
    forged = world.fact(fault(0, "n1"), actor="node:n0")

    assert make.only(world.step(forged), d.InputRejected).reason == Refusal.NOT_ITS_NODE


# --- faults, strikes, quarantine ------------------------------------------------------------------


def test_a_broken_gpu_is_out_alone() -> None:
    """The others of its node go on; the gang on it starts anew without it."""
    running = [make.gang("hit", on="n0", gpus=2), make.gang("spared", on="n0", gpus=2)]
    world = make.world(nodes=1, running=running)

    world.step(fault(1))
    world.exits("hit", reason="stopped")

    assert world.state_of("spared") == "running"
    assert world.job("hit").seats == (d.Seat(node="n0", gpus=(4, 5)),)


def test_a_cleared_fault_brings_the_gpu_back() -> None:
    """And what waits for it starts."""
    world = make.world(nodes=1)
    world.step(fault(3), make.submitted("j"))

    told = world.step(f.FaultCleared(node="n0", gpu=3))

    assert make.kinds(told) == ["GpuReturned", "GangPlaced"]


@pytest.mark.parametrize("gpu", [3, -1], ids=["of a GPU", "of the machine"])
def test_a_late_copy_of_a_cleared_fault_takes_nothing_out(gpu: int) -> None:
    """Nobody would clear it again; but the next fault of the same GPU does count."""
    world = make.world(nodes=1)
    world.step(fault(gpu, number=1))
    world.step(f.FaultCleared(node="n0", gpu=gpu, number=2))

    assert world.refusals(fault(gpu, number=1)) == [Refusal.DUPLICATE]
    assert world.node("n0").bad == 0

    assert "GpuWithdrawn" in make.kinds(world.step(fault(gpu, number=3)))


def test_a_late_copy_of_an_end_brings_no_gpu_back() -> None:
    """It was the end of the fault before."""
    world = make.world(nodes=1)
    world.step(fault(3, number=1))
    world.step(f.FaultCleared(node="n0", gpu=3, number=2))
    world.step(fault(3, number=3))

    assert world.refusals(f.FaultCleared(node="n0", gpu=3, number=2)) == [Refusal.DUPLICATE]
    assert world.node("n0").bad == 1 << 3


def test_a_late_copy_of_a_second_fault_is_known_by_what_ended_both() -> None:
    """It changed nothing when it came, as the GPU was out already."""
    world = make.world(nodes=1)
    world.step(fault(3, number=1))
    world.step(f.FaultDetected(node="n0", gpu=3, fault="nic", number=2))
    world.step(f.FaultCleared(node="n0", gpu=3, number=3))

    again = f.FaultDetected(node="n0", gpu=3, fault="nic", number=2)

    assert world.refusals(again) == [Refusal.DUPLICATE]


def test_numbers_begin_anew_with_a_boot() -> None:
    """A machine that was set up anew counts from its own clock; what it says is no late copy."""
    world = make.world(nodes=1)
    world.step(fault(3, number=64_800_000))
    world.step(f.FaultCleared(node="n0", gpu=3, number=64_800_001))
    world.step(f.NodeRegistered(node="n0", boot_id="another", gpus=8))

    told = world.step(fault(3, number=60_000))

    assert "GpuWithdrawn" in make.kinds(told)


FAULTS: list[tuple[Any, Refusal]] = [
    (fault(0, "ghost"), Refusal.NO_SUCH_NODE),
    (fault(8), Refusal.NO_SUCH_GPU),
    (fault(-2), Refusal.NO_SUCH_GPU),
    (fault(7), Refusal.DUPLICATE),
    (f.FaultCleared(node="ghost", gpu=0), Refusal.NO_SUCH_NODE),
    (f.FaultCleared(node="n0", gpu=0), Refusal.ALREADY_SO),
    (f.FaultCleared(node="n0", gpu=99), Refusal.ALREADY_SO),
]


@pytest.mark.parametrize(("said", "reason"), FAULTS)
def test_a_fault_that_cannot_be_is_refused(said: Any, reason: Refusal) -> None:
    """GPU 7 is broken already."""
    world = make.world(nodes=1)
    world.step(fault(7))

    assert world.refusals(said) == [reason]


def quarantines(world: make.World) -> list[int]:
    """Break three GPUs one after another; how long the node is quarantined for that."""
    told = world.step(fault(0)) + world.step(fault(1)) + world.step(fault(2))
    changes = [one for one in make.of_kind(told, d.NodeHealthChanged) if one.until_ms]
    world.step(f.FaultCleared(node="n0", gpu=-1))
    return [one.until_ms - world.now_ms for one in changes]


def test_a_fault_of_the_whole_machine_is_one_strike() -> None:
    """However many GPUs it takes out; the third within the window quarantines the node."""
    world = make.world(nodes=1)
    found = []
    for _ in range(3):
        world.later(make.MINUTE).step(fault(-1))
        found.append((world.node("n0").bad, world.node("n0").quarantines))
        world.later(make.MINUTE).step(f.FaultCleared(node="n0", gpu=-1))

    assert found == [(0xFF, 0), (0xFF, 0), (0xFF, 1)]


def test_each_quarantine_is_twice_as_long_as_the_one_before() -> None:
    """Three strikes in a day; gangs on the node run on."""
    world = make.world(nodes=1)

    spans = []
    for _ in range(4):
        spans += quarantines(world)
        world.wait(spans[-1])

    assert spans == [make.HOUR, 2 * make.HOUR, 4 * make.HOUR, 8 * make.HOUR]
    assert world.node("n0").health is Health.WELL


def test_strikes_are_forgotten_after_the_window() -> None:
    """Two today and one tomorrow quarantine nobody."""
    world = make.world(nodes=1)
    world.step(fault(0), fault(1))

    world.later(make.DAY).step(fault(2))

    assert world.node("n0").health is Health.WELL


def test_losses_are_strikes_too() -> None:
    """A node that comes and goes is quarantined, and its gangs run on."""
    world = make.world(nodes=1)
    for _ in range(3):
        world.step(edges=[make.silent("n0", world.now_ms)])
        world.wait(LOST_AFTER)
        world.step(edges=[make.heard("n0", world.now_ms)])

    assert world.node("n0").health is Health.QUARANTINED


def test_a_loss_during_a_quarantine_does_not_extend_it() -> None:
    """It is no strike then."""
    world = make.world(nodes=1)
    quarantines(world)
    until_ms = world.node("n0").quarantined_until_ms
    world.step(edges=[make.silent("n0", world.now_ms)])
    world.wait(LOST_AFTER)
    world.step(edges=[make.heard("n0", world.now_ms)])

    assert world.node("n0").quarantined_until_ms == until_ms
    assert world.node("n0").quarantines == 1


def test_gangs_on_a_quarantined_node_run_on() -> None:
    """It only gets no new ones."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0", gpus=1)])
    world.step(fault(5), fault(6), fault(7), make.submitted("new", gpus=1))

    assert [world.state_of(one) for one in ("old", "new")] == ["running", "queued"]


# --- unreadiness ----------------------------------------------------------------------------------


def unready(world: make.World, job: str) -> None:
    """Let a job meet `n0`, which does not get it ready in time; then it is called off."""
    world.step(make.submitted(job, gpus=8))
    world.wait(2 * make.MINUTE)
    world.step(f.JobCancelRequested(job=job))
    world.step(f.MemberExited(node="n0", job=job, attempt=1, code=0, reason="not_started"))


def test_a_node_that_is_not_ready_in_time_is_suspected_and_heartbeats_do_not_clear_it() -> None:
    """For ten minutes, then twice as long each time."""
    world = make.world(nodes=1)
    spans = []
    for job in ("j", "j2", "j3"):
        world.step(make.submitted(job))
        told = world.wait(2 * make.MINUTE)
        health = make.only(told, d.NodeHealthChanged)
        spans.append(health.until_ms - world.now_ms)
        world.step(edges=[make.heard("n0", world.now_ms)])
        assert world.node("n0").health is Health.SUSPECTED
        world.step(f.MemberExited(node="n0", job=job, attempt=1, code=0, reason="not_started"))
        world.step(f.JobCancelRequested(job=job))
        world.later(spans[-1]).step(f.PolicySet(values={"quarantine_after": 100 + len(spans)}))

    assert spans == [UNREADY_FOR, 2 * UNREADY_FOR, 4 * UNREADY_FOR]


def test_one_job_alone_does_not_bring_a_node_into_quarantine() -> None:
    """The job may be what is broken."""
    world = make.world(nodes=1, quarantine_after=2, hold_after=9)
    world.step(make.submitted("j"))
    for attempt in range(1, 5):
        world.wait(2 * make.MINUTE)
        gone = f.MemberExited(node="n0", job="j", attempt=attempt, code=0, reason="not_started")
        world.step(gone)
        world.wait(UNREADY_FOR << attempt)

    assert world.node("n0").unready_times > 2
    assert world.node("n0").quarantines == 0


def test_two_distinct_jobs_bring_a_node_into_quarantine() -> None:
    """Then unreadiness counts, as often as it happened."""
    world = make.world(nodes=1, quarantine_after=2)
    unready(world, "j")
    world.wait(UNREADY_FOR)

    unready(world, "k")

    assert world.node("n0").health is Health.QUARANTINED


def test_the_marks_of_a_job_that_is_held_are_withdrawn() -> None:
    """A poisonous job does not take the fleet down with it."""
    world = make.world(nodes=3, hold_after=2)
    world.step(make.submitted("j"))
    world.ready("j")
    world.exits("j", reason="infrastructure")
    assert [node for node in world.state.nodes.values() if node.strikes]

    world.ready("j")
    world.exits("j", reason="infrastructure")

    assert world.job("j").held_by == "scheduler"
    assert not [node for node in world.state.nodes.values() if node.strikes]
