"""What services and people ask: submissions, cancels, holds, changes of class.

A submission is accepted (JobQueued) or refused with the nearest request that could start
(JobRejected). A team or a job that is not known is said to be unknown only when all inputs have
been read to their ends; until then the job waits, and is looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.codec import body_of_spec
from gangline.events.decisions import Certificate, Outcome, StopCause
from gangline.events.spec import MAX_SPEC_BYTES, Spec, TopologyKind, jobs_of
from gangline.scheduler.core import gangs
from gangline.scheduler.core.entities import Job
from gangline.scheduler.core.fit import never_fits
from gangline.scheduler.core.inputs import Fact
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.names import is_name
from gangline.scheduler.core.policy import LONGEST
from gangline.scheduler.core.turn import Refusal, Turn

MAX_ARRAY: Final = 10_000


def submitted(turn: Turn, fact: Fact, body: f.JobSubmitted) -> None:
    """A job, or an array of tasks, asks to be run."""
    if not is_name(body.job):
        turn.refuse(fact, Refusal.BAD_NAME)
        return
    if is_taken(turn, body.job):
        turn.refuse(fact, Refusal.DUPLICATE)
        return
    problem = spec_problem(body.spec)
    if problem:
        reject(turn, body.job, body.spec, reason="bad_spec", text=problem, fact=fact)
        return
    if body.spec.count == 1:
        accept(turn, fact, body.job, body.spec)
        return
    task = replace(body.spec, count=1)
    names = jobs_of(body.job, body.spec)
    if any(is_taken(turn, name) for name in names):
        turn.refuse(fact, Refusal.DUPLICATE, "a task's id is taken")
        return
    for name in names:
        accept(turn, fact, name, task, array=body.job)


def is_taken(turn: Turn, job_id: str) -> bool:
    """Whether a job or an array has, or had, this id."""
    state = turn.state
    return job_id in state.jobs or job_id in state.done or job_id in state.arrays


def accept(turn: Turn, fact: Fact, job_id: str, spec: Spec, array: str = "") -> None:
    """Queue it, and look at once whether it ever can start."""
    turn.decide(
        d.JobQueued(
            job=job_id,
            number=turn.state.cell.next_number,
            spec=spec,
            submitted_ms=fact.appended_ms,
            submitted_at=f"{fact.topic}-{fact.partition}-{fact.offset}",
            actor=fact.actor,
            array=array,
        )
    )


def verify(turn: Turn) -> None:
    """Answer what may be answered only when all inputs are read.

    Unknown teams and jobs, and never-fits.
    """
    for job_id in list(turn.state.unverified):
        job = turn.state.jobs.get(job_id)
        if job is None:
            continue
        answer = refusal_of(turn, job)
        if answer is not None:
            reason, text, nearest = answer
            refuse_job(turn, job, reason=reason, text=text, nearest=nearest)
        else:
            failed = next((a for a in job.spec.after if _has_failed(turn, a)), None)
            if failed is not None:
                gangs.finish(turn, job, outcome=Outcome.FAILED, reason=f"dependency {failed}")


def _has_failed(turn: Turn, job_id: str) -> bool:
    done = turn.state.done.get(job_id)
    return done is not None and done.outcome != Outcome.SUCCEEDED


def refusal_of(turn: Turn, job: Job) -> tuple[str, str, str] | None:
    """Why a job can never start (code, text, nearest), or None."""
    state = turn.state
    if job.spec.team not in state.teams:
        return (
            "unknown_team",
            f"there is no team {job.spec.team}",
            "",
        )
    for other in job.spec.after:
        if not _is_known(turn, job, other):
            return "unknown_job", f"there is no job {other} to wait for", ""
    level = job.spec.topology.level
    if level and state.tree.depth_of(level) is None:
        return "topology", f"the fleet has no level {level}", ""
    return never_fits(state, job.spec)


def _is_known(turn: Turn, job: Job, other: str) -> bool:
    """Whether a job or an array stands before this one in the log.

    It may not wait for what comes later, nor for itself or its own array: nobody would ever start.
    """
    state = turn.state
    first = f"{other}.1" if other in state.arrays else other
    live = state.jobs.get(first)
    if live is not None and live.number >= job.number:
        return False
    return other != job.array and (first in state.jobs or other in state.done or other != first)


def refuse_job(turn: Turn, job: Job, *, reason: str, text: str, nearest: str) -> None:
    """A queued job turns out to be one that can never start."""
    turn.decide(
        d.JobRejected(
            job=job.id,
            team=job.spec.team,
            reason=reason,
            text=text,
            nearest=nearest,
            submitted_ms=job.submitted_ms,
            certificate=Certificate(
                binding=reason,
                alternative=nearest,
                policy_version=turn.state.cell.policy_version,
            ),
        )
    )
    gangs.fail_dependents(turn, job.id)
    if job.array and job.array in turn.state.done:
        gangs.fail_dependents(turn, job.array)


def reject(turn: Turn, job_id: str, spec: Spec, *, reason: str, text: str, fact: Fact) -> None:
    """Refuse a submission that makes no sense by itself."""
    turn.decide(
        d.JobRejected(
            job=job_id,
            team=spec.team,
            reason=reason,
            text=text,
            submitted_ms=fact.appended_ms,
            certificate=Certificate(binding=reason, policy_version=turn.state.cell.policy_version),
        )
    )
    gangs.fail_dependents(turn, job_id)


def spec_problem(spec: Spec) -> str:
    """What is wrong with a spec by itself; empty for nothing."""
    checks = (
        (spec.gpus >= 1, "gpus must be at least 1"),
        (1 <= spec.count <= MAX_ARRAY, f"count must be 1 to {MAX_ARRAY}"),
        (is_name(spec.team), "the team's name is not a name"),
        (all(is_name(a) for a in spec.after), "after names no job"),
        (spec.limit_ms is None or spec.limit_ms > 0, "limit must be positive"),
        ((spec.limit_ms or 0) <= LONGEST, "limit must be at most ten years"),
        (spec.grace_ms is None or spec.grace_ms >= 0, "grace must not be negative"),
        ((spec.grace_ms or 0) <= LONGEST, "grace must be at most ten years"),
        (spec.retries is None or spec.retries >= 0, "retries must not be negative"),
        (
            spec.checkpoint is None or spec.checkpoint.interval_ms > 0,
            "the checkpoint interval must be positive",
        ),
        (len(body_of_spec(spec)) <= MAX_SPEC_BYTES, "the spec is larger than 64 kB"),
    )
    for good, text in checks:
        if not good:
            return text
    per_node = spec.gpus_per_node
    if per_node is not None and (per_node < 1 or spec.gpus % per_node):
        return "gpus must be a multiple of gpus_per_node"
    topology = spec.topology
    if topology.kind is not TopologyKind.ANY and not topology.level:
        return "topology names no level"
    return ""


def live_jobs(turn: Turn, job_id: str) -> list[Job]:
    """The live job of that id, or the live tasks of that array."""
    job = turn.state.jobs.get(job_id)
    if job is not None:
        return [job]
    if job_id not in turn.state.arrays:
        return []
    tasks = (j for j in turn.state.jobs.values() if j.array == job_id)
    return sorted(tasks, key=lambda j: j.number)


def asked_jobs(turn: Turn, fact: Fact, job_id: str) -> list[Job]:
    """The same; refused, and empty, where there is none."""
    jobs = live_jobs(turn, job_id)
    if not jobs:
        known = job_id in turn.state.done
        turn.refuse(fact, Refusal.JOB_ENDED if known else Refusal.NO_SUCH_JOB)
    return jobs


def cancel_requested(turn: Turn, fact: Fact, body: f.JobCancelRequested) -> None:
    """A cancel wins over everything else; what runs keeps its GPUs until its processes are out."""
    jobs = asked_jobs(turn, fact, body.job)
    fresh = [job for job in jobs if not job.final]
    if jobs and not fresh:
        turn.refuse(fact, Refusal.DUPLICATE)
    by = fact.actor
    for job in fresh:
        if job.id not in turn.state.jobs:
            continue
        if job.phase is Phase.QUEUED:
            gangs.finish(turn, job, outcome=Outcome.CANCELLED, reason=body.why or "cancelled")
        else:
            gangs.stop(turn, job, cause=StopCause.CANCELLED, by=by)


def priority_requested(turn: Turn, fact: Fact, body: f.JobPriorityChangeRequested) -> None:
    """A job is in another class from now on, whatever its state."""
    jobs = asked_jobs(turn, fact, body.job)
    changed = [job for job in jobs if job.job_class is not body.job_class]
    if jobs and not changed:
        turn.refuse(fact, Refusal.ALREADY_SO)
    by = fact.actor
    for job in changed:
        turn.decide(d.PriorityChanged(job=job.id, job_class=body.job_class, by=by))


def hold_requested(turn: Turn, fact: Fact, body: f.JobHoldRequested) -> None:
    """A job is not to start until released."""
    jobs = asked_jobs(turn, fact, body.job)
    changed = [job for job in jobs if not job.held_by]
    if jobs and not changed:
        turn.refuse(fact, Refusal.ALREADY_SO)
    by = fact.actor
    for job in changed:
        turn.decide(d.JobHeld(job=job.id, by=by or "unknown", why=body.why))
        if job.id in turn.state.reservations:
            turn.decide(d.ReservationReleased(job=job.id, why="held"))


def hold_released(turn: Turn, fact: Fact, body: f.JobHoldReleased) -> None:
    """A held job may start again."""
    jobs = asked_jobs(turn, fact, body.job)
    changed = [job for job in jobs if job.held_by]
    if jobs and not changed:
        turn.refuse(fact, Refusal.ALREADY_SO)
    by = fact.actor
    for job in changed:
        turn.decide(d.JobReleased(job=job.id, by=by))


HANDLERS: Final[Mapping[type, object]] = {
    f.JobSubmitted: submitted,
    f.JobCancelRequested: cancel_requested,
    f.JobPriorityChangeRequested: priority_requested,
    f.JobHoldRequested: hold_requested,
    f.JobHoldReleased: hold_released,
}
