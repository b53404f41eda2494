"""The fold: how each decision changes the state. Nothing else does.

`apply` is called for a decision the moment it is made, and again wherever recorded decisions are
folded; both ways the same state comes out. A decision that contradicts the state is a broken
invariant and crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gangline.events import codec
from gangline.events import decisions as d
from gangline.scheduler.core import apply_fleet
from gangline.scheduler.core.assumed import NEVER, protected_until_ms
from gangline.scheduler.core.entities import (
    Done,
    Job,
    Kept,
    Lingering,
    MemberEnd,
    Node,
    Reservation,
    Spent,
)
from gangline.scheduler.core.fleet import mask_of
from gangline.scheduler.core.lifecycle import BrokenInvariantError, Phase, moved
from gangline.scheduler.core.policy import HOUR
from gangline.scheduler.core.state import State

FENCED: Final = "fenced"


def apply(state: State, decision: d.Decision, now_ms: int) -> None:
    """Change the state as the decision says."""
    cell = state.cell
    if now_ms < cell.now_ms:
        message = f"time went back from {cell.now_ms} to {now_ms}"
        raise BrokenInvariantError(message)
    cell.now_ms = now_ms
    state.touch(cell)
    kind = type(decision)
    APPLIERS[kind](state, decision)
    if kind not in QUIET:
        state.causes_stale = True
        cell.stale_ms = cell.stale_ms or now_ms


def fold(state: State, decisions: list[d.Decision], *, now_ms: int) -> None:
    """Apply recorded decisions of one batch."""
    for decision in decisions:
        apply(state, decision, now_ms)
    state.forget_timers(now_ms)


# --- jobs -----------------------------------------------------------------------------------------


def _job_queued(state: State, decision: d.JobQueued) -> None:
    cell = state.cell
    job = Job(
        id=decision.job,
        number=decision.number,
        spec_body=codec.body_of_spec(decision.spec),
        job_class=decision.spec.job_class,
        submitted_ms=decision.submitted_ms,
        actor=decision.actor,
        array=decision.array,
        queued_ms=cell.now_ms,
        spec=decision.spec,
    )
    cell.next_number = max(cell.next_number, decision.number + 1)
    state.jobs[job.id] = job
    state.unverified[job.id] = None
    state.enter_array(job)
    state.link_dependencies(job)
    state.enqueue(job)
    state.touch(job)
    _wake_when_large(state, job)


def _wake_when_large(state: State, job: Job) -> None:
    policy = state.cell.policy
    if job.gpus >= policy["large_gang_gpus"]:
        state.wake(job.queued_ms + policy["large_gang_wait_bound"], "cycle")


def _job_rejected(state: State, decision: d.JobRejected) -> None:
    job = state.jobs.get(decision.job)
    if job is not None:
        job.phase = moved(job.phase, decision)
        _forget(state, job)
    _remember(state, decision.job, d.Outcome.REJECTED)
    if job is not None and job.array:
        state.leave_array(job)


def _job_held(state: State, decision: d.JobHeld) -> None:
    job = state.jobs[decision.job]
    job.held_by, job.held_why = decision.by, decision.why
    for node in state.nodes.values():
        if decision.by == "scheduler" and any(s.job == job.id for s in node.strikes):
            node.strikes = tuple(s for s in node.strikes if s.job != job.id)
            state.touch(node)
    state.regroup(job)
    state.freed()
    state.touch(job)


def _job_released(state: State, decision: d.JobReleased) -> None:
    job = state.jobs[decision.job]
    if job.held_by:
        job.failures, job.failed_nodes = 0, ()
    job.held_by = job.held_why = ""
    job.not_before_ms = 0
    state.regroup(job)
    state.touch(job)


def _priority_changed(state: State, decision: d.PriorityChanged) -> None:
    job = state.jobs[decision.job]
    job.job_class = decision.job_class
    if job.id in state.holding:
        state.forget_reach(job.spec.team)
    state.regroup(job)
    state.freed()
    state.touch(job)


def _job_requeued(state: State, decision: d.JobRequeued) -> None:
    job = state.jobs[decision.job]
    job.phase = moved(job.phase, decision)
    job.queued_ms = state.cell.now_ms
    job.retries_used = decision.retries_used
    job.not_before_ms = decision.not_before_ms
    job.stop_cause = job.final = ""
    if decision.not_before_ms:
        state.wake(decision.not_before_ms, "backoff", job.id)
    state.enqueue(job)
    state.unexplained[job.id] = None
    state.touch(job)
    _wake_when_large(state, job)


def _job_finished(state: State, decision: d.JobFinished) -> None:
    job = state.jobs[decision.job]
    queued = job.phase is Phase.QUEUED
    job.phase = moved(job.phase, decision)
    _forget(state, job, queued=queued)
    _remember(state, job.id, decision.outcome)
    if job.array:
        state.leave_array(job)


def _forget(state: State, job: Job, *, queued: bool = True) -> None:
    if queued:
        state.dequeue(job)
    for other in job.spec.after:
        if job.id in state.dependents.get(other, ()):
            state.dependents[other].remove(job.id)
    del state.jobs[job.id]
    _told(state, job.id)
    state.causes_stale = True
    state.touch(job)


def _told(state: State, job_id: str) -> None:
    """Why it waits has been said, or it waits no more."""
    state.unverified.pop(job_id, None)
    state.unexplained.pop(job_id, None)


def _remember(state: State, job_id: str, outcome: str) -> None:
    """Keep the id and the outcome for the dedupe window; let go of what is older."""
    state.end(Done(id=job_id, outcome=str(outcome), at_ms=state.cell.now_ms))
    oldest = state.cell.now_ms - state.cell.policy["dedupe_window"]
    while state.done:
        first = next(iter(state.done.values()))
        if first.at_ms >= oldest:
            return
        del state.done[first.id]
        state.touch(first)


def _wait_cause_changed(state: State, decision: d.WaitCauseChanged) -> None:
    state.cell.causes_ms = state.cell.now_ms
    for job_id in decision.jobs:
        job = state.jobs[job_id]
        if job.cause:
            # Only when all were looked at does one that had a cause get another.
            state.cell.stale_ms = 0
        job.cause, job.cause_text = str(decision.cause), decision.text
        _told(state, job_id)
        state.touch(job)


# --- gangs ----------------------------------------------------------------------------------------


def _gang_placed(state: State, decision: d.GangPlaced) -> None:
    job = state.jobs[decision.job]
    reservation = state.reservations.get(job.id)
    if reservation is not None and reservation.kind == "claim":
        # The claim's GPUs pass to the gang in one move, so that nobody sees them free in between.
        for seat in reservation.seats:
            state.nodes[seat.node].claimed &= ~seat.held
            seat.held = 0
    state.dequeue(job)
    _told(state, job.id)
    job.phase = moved(job.phase, decision)
    job.attempt = decision.attempt
    job.seats = decision.seats
    job.placed_ms = state.cell.now_ms
    job.started_ms = job.resumed_ms = 0
    job.ready, job.ended = (), ()
    job.address, job.port = "", 0
    job.cause = job.cause_text = ""
    state.seat(job)
    state.disturb(job)
    state.wake(job.placed_ms + state.cell.policy["start_timeout"], "start", job.id)
    state.touch(job)


def _members_ready(state: State, decision: d.MembersReady) -> None:
    job = state.jobs[decision.job]
    job.ready += decision.nodes
    if decision.address:
        job.address, job.port = decision.address, decision.port
    state.touch(job)


def _gang_started(state: State, decision: d.GangStarted) -> None:
    job = state.jobs[decision.job]
    job.phase = moved(job.phase, decision)
    job.starts += 1
    job.claimant = ""
    job.started_ms = state.cell.now_ms
    job.resumed_ms = decision.resumed_ms
    job.address, job.port = decision.address, decision.port
    state.ends.expect(state.cell.policy, job)
    state.forget_reach(job.spec.team)
    if job.spec.limit_ms is not None:
        state.wake(job.started_ms + job.spec.limit_ms - job.resumed_ms, "limit", job.id)
    state.wake(protected_until_ms(state.cell.policy, job), "protection", job.id)
    _touch_nodes(state, job)


def _touch_nodes(state: State, job: Job) -> None:
    for seat in job.seats:
        state.touched[seat.node] = None
    state.touch(job)


def _stop(state: State, job: Job, *, cause: str, grace_ms: int) -> None:
    """The first order to stop starts the grace; a later one may only shorten it."""
    now = state.cell.now_ms
    if not job.stop_cause:
        state.forget_reach(job.spec.team)
        state.pledge_gang(job, -1)
    deadline = job.stop_ms + job.stop_grace_ms if job.stop_cause else NEVER
    job.stop_ms, job.stop_cause = now, cause
    job.stop_grace_ms = min(grace_ms, max(0, deadline - now))
    patience = state.cell.policy["stop_timeout"]
    state.wake(now + job.stop_grace_ms + patience, "stop", job.id)
    state.leaving[job.id] = job
    state.ends.expect(state.cell.policy, job)
    state.freed()
    _touch_nodes(state, job)


def _gang_start_aborted(state: State, decision: d.GangStartAborted) -> None:
    job = state.jobs[decision.job]
    job.phase = moved(job.phase, decision)
    _stop(state, job, cause=d.StopCause.START_ABORTED, grace_ms=0)


def _gang_preempted(state: State, decision: d.GangPreempted) -> None:
    job = state.jobs[decision.job]
    job.phase = moved(job.phase, decision)
    job.preemptions += 1
    job.claimant = decision.claimant
    claimant = state.jobs[decision.claimant]
    job.chain = claimant.chain + 1
    spent = Spent(at_ms=state.cell.now_ms, gpu_ms=_spent_ms(state, job))
    recent = (s for s in state.cell.preempted if s.at_ms > state.cell.now_ms - HOUR)
    state.cell.preempted = (*recent, spent)
    _stop(state, job, cause=d.StopCause.PREEMPTED, grace_ms=decision.grace_ms)


def _spent_ms(state: State, job: Job) -> int:
    return job.gpus * (state.cell.now_ms - job.started_ms) if job.started_ms else 0


def _gang_stopping(state: State, decision: d.GangStopping) -> None:
    job = state.jobs[decision.job]
    stopping = job.phase is Phase.STOPPING
    job.phase = moved(job.phase, decision)
    if decision.cause in (d.StopCause.CANCELLED, d.StopCause.LIMIT):
        job.final = str(decision.cause)
    cause = job.stop_cause if stopping else str(decision.cause)
    _blame(job, decision.by.removeprefix("node:") if decision.by.startswith("node:") else "")
    _stop(state, job, cause=cause, grace_ms=decision.grace_ms)


def _blame(job: Job, node: str) -> None:
    """Remember a node under which it failed."""
    if node and node not in job.failed_nodes:
        job.failed_nodes = (*job.failed_nodes, node)


def _checkpoint_recorded(state: State, decision: d.CheckpointRecorded) -> None:
    job = state.jobs[decision.job]
    if decision.productive_ms > job.saved_ms:
        job.failures, job.failed_nodes = 0, ()
    job.saved_ms = decision.productive_ms
    job.saved_step, job.saved_path = decision.step, decision.path
    state.touch(job)


def _member_ended(state: State, decision: d.MemberEnded) -> None:
    if decision.reason == FENCED:
        _fenced(state, state.nodes[decision.node], decision)
        return
    job = state.jobs[decision.job]
    end = MemberEnd(
        node=decision.node,
        code=decision.code,
        signal=decision.signal,
        reason=decision.reason,
        presumed=decision.presumed,
        failed_at_ms=decision.failed_at_ms,
    )
    others = tuple(e for e in job.ended if e.node != decision.node)
    job.ended = (*others, end)
    if end.by_machine:
        _blame(job, decision.node)
    state.touched[decision.node] = None
    state.touch(job)


def _fenced(state: State, node: Node, decision: d.MemberEnded) -> None:
    """The last sign of a stale attempt: its GPUs come back."""
    gone = (decision.job, decision.attempt)
    node.lingering = tuple(x for x in node.lingering if (x.job, x.attempt) != gone)
    node.stuck = 0
    for lingering in node.lingering:
        node.stuck |= lingering.gpus
    state.touched[node.name] = None
    state.refresh(node)
    state.touch(node)


def _gang_released(state: State, decision: d.GangReleased) -> None:
    job = state.jobs[decision.job]
    job.phase = moved(job.phase, decision)
    for name in decision.lingering:
        _linger(state, job, name)
    state.unseat(job)
    state.disturb(job)
    _hand_to_claims(state, job)
    for seat in job.seats:
        node = state.nodes.get(seat.node)
        if node is not None:
            state.refresh(node)
    if decision.cause is d.StopCause.INFRASTRUCTURE:
        job.failures += 1
        job.failed_at_ms = state.cell.now_ms
    job.seats, job.ready, job.ended = (), (), ()
    if decision.cause is not d.StopCause.PREEMPTED:
        job.chain = 0
    state.touch(job)


def _linger(state: State, job: Job, name: str) -> None:
    """Processes that may still run keep their GPUs out, though the gang holds them no more."""
    node = state.nodes.get(name)
    if node is None:
        return
    mask = next(mask_of(s.gpus) for s in job.seats if s.node == name)
    left = Lingering(job=job.id, attempt=job.attempt, gpus=mask)
    node.lingering = (*node.lingering, left)
    node.stuck |= mask
    state.plans_doubted = True
    state.touched[name] = None
    state.touch(node)


def _hand_to_claims(state: State, job: Job) -> None:
    """What a leaving gang held goes first to the claim that it leaves for, then to others."""
    whose = ""
    for reservation in state.reservations.values():
        if job.id in reservation.victims:
            whose = reservation.job
            reservation.victims = tuple(v for v in reservation.victims if v != job.id)
            state.touch(reservation)
    for seat in job.seats:
        node = state.nodes.get(seat.node)
        if node is not None and node.name in state.reserved_on:
            free = mask_of(seat.gpus) & node.sound & ~node.used & ~node.claimed
            state.keep_for_claim(node, free, first=whose)


def _reservation_planned(state: State, decision: d.ReservationPlanned) -> None:
    old = state.reservations.get(decision.job)
    if old is not None and is_same_plan(old, decision):
        # No news for anybody: else two firm plans on one node would be made again for ever.
        old.planned_ms, old.disturbed = state.cell.now_ms, False
        state.touch(old)
        return
    if old is not None:
        state.unreserve(decision.job, started=False)
    state.reserve(
        Reservation(
            job=decision.job,
            kind=decision.kind,
            planned_ms=state.cell.now_ms,
            start_ms=decision.start_ms,
            end_ms=decision.end_ms,
            seats=tuple(
                Kept(node=seat.node, gpus=seat.gpus, held=mask_of(seat.held))
                for seat in decision.seats
            ),
            victims=decision.victims,
        )
    )


def is_same_plan(old: Reservation, decision: d.ReservationPlanned) -> bool:
    """Whether a plan comes out as it was; a claim never does."""
    return (
        old.kind == decision.kind != "claim"
        and (old.start_ms, old.end_ms) == (decision.start_ms, decision.end_ms)
        and [(kept.node, kept.gpus) for kept in old.seats]
        == [(seat.node, seat.gpus) for seat in decision.seats]
    )


def _reservation_released(state: State, decision: d.ReservationReleased) -> None:
    state.unreserve(decision.job, started=decision.why == "started")


QUIET: Final = frozenset(
    {d.WaitCauseChanged, d.InputRejected, d.QueueConsidered, d.MembersReady, d.CheckpointRecorded}
)
"""Decisions that give no waiting job another cause."""

APPLIERS: Final[Mapping[type, Callable[[State, Any], None]]] = {
    d.JobQueued: _job_queued,
    d.JobRejected: _job_rejected,
    d.JobHeld: _job_held,
    d.JobReleased: _job_released,
    d.PriorityChanged: _priority_changed,
    d.JobRequeued: _job_requeued,
    d.JobFinished: _job_finished,
    d.WaitCauseChanged: _wait_cause_changed,
    d.GangPlaced: _gang_placed,
    d.MembersReady: _members_ready,
    d.GangStarted: _gang_started,
    d.GangStartAborted: _gang_start_aborted,
    d.CheckpointRecorded: _checkpoint_recorded,
    d.MemberEnded: _member_ended,
    d.GangPreempted: _gang_preempted,
    d.GangStopping: _gang_stopping,
    d.GangReleased: _gang_released,
    d.ReservationPlanned: _reservation_planned,
    d.ReservationReleased: _reservation_released,
    d.NodeAdded: apply_fleet.node_added,
    d.NodeDropped: apply_fleet.node_dropped,
    d.NodeBooted: apply_fleet.node_booted,
    d.NodeHealthChanged: apply_fleet.node_health_changed,
    d.NodeServiceChanged: apply_fleet.node_service_changed,
    d.MaintenanceAnnounced: apply_fleet.maintenance_announced,
    d.GpuWithdrawn: apply_fleet.gpu_withdrawn,
    d.GpuReturned: apply_fleet.gpu_returned,
    d.TeamChanged: apply_fleet.team_changed,
    d.PolicyChanged: apply_fleet.policy_changed,
    d.InputRejected: apply_fleet.input_rejected,
    d.QueueConsidered: apply_fleet.queue_considered,
    d.LeadershipTaken: apply_fleet.leadership_taken,
    d.LogicUpgraded: apply_fleet.logic_upgraded,
}
