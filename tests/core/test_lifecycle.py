"""The life of a job: every move of the table, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.terms import Outcome, StopCause
from gangline.scheduler.core.lifecycle import TRANSITIONS, BrokenInvariantError, Phase, moved
from tests.core import make

JOB = "j"

# Written out once more, so that a change of the table is a change of two places.
MOVES: list[tuple[Phase, type, Phase]] = [
    (Phase.QUEUED, d.GangPlaced, Phase.STARTING),
    (Phase.QUEUED, d.JobFinished, Phase.ENDED),
    (Phase.QUEUED, d.JobRejected, Phase.ENDED),
    (Phase.STARTING, d.GangStarted, Phase.RUNNING),
    (Phase.STARTING, d.GangStartAborted, Phase.STOPPING),
    (Phase.STARTING, d.GangPreempted, Phase.STOPPING),
    (Phase.STARTING, d.GangStopping, Phase.STOPPING),
    (Phase.STARTING, d.GangReleased, Phase.RELEASED),
    (Phase.RUNNING, d.GangPreempted, Phase.STOPPING),
    (Phase.RUNNING, d.GangStopping, Phase.STOPPING),
    (Phase.RUNNING, d.GangReleased, Phase.RELEASED),
    (Phase.STOPPING, d.GangStopping, Phase.STOPPING),
    (Phase.STOPPING, d.GangReleased, Phase.RELEASED),
    (Phase.RELEASED, d.JobRequeued, Phase.QUEUED),
    (Phase.RELEASED, d.JobFinished, Phase.ENDED),
]
DECISIONS: dict[type, Any] = {
    d.GangPlaced: d.GangPlaced(
        job=JOB,
        attempt=1,
        seats=(d.Seat(node="n0", gpus=(0,)),),
        level="node",
        crossed=1,
        borrowed=0,
    ),
    d.JobFinished: d.JobFinished(job=JOB, outcome=Outcome.FAILED),
    d.JobRejected: d.JobRejected(job=JOB, team="a", reason="quota", text="never"),
    d.GangStarted: d.GangStarted(job=JOB, attempt=1, resumed_ms=0),
    d.GangStartAborted: d.GangStartAborted(job=JOB, attempt=1, slow=("n0",), why="not ready"),
    d.GangPreempted: d.GangPreempted(
        job=JOB, attempt=1, claimant="other", claimant_attempt=1, cause="class", grace_ms=0
    ),
    d.GangStopping: d.GangStopping(job=JOB, attempt=1, cause=StopCause.DRAINED, grace_ms=0),
    d.GangReleased: d.GangReleased(
        job=JOB, attempt=1, cause=StopCause.DRAINED, lost_gpu_ms=0, productive_ms=0
    ),
    d.JobRequeued: d.JobRequeued(job=JOB, attempt=1, cause=StopCause.DRAINED, retries_used=0),
}
WAY: dict[Phase, tuple[type, ...]] = {
    Phase.QUEUED: (),
    Phase.STARTING: (d.GangPlaced,),
    Phase.RUNNING: (d.GangPlaced, d.GangStarted),
    Phase.STOPPING: (d.GangPlaced, d.GangStarted, d.GangStopping),
    Phase.RELEASED: (d.GangPlaced, d.GangStarted, d.GangReleased),
}


def world_in(phase: Phase) -> make.World:
    """A world whose job is in this phase; it was held, so that nothing else happens to it."""
    world = make.world(nodes=1)
    world.step(make.submitted("other", gpus=8), make.submitted(JOB, gpus=1))
    for kind in WAY[phase]:
        world.force(DECISIONS[kind])
    return world


@pytest.mark.parametrize(("phase", "kind", "after"), MOVES)
def test_a_decision_moves_a_job_along_the_table(phase: Phase, kind: type, after: Phase) -> None:
    """Ended jobs leave the state; all others are in the phase that the table says."""
    world = world_in(phase)

    world.force(DECISIONS[kind])

    job = world.state.jobs.get(JOB)
    assert after is (Phase.ENDED if job is None else job.phase)


def test_the_table_has_no_other_moves() -> None:
    """Who adds one tells its story here."""
    assert dict(TRANSITIONS) == {(phase, kind): after for phase, kind, after in MOVES}


@pytest.mark.parametrize(
    ("phase", "kind"),
    [(p, k) for p in Phase for k in DECISIONS if (p, k) not in TRANSITIONS],
)
def test_a_move_that_is_not_in_the_table_crashes(phase: Phase, kind: type) -> None:
    """The scheduler would contradict itself; the message names the decision and the phase."""
    with pytest.raises(BrokenInvariantError, match=f"{kind.__name__}.*{phase.name.lower()}"):
        moved(phase, DECISIONS[kind])


def test_decisions_that_say_nothing_of_a_phase_move_no_job() -> None:
    """Only the table's own decisions are in it."""
    others = [kind for kind in codec.DECISIONS if kind not in DECISIONS]

    assert not [key for key in TRANSITIONS if key[1] in others]


def test_time_that_goes_back_crashes() -> None:
    """Ages and deadlines would mean nothing any more."""
    world = world_in(Phase.RUNNING)
    world.now_ms -= 1

    with pytest.raises(BrokenInvariantError, match="time went back"):
        world.force(DECISIONS[d.GangStopping])


def test_a_whole_life_is_told_in_order() -> None:
    """Queued, placed, ready, started, out, ended."""
    world = make.world(nodes=2)

    told = world.step(make.submitted(JOB, gpus=16, gpus_per_node=8))
    told += world.ready(JOB)
    told += world.later(make.HOUR).exits(JOB)

    assert make.kinds(told) == [
        "JobQueued",
        "GangPlaced",
        "MembersReady",
        "MembersReady",
        "GangStarted",
        "MemberEnded",
        "MemberEnded",
        "GangReleased",
        "JobFinished",
    ]
    assert world.state_of(JOB) == "succeeded"
