"""Starting, running and ending of gangs."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.terms import StopCause
from gangline.scheduler import core
from gangline.scheduler.core.turn import Refusal
from tests.core import make

# --- starting -------------------------------------------------------------------------------------


def test_a_gang_starts_when_its_last_member_is_ready() -> None:
    """With the rendezvous of rank 0's member."""
    world = make.world(nodes=2)
    world.step(make.submitted("j", gpus=16))
    first, last = world.members("j")
    assert make.kinds(world.ready("j", last)) == ["MembersReady"]

    started = make.only(world.ready("j", first), d.GangStarted)

    assert (started.address, started.port) == (first, 7)


def test_ranks_follow_the_tree() -> None:
    """Neighbours in a ring are near: blocks are not mixed."""
    world = make.world(nodes={"s0/b0": 1, "s0/b1": 2, "s1/b2": 1})
    world.step(make.submitted("j", gpus=32))

    ranks = {seat.node: seat.first_rank for seat in world.job("j").seats}

    assert ranks == {"n0": 0, "n1": 8, "n2": 16, "n3": 24}


def test_a_gang_that_is_not_ready_in_time_is_let_go_whole() -> None:
    """The slow node is suspected, the gang starts elsewhere; no retry is lost."""
    world = make.world(nodes=3)
    world.step(make.submitted("j", gpus=16))
    fast, slow = world.members("j")
    world.ready("j", fast)

    aborted = make.only(world.wait(2 * make.MINUTE), d.GangStartAborted)
    world.exits("j", fast, reason="not_started")

    assert aborted.slow == (slow,)
    assert slow not in world.nodes_of("j")
    assert (world.job("j").attempt, world.job("j").retries_used) == (2, 0)


def test_what_is_slow_keeps_its_gpus_out_until_it_says_so() -> None:
    """It may still be preparing."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"))
    world.wait(2 * make.MINUTE)
    assert world.node("n0").stuck == 0xFF

    world.step(f.MemberExited(node="n0", job="j", attempt=1, code=0, reason="not_started"))

    assert world.node("n0").stuck == 0


def test_a_member_that_turns_the_gang_away_aborts_the_start() -> None:
    """Without waiting for the others' time."""
    world = make.world(nodes=3)
    world.step(make.submitted("j", gpus=16))
    first, _ = world.members("j")

    told = world.exits("j", first, reason="not_started")

    assert make.only(told, d.GangStartAborted).slow == (first,)


MEMBERS: list[tuple[Any, Refusal]] = [
    (f.MemberReady(node="n0", job="ghost", attempt=1), Refusal.NO_SUCH_JOB),
    (f.MemberReady(node="n0", job="gone", attempt=1), Refusal.JOB_ENDED),
    (f.MemberReady(node="n0", job="j", attempt=2), Refusal.OLD_ATTEMPT),
    (f.MemberReady(node="n0", job="j", attempt=0), Refusal.OLD_ATTEMPT),
    (f.MemberReady(node="n2", job="j", attempt=1), Refusal.NOT_ITS_MEMBER),
    (f.MemberReady(node="n0", job="j", attempt=1), Refusal.DUPLICATE),
    (f.MemberReady(node="n2", job="runs", attempt=1), Refusal.WRONG_PHASE),
    (f.MemberExited(node="n0", job="j", attempt=7, code=0), Refusal.OLD_ATTEMPT),
    (f.MemberExited(node="n2", job="j", attempt=1, code=0), Refusal.NOT_ITS_MEMBER),
    (f.MemberStarted(node="n0", job="j", attempt=7), Refusal.OLD_ATTEMPT),
    (f.MemberStarted(node="n0", job="ghost", attempt=1), Refusal.NO_SUCH_JOB),
    (f.CheckpointStarted(node="n0", job="j", attempt=7, step=1), Refusal.OLD_ATTEMPT),
    (
        f.CheckpointSaved(node="n0", job="j", attempt=1, step=1, path="/c", productive_ms=1),
        Refusal.WRONG_PHASE,
    ),
]


@pytest.mark.parametrize(("said", "reason"), MEMBERS)
def test_a_members_word_that_does_not_fit_is_refused(said: Any, reason: Refusal) -> None:
    """`j` starts on n0 and n1, where n0 is ready; `runs` runs on n2; `gone` has ended."""
    world = make.world(nodes=3, running=[make.gang("runs", on="n2")])
    world.step(make.submitted("gone", gpus=0))
    world.step(make.submitted("j", gpus=16))
    world.ready("j", "n0")

    assert world.refusals(said) == [reason]


