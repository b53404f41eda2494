"""What each kind of decision must rest on, as far as earlier decisions tell.

A rule is asked before its decision is folded into the second memory, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gangline.events import decisions as d
from gangline.replay import rules_of_place
from gangline.replay.broken_rule import BrokenRuleError, Rule
from gangline.replay.check.certificates import lending_problem, placement_problems
from gangline.replay.check.rights import right_problem
from gangline.replay.model import Model, ModelJob, gpus_of
from gangline.replay.rules_of_eviction import Evictions

Problem = tuple[Rule, str]


@dataclass(slots=True)
class Memory:
    """What is remembered beside the model.

    policy_version: how often teams and policy changed. caused: the cause that each job got in the
    present batch.
    """

    model: Model = field(default_factory=Model)
    policy_version: int = 0
    caused: dict[str, str] = field(default_factory=dict)
    evictions: Evictions = field(init=False)

    def __post_init__(self) -> None:
        self.evictions = Evictions(self.model)

    def live(self, name: str) -> ModelJob | None:
        """A job that was accepted and has not ended."""
        job = self.model.jobs.get(name)
        return None if job is None or job.outcome else job


def problems_of(memory: Memory, decision: d.Decision) -> Iterator[Problem]:
    """Everything that is wrong with a decision."""
    if isinstance(decision, d.GangPlaced | d.GangPreempted | d.WaitCauseChanged):
        said = decision.certificate.policy_version
        if said != memory.policy_version:
            is_at = memory.policy_version
            yield Rule.CERTIFICATE, f"it rests on policy version {said}, the policy is at {is_at}"
    unknown = _not_live(memory, decision)
    if unknown:
        yield unknown
        return
    rule = _RULES.get(type(decision))
    if rule is not None:
        yield from rule(memory, decision)


def _not_live(memory: Memory, decision: d.Decision) -> Problem | None:
    """Whether a decision is about a job that never was, or has ended, or an attempt that is not."""
    if isinstance(decision, d.JobQueued | d.JobRejected | d.NodeHealthChanged):
        return None
    fenced = isinstance(decision, d.MemberEnded) and decision.reason == "fenced"
    names = [getattr(decision, "job", ""), getattr(decision, "claimant", "")]
    for name in (*names, *getattr(decision, "jobs", ())):
        if name and not fenced and memory.live(name) is None:
            known = memory.model.jobs.get(name)
            state = known.outcome if known is not None else "never accepted"
            return Rule.TERMINAL, f"it is about {name}, which is {state}"
    attempt = getattr(decision, "attempt", None)
    if attempt is None or fenced or isinstance(decision, d.GangPlaced):
        return None
    at = memory.model.jobs[names[0]].attempt
    return None if at == attempt else (Rule.TERMINAL, f"attempt {attempt} of {names[0]} is at {at}")


def _queued(memory: Memory, decision: d.JobQueued) -> Iterator[Problem]:
    if memory.live(decision.job) is not None:
        yield Rule.TERMINAL, f"{decision.job} is accepted twice"


def _placed(memory: Memory, decision: d.GangPlaced) -> Iterator[Problem]:
    model, job = memory.model, memory.model.jobs[decision.job]
    try:
        rules_of_place.check_placed(model, job, decision)
    except BrokenRuleError as error:
        yield error.rule, error.found
        return
    if decision.attempt != job.attempt + 1:
        yield Rule.TERMINAL, f"attempt {decision.attempt} comes after attempt {job.attempt}"
    if job.held_by:
        yield Rule.WHOLE_GANGS, f"{job.job} is held"
    unfinished = model.unfinished(job)
    if unfinished:
        yield Rule.WHOLE_GANGS, f"{job.job} waits for {unfinished}, which has not succeeded"
    yield from ((Rule.ONE_HOLDER, text) for text in _kept_for_others(model, decision))
    lends = lending_problem(model, job)
    if lends:
        yield Rule.LIMITS, f"a lend limit is broken: {lends}"
    yield from ((Rule.CERTIFICATE, text) for text in placement_problems(model, job, decision))


def _kept_for_others(model: Model, decision: d.GangPlaced) -> Iterator[str]:
    """GPUs in escrow for another claimant."""
    mine = set(gpus_of(decision.seats))
    for plan in model.reservations.values():
        if plan.kind != "claim" or plan.job == decision.job:
            continue
        kept = {(seat.node, gpu) for seat in plan.seats for gpu in seat.held}
        for node, gpu in sorted(mine & kept):
            yield f"{node} GPU {gpu} is kept for {plan.job}"


def _started(memory: Memory, decision: d.GangStarted) -> Iterator[Problem]:
    job = memory.model.jobs[decision.job]
    missing = sorted({seat.node for seat in job.seats} - job.ready)
    if not job.holds:
        yield Rule.WHOLE_GANGS, f"{job.job} starts and holds nothing"
    elif missing:
        yield Rule.WHOLE_GANGS, f"{job.job} starts without its members on {', '.join(missing)}"
    if decision.resumed_ms != job.saved_ms:
        yield (
            Rule.LOST_WORK,
            f"{job.job} resumes from {decision.resumed_ms} ms, saved are {job.saved_ms} ms",
        )


def _ready(memory: Memory, decision: d.MembersReady) -> Iterator[Problem]:
    seats = {seat.node for seat in memory.model.jobs[decision.job].seats}
    for node in decision.nodes:
        if node not in seats:
            yield Rule.WHOLE_GANGS, f"{decision.job} has no member on {node}"


def _saved(memory: Memory, decision: d.CheckpointRecorded) -> Iterator[Problem]:
    saved = memory.model.jobs[decision.job].saved_ms
    if decision.productive_ms < saved:
        yield Rule.LOST_WORK, f"a checkpoint at {decision.productive_ms} ms after one at {saved}"


def _preempted(memory: Memory, decision: d.GangPreempted) -> Iterator[Problem]:
    model = memory.model
    victim, claimant = model.jobs[decision.job], model.jobs[decision.claimant]
    problem = memory.evictions.problem(victim, claimant, decision)
    if not problem:
        problem = right_problem(model, (victim, claimant), decision)
    if problem:
        yield Rule.NOT_IN_VAIN, f"{victim.job} evicted for {claimant.job}: {problem}"


def _stopping(memory: Memory, decision: Any) -> Iterator[Problem]:  # noqa: ANN401 - two kinds
    if not memory.model.jobs[decision.job].holds:
        yield Rule.WHOLE_GANGS, f"{decision.job} is told to stop and holds nothing"


def _released(memory: Memory, decision: d.GangReleased) -> Iterator[Problem]:
    job = memory.model.jobs[decision.job]
    if not job.holds:
        yield Rule.WHOLE_GANGS, f"{job.job} lets go what it does not hold"
        return
    ran_ms = 0 if job.started_ms is None else memory.model.now_ms - job.started_ms
    if not 0 <= decision.lost_gpu_ms <= ran_ms * job.spec.gpus or decision.productive_ms < 0:
        said = f"{job.job} is said to lose {decision.lost_gpu_ms} GPU-ms"
        yield Rule.SUMS, f"{said}; its {job.spec.gpus} GPUs ran {ran_ms} ms"


def _requeued(memory: Memory, decision: d.JobRequeued) -> Iterator[Problem]:
    job = memory.model.jobs[decision.job]
    if job.holds:
        yield Rule.WHOLE_GANGS, f"{job.job} waits again and still holds GPUs"
    allowed = job.retries + (decision.cause is d.StopCause.USER)
    if decision.retries_used != allowed:
        yield (
            Rule.CERTIFICATE,
            f"{decision.retries_used} retries used after {job.retries}, for {decision.cause}",
        )


def _finished(memory: Memory, decision: d.JobFinished) -> Iterator[Problem]:
    if memory.model.jobs[decision.job].holds:
        yield Rule.WHOLE_GANGS, f"{decision.job} has ended and still holds GPUs"


def _cause(memory: Memory, decision: d.WaitCauseChanged) -> Iterator[Problem]:
    for name in decision.jobs:
        if memory.model.jobs[name].holds:
            yield Rule.ONE_CAUSE, f"{name} holds GPUs and waits"
        other = memory.caused.get(name, str(decision.cause))
        if other != decision.cause:
            yield Rule.ONE_CAUSE, f"{name} waits for {other} and for {decision.cause} at once"


def _unreserved(memory: Memory, decision: d.ReservationReleased) -> Iterator[Problem]:
    problem = memory.evictions.room_problem(decision)
    if problem:
        yield Rule.NOT_IN_VAIN, problem


_RULES: Final[Mapping[type, Callable[[Memory, Any], Iterator[Problem]]]] = {
    d.JobQueued: _queued,
    d.GangPlaced: _placed,
    d.MembersReady: _ready,
    d.GangStarted: _started,
    d.CheckpointRecorded: _saved,
    d.GangPreempted: _preempted,
    d.GangStopping: _stopping,
    d.GangStartAborted: _stopping,
    d.GangReleased: _released,
    d.JobRequeued: _requeued,
    d.JobFinished: _finished,
    d.WaitCauseChanged: _cause,
    d.ReservationReleased: _unreserved,
}
