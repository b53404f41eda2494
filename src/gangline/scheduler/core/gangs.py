"""Starting, running and ending of gangs.

Facts of agents about members, and what follows for the whole gang.

Two-phase start: GangPlaced, every member ready, GangStarted. A gang ends as a whole: when one
member fails or its node is lost, the others are stopped, and only when all are out does the gang
let go of its GPUs. What becomes of the job then follows from why it stopped and how its members
ended:

- cancelled, or over its limit: it ends as that, whatever its program did in the grace;
- all members ended by themselves with code 0: it succeeded, also in a grace;
- stopped for others (preemption, drain, maintenance) or by the machine's fault: it waits again, no
retry lost;
- its own failure: a retry is used, or it has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.decisions import Outcome, StopCause
from gangline.scheduler.core import health
from gangline.scheduler.core.apply import FENCED
from gangline.scheduler.core.entities import Job, MemberEnd, Node
from gangline.scheduler.core.fleet import mask_of
from gangline.scheduler.core.inputs import Fact
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.turn import Refusal, Turn

FREE_CAUSES: Final = (StopCause.PREEMPTED, StopCause.DRAINED, StopCause.MAINTENANCE)
_MOST_DOUBLINGS: Final = 20
HOLDING: Final = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)


MemberFact = (
    f.MemberReady | f.MemberStarted | f.MemberExited | f.CheckpointStarted | f.CheckpointSaved
)


def member_of(turn: Turn, fact: Fact, body: MemberFact) -> Job | None:
    """The job whose present attempt has a live member on that node.

    Refused, and None, otherwise.
    """
    job = turn.state.jobs.get(body.job)
    if job is None:
        known = body.job in turn.state.done
        turn.refuse(fact, Refusal.JOB_ENDED if known else Refusal.NO_SUCH_JOB)
        return None
    if body.attempt != job.attempt or job.phase not in HOLDING:
        turn.refuse(fact, Refusal.OLD_ATTEMPT)
        return None
    if all(seat.node != body.node for seat in job.seats):
        turn.refuse(fact, Refusal.NOT_ITS_MEMBER)
        return None
    return job


def member_ready(turn: Turn, fact: Fact, body: f.MemberReady) -> None:
    """A member could start; the last one starts the gang."""
    job = member_of(turn, fact, body)
    if job is None:
        return
    if job.phase is not Phase.STARTING:
        turn.refuse(fact, Refusal.WRONG_PHASE)
        return
    if body.node in job.ready:
        turn.refuse(fact, Refusal.DUPLICATE)
        return
    first = body.node == job.seats[0].node
    turn.decide(
        d.MembersReady(
            job=job.id,
            attempt=job.attempt,
            nodes=(body.node,),
            address=body.address if first else "",
            port=body.port if first else 0,
        )
    )
    if len(job.ready) == len(job.seats):
        start(turn, job)


def start(turn: Turn, job: Job) -> None:
    """All members are ready: the processes may run, from the newest checkpoint."""
    turn.decide(
        d.GangStarted(
            job=job.id,
            attempt=job.attempt,
            resumed_ms=job.saved_ms,
            resume_step=job.saved_step,
            resume_path=job.saved_path,
            address=job.address,
            port=job.port,
        )
    )


def member_started(turn: Turn, fact: Fact, body: f.MemberStarted) -> None:
    """Nothing follows: GangStarted has said it already."""
    member_of(turn, fact, body)


def checkpoint_started(turn: Turn, fact: Fact, body: f.CheckpointStarted) -> None:
    """Nothing follows until it is saved."""
    member_of(turn, fact, body)


def checkpoint_saved(turn: Turn, fact: Fact, body: f.CheckpointSaved) -> None:
    """The newest complete checkpoint is what the next attempt goes on from."""
    job = member_of(turn, fact, body)
    if job is None:
        return
    if not job.started_ms:
        turn.refuse(fact, Refusal.WRONG_PHASE)
        return
    longest = job.resumed_ms + turn.now_ms - job.started_ms
    if (body.productive_ms, body.step) <= (job.saved_ms, job.saved_step):
        turn.refuse(fact, Refusal.DUPLICATE)
        return
    turn.decide(
        d.CheckpointRecorded(
            job=job.id,
            attempt=job.attempt,
            node=body.node,
            step=body.step,
            path=body.path,
            productive_ms=max(job.saved_ms, min(body.productive_ms, longest)),
        )
    )


def member_exited(turn: Turn, fact: Fact, body: f.MemberExited) -> None:
    """A member is out: of a stale attempt, of a gang that stops, or by itself."""
    node = turn.state.nodes.get(body.node)
    if node is not None and _lingered(turn, node, body.job, body.attempt):
        return
    job = member_of(turn, fact, body)
    if job is None:
        return
    known = next((end for end in job.ended if end.node == body.node), None)
    if known is not None and not known.presumed:
        turn.refuse(fact, Refusal.DUPLICATE)
        return
    turn.decide(
        d.MemberEnded(
            job=job.id,
            attempt=job.attempt,
            node=body.node,
            code=body.code,
            signal=body.signal,
            reason=body.reason,
            failed_at_ms=body.failed_at_ms,
        )
    )
    if known is not None:
        return  # what was presumed is certain now: nothing of it lingers there
    if body.reason == "infrastructure" and node is not None and not job.stop_cause:
        suspect_early(turn, job, node)
    after_end(turn, job)


def suspect_early(turn: Turn, job: Job, node: Node) -> None:
    """Suspect a node on which an attempt broke down at once though no fault is known of it."""
    seat = job.seats[node.gangs[job.id]]
    ran_ms = turn.now_ms - (job.started_ms or turn.now_ms)
    if ran_ms < turn.state.cell.policy["crash_loop_under"] and not node.bad & mask_of(seat.gpus):
        health.mark_unready(turn, node, job)


def _lingered(turn: Turn, node: Node, job: str, attempt: int) -> bool:
    """Whether this was a fenced attempt's last sign on the node; its GPUs come back then."""
    if all((x.job, x.attempt) != (job, attempt) for x in node.lingering):
        return False
    turn.decide(d.MemberEnded(job=job, attempt=attempt, node=node.name, code=0, reason=FENCED))
    return True