def test_a_member_that_started_or_began_to_save_changes_nothing() -> None:
    """GangStarted said the one, and only what is saved counts of the other."""
    world = make.two_members()

    told = world.step(
        f.MemberStarted(node="n0", job="j", attempt=1),
        f.CheckpointStarted(node="n0", job="j", attempt=1, step=1),
    )

    assert make.kinds(told) == []


# --- checkpoints ----------------------------------------------------------------------------------


def test_the_newest_checkpoint_is_what_the_next_attempt_goes_on_from() -> None:
    """With its step and its path."""
    world = make.two_members(saves=True)
    world.step(world.saved("j", 10 * make.MINUTE, step=5, path="/c/5"))
    world.exits("j", reason="infrastructure")

    started = make.only(world.ready("j"), d.GangStarted)

    assert (started.resumed_ms, started.resume_step) == (10 * make.MINUTE, 5)
    assert started.resume_path == "/c/5"


def test_an_older_checkpoint_is_refused() -> None:
    """So is the same from another member."""
    world = make.two_members(saves=True)
    world.step(world.saved("j", 10))

    assert world.refusals(world.saved("j", 9)) == [Refusal.DUPLICATE]
    assert world.refusals(world.saved("j", 10, node="n1")) == [Refusal.DUPLICATE]


def test_nobody_has_saved_more_than_has_run() -> None:
    """An agent's claim is cut to the time since the start."""
    world = make.two_members(saves=True)

    recorded = make.only(world.step(world.saved("j", make.DAY)), d.CheckpointRecorded)

    assert recorded.productive_ms == make.HOUR


def test_what_was_not_saved_is_lost() -> None:
    """GPU-time since the last checkpoint; a job that ended well loses nothing."""
    world = make.two_members(saves=True)
    world.step(world.saved("j", 50 * make.MINUTE))

    released = make.only(world.exits("j", reason="infrastructure"), d.GangReleased)

    assert released.lost_gpu_ms == 16 * 10 * make.MINUTE
    assert released.productive_ms == 50 * make.MINUTE


# --- ending ---------------------------------------------------------------------------------------


def test_a_gang_succeeds_when_all_members_end_with_code_0() -> None:
    """Not before the last."""
    world = make.two_members()
    assert make.kinds(world.exits("j", "n0")) == ["MemberEnded"]

    told = world.exits("j", "n1")

    assert make.only(told, d.GangReleased).cause is StopCause.FINISHED
    assert world.state_of("j") == "succeeded"


# --- limits ---------------------------------------------------------------------------------------


def test_a_declared_limit_ends_a_job_as_failed() -> None:
    """After its grace."""
    running = [make.gang("j", on="n0", ran_ms=0, limit_ms=make.HOUR, grace_ms=make.MINUTE)]
    world = make.world(nodes=1, running=running)

    stopping = make.only(world.wait(make.HOUR), d.GangStopping)
    finished = make.only(world.later(make.MINUTE).exits("j", **make.STOPPED), d.JobFinished)

    assert (stopping.cause, stopping.grace_ms) == (StopCause.LIMIT, make.MINUTE)
    assert (finished.outcome, finished.reason) == ("failed", "limit")


def test_the_limit_counts_what_was_resumed() -> None:
    """Half of it was used by the attempt before."""
    running = [make.gang("j", on="n0", limit_ms=2 * make.HOUR, saves=True)]
    world = make.world(nodes=2, running=running)
    world.step(world.saved("j", make.HOUR))
    world.exits("j", reason="infrastructure")
    world.ready("j")
    assert "GangStopping" not in make.kinds(world.wait(make.HOUR - 1))

    assert "GangStopping" in make.kinds(world.wait(1))


# --- grace ----------------------------------------------------------------------------------------


def test_a_gang_that_ends_well_in_its_grace_has_succeeded() -> None:
    """Though it was told to stop for others."""
    world = make.two_members()
    world.step(f.DrainRequested(node="n0", deadline_ms=0))
    world.wait(1)

    world.exits("j")

    assert world.state_of("j") == "succeeded"


def test_a_failure_in_the_grace_costs_no_retry() -> None:
    """It was told to stop."""
    world = make.two_members(retries=0)
    world.step(f.DrainRequested(node="n0", deadline_ms=0))
    world.wait(1)

    requeued = make.only(world.exits("j", code=1), d.JobRequeued)

    assert (requeued.cause, requeued.retries_used) == (StopCause.DRAINED, 0)


def test_a_cancel_in_a_running_grace_starts_no_second_one() -> None:
    """The first deadline stays."""
    world = make.two_members(grace_ms=make.MINUTE)
    world.step(f.DrainRequested(node="n0", deadline_ms=0))
    world.wait(1)
    begun_ms = world.job("j").stop_ms

    world.later(20 * make.SECOND).step(f.JobCancelRequested(job="j"))

    job = world.job("j")
    assert job.stop_ms + job.stop_grace_ms == begun_ms + make.MINUTE
    world.exits("j")
    assert world.state_of("j") == "cancelled"


def test_a_gang_that_does_not_end_drains_its_nodes() -> None:
    """Long after its grace; they are never taken to be free."""
    world = make.world(nodes=2, running=[make.gang("j", on="n0", grace_ms=make.MINUTE)])
    world.step(f.JobCancelRequested(job="j"))

    told = world.wait(2 * make.MINUTE)

    assert make.only(told, d.NodeServiceChanged).service == "draining"
    assert world.node("n0").stuck == 0xFF
    assert world.state_of("j") == "cancelled"


def test_a_silent_node_is_not_taken_for_a_stuck_one() -> None:
    """It is judged when it is lost or heard."""
    world = make.world(nodes=1, running=[make.gang("j", on="n0", grace_ms=0)])
    world.step(f.JobCancelRequested(job="j"), edges=[make.silent("n0", world.now_ms)])

    told = world.wait(3 * make.MINUTE)

    assert "NodeServiceChanged" not in make.kinds(told)


# --- cancel in every phase ------------------------------------------------------------------------


def test_cancelling_what_starts_stops_it_without_grace() -> None:
    """It has nothing to save."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"))

    stopping = make.only(world.step(f.JobCancelRequested(job="j")), d.GangStopping)
    world.exits("j", reason="not_started")

    assert (stopping.cause, stopping.grace_ms) == (StopCause.CANCELLED, 0)
    assert world.state_of("j") == "cancelled"


def test_a_cancelled_gang_holds_its_gpus_until_it_is_out() -> None:
    """And its state with them."""
    world = make.two_members()

    world.step(f.JobCancelRequested(job="j"))

    assert world.state_of("j") == "running"
    assert core.fleet_numbers(world.state).held == 16


def test_a_cancel_wins_over_what_the_program_says() -> None:
    """Also over success in the grace."""
    world = make.two_members()
    world.step(f.JobCancelRequested(job="j"))

    world.exits("j")

    assert world.state_of("j") == "cancelled"


def test_cancelling_what_is_backed_off_ends_it() -> None:
    """It waits like any other."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"))
    world.ready("j")
    world.exits("j", code=1)

    world.step(f.JobCancelRequested(job="j"))

    assert world.state_of("j") == "cancelled"


# --- assignments ----------------------------------------------------------------------------------


def test_an_assignment_says_what_a_node_should_run() -> None:
    """Prepare, run, stop; and nothing when the member is out."""
    world = make.world(nodes=1)
    phases = []

    def look() -> None:
        phases.append([str(m.phase) for m in core.assigned_members(world.state, "n0")])

    look()
    world.step(make.submitted("j", grace_ms=make.MINUTE))
    look()
    world.ready("j")
    look()
    world.step(f.JobCancelRequested(job="j"))
    look()
    world.exits("j")
    look()

    assert phases == [[], ["prepare"], ["run"], ["stop"], []]


def test_an_assignment_tells_a_member_its_place_in_the_gang() -> None:
    """Ranks count in GPUs; where to resume from stands there too."""
    world = make.two_members(saves=True)
    world.step(world.saved("j", 5, step=1, path="/c/1"))
    world.exits("j", reason="infrastructure")
    world.ready("j")
    second = world.members("j")[1]

    (member,) = core.assigned_members(world.state, second)

    assert (member.member, member.first_rank, member.world_size) == (1, 8, 16)
    assert (member.resume_path, member.resumed_ms) == ("/c/1", 5)
    assert member.nodes == tuple(world.members("j"))


def test_only_nodes_whose_assignment_may_have_changed_are_touched() -> None:
    """Asked once, they are told once."""
    world = make.world(nodes=3)
    core.take_touched(world.state)

    world.step(make.submitted("j", gpus=8))

    assert set(core.take_touched(world.state)) == world.nodes_of("j")
    assert core.take_touched(world.state) == ()


def test_what_breaks_while_it_is_told_to_stop_is_no_word_about_the_node() -> None:
    """A cancelled job's supervisor may not even have begun; the node takes new work at once."""
    world = make.world(nodes=1)
    world.step(make.submitted("j", gpus=8))
    world.ready("j")
    world.step(f.JobCancelRequested(job="j"))

    told = world.exits("j", reason="infrastructure")

    assert make.of_kind(told, d.NodeHealthChanged) == []
    world.step(make.submitted("next", gpus=8))
    assert world.state_of("next") == "starting"