def end_member(
    turn: Turn, job: Job, node: str, *, reason: str = "infrastructure", presumed: bool = False
) -> None:
    """Record that a member is out, though its agent has not said how."""
    turn.decide(
        d.MemberEnded(
            job=job.id, attempt=job.attempt, node=node, code=0, reason=reason, presumed=presumed
        )
    )


def after_end(turn: Turn, job: Job) -> None:
    """What follows for the gang when one more member is out."""
    if job.phase is Phase.STARTING and job.ended[-1].reason == "not_started":
        abort_start(turn, job, slow=(job.ended[-1].node,), why="a member turned the gang away")
    elif len(job.ended) == len(job.seats):
        release(turn, job)
    elif job.phase is not Phase.STOPPING and any(_failed(e.code, e.reason) for e in job.ended):
        grace = turn.state.cell.policy["abort_grace"] if job.started_ms else 0
        stop(turn, job, cause=_failure_cause(job), grace_ms=grace)


def _failed(code: int, reason: str) -> bool:
    return code != 0 or reason != "exited"


def _failure_cause(job: Job) -> StopCause:
    """The machine's fault if any member says so, else the user's."""
    machine = any(e.by_machine for e in job.ended)
    return StopCause.INFRASTRUCTURE if machine else StopCause.USER


def stop(
    turn: Turn, job: Job, *, cause: StopCause, grace_ms: int | None = None, by: str = ""
) -> None:
    """Tell a gang to stop; one that has not started has nothing to save."""
    grace = grace_of(turn, job) if grace_ms is None else grace_ms
    turn.decide(
        d.GangStopping(
            job=job.id,
            attempt=job.attempt,
            cause=cause,
            grace_ms=grace if job.started_ms else 0,
            by=by,
        )
    )


def grace_of(turn: Turn, job: Job) -> int:
    """Its own grace, or the policy's."""
    own = job.spec.grace_ms
    return turn.state.cell.policy["preemption_grace"] if own is None else own


def release(turn: Turn, job: Job) -> None:
    """All members are out: let the GPUs go, and say what becomes of the job."""
    cause = _release_cause(job)
    ended_well = all(e.code == 0 and e.reason == "exited" for e in job.ended)
    outcome = _outcome(turn, job, cause=cause, ended_well=ended_well)
    running_ms = turn.now_ms - job.started_ms if job.started_ms else 0
    unsaved_ms = max(0, job.resumed_ms + running_ms - job.saved_ms) if job.started_ms else 0
    goes_on = outcome is None
    presumed = tuple(e.node for e in job.ended if e.presumed)
    first = _first_failure(job)
    released = d.GangReleased(
        job=job.id,
        attempt=job.attempt,
        cause=cause,
        lost_gpu_ms=unsaved_ms * job.gpus if goes_on else 0,
        productive_ms=job.saved_ms if goes_on else job.resumed_ms + running_ms,
        lingering=presumed,
        failed_on=first.node if first else "",
        code=first.code if first else 0,
        signal=first.signal if first else 0,
    )
    short = running_ms < turn.state.cell.policy["crash_loop_under"]
    turn.decide(released)
    if outcome is not None:
        finish(turn, job, outcome=outcome[0], reason=outcome[1], code=released.code)
        return
    requeue(turn, job, cause=cause, short=short)


def _release_cause(job: Job) -> StopCause:
    """Why a gang is out. A failure in a grace counts as the stop it was told of."""
    machine = any(e.by_machine for e in job.ended)
    if machine and job.stop_cause == StopCause.USER:
        # What looked like the program's failure came of a node that was lost meanwhile.
        return StopCause.INFRASTRUCTURE
    if job.stop_cause:
        return StopCause(job.stop_cause)
    if any(_failed(e.code, e.reason) for e in job.ended):
        return _failure_cause(job)
    return StopCause.FINISHED


def _outcome(
    turn: Turn, job: Job, *, cause: StopCause, ended_well: bool
) -> tuple[Outcome, str] | None:
    """How the job ends, or None when it goes on."""
    if job.final == StopCause.CANCELLED:
        return Outcome.CANCELLED, "cancelled"
    if job.final == StopCause.LIMIT:
        return Outcome.FAILED, "limit"
    if ended_well and job.started_ms:
        return Outcome.SUCCEEDED, ""
    if cause is StopCause.USER:
        own = job.spec.retries
        allowed = turn.state.cell.policy["retries"] if own is None else own
        if job.retries_used >= allowed:
            first = _first_failure(job)
            return Outcome.FAILED, f"exit code {first.code if first else 0}"
    return None


def _first_failure(job: Job) -> MemberEnd | None:
    """Who failed first by the nodes' clocks: the others die of it, and are often heard of sooner.

    Where clocks say nothing, who was heard of first.
    """
    failed = [e for e in job.ended if e.code or e.signal]
    return min(failed, key=lambda e: (not e.failed_at_ms, e.failed_at_ms), default=None)


def requeue(turn: Turn, job: Job, *, cause: StopCause, short: bool) -> None:
    """Let the job wait again.

    Crash loops are backed off, and a job under which node after node fails is held.
    """
    policy = turn.state.cell.policy
    retries = job.retries_used + (1 if cause is StopCause.USER else 0)
    wait_ms = _backoff_ms(turn, job, cause=cause, retries=retries) if short else 0
    turn.decide(
        d.JobRequeued(
            job=job.id,
            attempt=job.attempt,
            cause=cause,
            retries_used=retries,
            not_before_ms=turn.now_ms + wait_ms if wait_ms else 0,
        )
    )
    most = policy["hold_after"]
    if job.failures >= most and len(job.failed_nodes) >= most and not job.held_by:
        why = f"{len(job.failed_nodes)} infrastructure failures in a row without new progress"
        turn.decide(d.JobHeld(job=job.id, by="scheduler", why=why))


def _backoff_ms(turn: Turn, job: Job, *, cause: StopCause, retries: int) -> int:
    """How long an attempt that ended soon after its start is put off.

    A first bad node costs nothing.
    """
    policy = turn.state.cell.policy
    if cause is StopCause.USER:
        times = retries
    elif cause is StopCause.INFRASTRUCTURE:
        times = job.failures - 1
    else:
        return 0
    if times < 1:
        return 0
    doubled = policy["crash_loop_backoff"] << min(times - 1, _MOST_DOUBLINGS)
    return min(doubled, policy["crash_loop_backoff_max"])


def finish(turn: Turn, job: Job, *, outcome: Outcome, reason: str = "", code: int = 0) -> None:
    """The job has ended.

    What was kept for it is let go, and what waits for its success fails with it.
    """
    if job.id in turn.state.reservations:
        turn.decide(d.ReservationReleased(job=job.id, why="cancelled"))
    array = job.array
    turn.decide(d.JobFinished(job=job.id, outcome=outcome, reason=reason, code=code))
    if outcome is not Outcome.SUCCEEDED:
        fail_dependents(turn, job.id)
    if array and turn.state.done.get(array) and turn.state.done[array].outcome != Outcome.SUCCEEDED:
        fail_dependents(turn, array)


def fail_dependents(turn: Turn, job_id: str) -> None:
    """Jobs that waited for its success can never start."""
    waiting = turn.state.dependents.get(job_id, [])
    while waiting:
        other = turn.state.jobs.get(waiting[0])
        if other is None or other.phase is not Phase.QUEUED:
            waiting.pop(0)
            continue
        finish(turn, other, outcome=Outcome.FAILED, reason=f"dependency {job_id}")


def abort_start(turn: Turn, job: Job, *, slow: tuple[str, ...], why: str) -> None:
    """Not all were ready in time: everything is released, and the slow nodes are suspected."""
    turn.decide(d.GangStartAborted(job=job.id, attempt=job.attempt, slow=slow, why=why))
    for name in slow:
        node = turn.state.nodes.get(name)
        if node is not None:
            health.mark_unready(turn, node, job)
        if all(e.node != name for e in job.ended):
            # It only prepared; its agent will say when it has stopped, and its GPUs stay out until
            # then.
            end_member(turn, job, name, reason="not_started", presumed=True)
    if len(job.ended) == len(job.seats):
        release(turn, job)


HANDLERS: Final[Mapping[type, object]] = {
    f.MemberReady: member_ready,
    f.MemberStarted: member_started,
    f.MemberExited: member_exited,
    f.CheckpointStarted: checkpoint_started,
    f.CheckpointSaved: checkpoint_saved,
}
