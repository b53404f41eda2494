"""What a decision must rest on: the auditor's rules, each about one kind of decision.

They share nothing with the core: they hold a decision against the honest facts in the log, against
the second memory (`replay.model`), and against what machines and programs really did. They bound
what is right rather than say what is best: among right decisions the core may choose.

Each returns what is wrong, or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.replay.model import array_of
from gangline.replay.vopr import fit
from gangline.replay.vopr.answers import grace_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.replay.vopr.auditor import Auditor

Stop = d.GangStopping | d.GangReleased

CLOCKS_DIFFER_MS: Final = 8_000
"""A leader's time may be 5 s ahead, and clocks of brokers and machines differ beside that."""

NEVER_FITS: Final = ("capacity", "quota", "borrow_limit", "topology", "never_fits")


def _queued(auditor: Auditor, decision: d.JobQueued) -> str:
    asked = auditor.book.submissions.get(decision.array or decision.job)
    if asked is None:
        return "nobody has submitted it"
    same = (asked.spec.team, asked.spec.gpus, asked.spec.job_class, asked.spec.limit_ms)
    mine = decision.spec
    if same != (mine.team, mine.gpus, mine.job_class, mine.limit_ms):
        return f"its spec is {mine}, submitted was {asked.spec}"
    if decision.job in auditor.answered:
        return "it was answered before"
    auditor.answered.add(decision.job)
    return ""


def _rejected(auditor: Auditor, decision: d.JobRejected) -> str:
    known = auditor.model.jobs.get(decision.job)
    asked = auditor.book.submissions.get(decision.job)
    if known is None and asked is None:
        return "nobody has submitted it"
    auditor.answered.add(decision.job)
    spec = known.spec if known is not None else asked.spec if asked is not None else None
    if spec is not None and fit.plainly_possible(auditor.model, spec):
        return f"it could run: {decision.reason}, {decision.text}"
    return ""


def _placed(auditor: Auditor, decision: d.GangPlaced) -> str:
    job = auditor.model.jobs[decision.job]
    if decision.attempt != job.attempt + 1:
        return f"attempt {decision.attempt} after {job.attempt}"
    if job.held_by:
        return f"it is held by {job.held_by}"
    waits_for = auditor.model.unfinished(job)
    if waits_for:
        return f"it waits for {waits_for}"
    for seat in decision.seats:
        there = auditor.lives_on(seat.node, seat.gpus)
        if there:
            return f"{there} still runs on {seat.node}"
    return fit.overtaken(auditor.model, job, auditor.backed_off)


def _ready(auditor: Auditor, decision: d.MembersReady) -> str:
    for node in decision.nodes:
        if (decision.job, decision.attempt, node) not in auditor.book.ready:
            return f"{node} has not said so"
    return ""


def _started(auditor: Auditor, decision: d.GangStarted) -> str:
    if decision.resumed_ms and decision.resume_path not in auditor.programs.stored:
        return f"nothing is saved at {decision.resume_path}"
    stored = auditor.programs.stored.get(decision.resume_path, 0)
    return f"{decision.resumed_ms} ms, saved are {stored}" if decision.resumed_ms > stored else ""


def _aborted(auditor: Auditor, decision: d.GangStartAborted) -> str:
    job = auditor.model.jobs[decision.job]
    said = set(decision.slow) & job.ready
    turned_away = any(
        exit_.reason in ("not_started", "infrastructure")
        for node in decision.slow
        for exit_ in auditor.book.exits.get((job.job, job.attempt, node), ())
    )
    if said and not turned_away:
        return f"{', '.join(sorted(said))} had been ready"
    waited_ms = auditor.model.now_ms - auditor.placed_ms[job.job]
    if not turned_away and waited_ms < auditor.policy("start_timeout"):
        return f"after {waited_ms} ms only"
    return ""


def _recorded(auditor: Auditor, decision: d.CheckpointRecorded) -> str:
    said = auditor.book.saves.get(f"{decision.node} {decision.path}")
    if said is None or decision.path not in auditor.programs.stored:
        return f"nobody saved {decision.path}"
    if said.productive_ms > auditor.programs.stored[decision.path]:
        return f"{said.productive_ms} ms said, saved {auditor.programs.stored[decision.path]}"
    if decision.productive_ms > said.productive_ms:
        return f"{decision.productive_ms} ms, said were {said.productive_ms}"
    if decision.productive_ms < auditor.model.jobs[decision.job].saved_ms:
        return "it goes back"
    return ""


def _ended(auditor: Auditor, decision: d.MemberEnded) -> str:
    said = auditor.book.exits.get((decision.job, decision.attempt, decision.node), [])
    if decision.presumed:
        return _presumed(auditor, decision)
    if decision.reason == "fenced":
        there = auditor.processes_of(decision.node, decision.job, decision.attempt)
        return "its processes run" if there else ""
    if auditor.processes_of(decision.node, decision.job, decision.attempt):
        return "its processes run"
    if any(each.code == decision.code for each in said):
        return ""
    rebooted = decision.reason == "infrastructure" and len(auditor.book.boots[decision.node]) > 1
    return "" if rebooted else f"{decision.node} has not said so"


def _presumed(auditor: Auditor, decision: d.MemberEnded) -> str:
    if decision.reason == "infrastructure":
        silence_ms = auditor.silence_ms(decision.node)
        if silence_ms < auditor.policy("lost_after") - CLOCKS_DIFFER_MS:
            return f"{decision.node} was heard {silence_ms} ms ago"
    return ""


def _stopping(auditor: Auditor, decision: d.GangStopping) -> str:
    job = auditor.model.jobs[decision.job]
    if not job.holds:
        return "it holds nothing"
    reason = _STOP_REASONS.get(decision.cause)
    return reason(auditor, decision) if reason is not None else ""


def _not_asked(auditor: Auditor, job: str, request: type) -> str:
    """Whether nobody asked this of a job or of its array, in words."""
    return "" if {job, array_of(job)} & auditor.book.asked[request] else "nobody asked for it"


def _stop_cancelled(auditor: Auditor, decision: Stop) -> str:
    return _not_asked(auditor, decision.job, f.JobCancelRequested)


def _stop_limit(auditor: Auditor, decision: Stop) -> str:
    job = auditor.model.jobs[decision.job]
    if job.spec.limit_ms is None or job.started_ms is None:
        return "it has no limit, or does not run"
    ran_ms = auditor.resumed_ms.get(job.job, 0) + auditor.model.now_ms - job.started_ms
    return f"after {ran_ms} ms only" if ran_ms < job.spec.limit_ms else ""


def _stop_user(auditor: Auditor, decision: Stop) -> str:
    job = auditor.model.jobs[decision.job]
    for seat in job.seats:
        for said in auditor.book.exits.get((job.job, job.attempt, seat.node), ()):
            if said.code or said.reason != "exited":
                return ""
    return "none of its members failed"


def _stop_infrastructure(auditor: Auditor, decision: Stop) -> str:
    job = auditor.model.jobs[decision.job]
    for seat in job.seats:
        exits = auditor.book.exits.get((job.job, job.attempt, seat.node), ())
        if any(each.reason in ("infrastructure", "hung", "not_started") for each in exits):
            return ""
        silence_ms = auditor.silence_ms(seat.node)
        if silence_ms >= auditor.policy("lost_after") - CLOCKS_DIFFER_MS:
            return ""
        if len(auditor.book.boots[seat.node]) > 1:
            return ""
        gpus = (*seat.gpus, -1)
        if any((seat.node, gpu) in auditor.book.broken for gpu in gpus):
            return ""
    return "nothing is wrong with its nodes"


def _stop_service(auditor: Auditor, decision: Stop) -> str:
    job = auditor.model.jobs[decision.job]
    asked = auditor.book.asked[f.DrainRequested] | auditor.book.asked[f.MaintenanceScheduled]
    return "" if any(seat.node in asked for seat in job.seats) else "nobody wants its nodes empty"


_STOP_REASONS: Final[Mapping[d.StopCause, Callable[[Auditor, Stop], str]]] = {
    d.StopCause.CANCELLED: _stop_cancelled,
    d.StopCause.LIMIT: _stop_limit,
    d.StopCause.USER: _stop_user,
    d.StopCause.INFRASTRUCTURE: _stop_infrastructure,
    d.StopCause.DRAINED: _stop_service,
    d.StopCause.MAINTENANCE: _stop_service,
}


def _released(auditor: Auditor, decision: d.GangReleased) -> str:
    """Nobody whose processes run lets go of their GPUs, unless these stay out."""
    job = auditor.model.jobs[decision.job]
    for seat in job.seats:
        runs = auditor.processes_of(seat.node, job.job, job.attempt)
        if runs and seat.node not in decision.lingering:
            return f"its processes on {seat.node} run"
    reason = _STOP_REASONS.get(decision.cause)
    return reason(auditor, decision) if reason is not None else ""


def _requeued(auditor: Auditor, decision: d.JobRequeued) -> str:
    before = auditor.model.jobs[decision.job].retries
    own = decision.cause is d.StopCause.USER
    if decision.retries_used != before + own:
        return f"{decision.retries_used} retries used after {before}, for {decision.cause}"
    if own and before >= auditor.allowed_retries(decision.job):
        return f"it had only {auditor.allowed_retries(decision.job)} retries"
    return ""


def _finished(auditor: Auditor, decision: d.JobFinished) -> str:
    outcome = _OUTCOMES.get(decision.outcome)
    return outcome(auditor, decision) if outcome is not None else ""


def _succeeded(auditor: Auditor, decision: d.JobFinished) -> str:
    exits = auditor.exits_of(decision.job)
    if exits is None or not exits or any(e.code or e.reason != "exited" for e in exits):
        return f"its members really ended as {exits}"
    program = auditor.programs.of_job[decision.job]
    done_ms = auditor.done_ms(decision.job)
    return "" if done_ms >= program.runtime_ms else f"{done_ms} of {program.runtime_ms} ms done"


def _cancelled(auditor: Auditor, decision: d.JobFinished) -> str:
    return _not_asked(auditor, decision.job, f.JobCancelRequested)


def _failed(auditor: Auditor, decision: d.JobFinished) -> str:
    if not decision.reason.startswith("exit code"):
        return ""
    used = auditor.model.jobs[decision.job].retries
    if used < auditor.allowed_retries(decision.job):
        return f"it has used {used} of {auditor.allowed_retries(decision.job)} retries"
    return ""


_OUTCOMES: Final[Mapping[d.Outcome, Callable[[Auditor, d.JobFinished], str]]] = {
    d.Outcome.SUCCEEDED: _succeeded,
    d.Outcome.CANCELLED: _cancelled,
    d.Outcome.FAILED: _failed,
}


def _held(auditor: Auditor, decision: d.JobHeld) -> str:
    if decision.by == "scheduler":
        most = auditor.policy("hold_after")
        had = auditor.failures.get(decision.job, 0)
        return "" if had >= most else f"after {had} failures of machines, not {most}"
    return _not_asked(auditor, decision.job, f.JobHoldRequested)


def _let_go(auditor: Auditor, decision: d.JobReleased) -> str:
    if decision.by == "scheduler":
        held_by = auditor.model.jobs[decision.job].held_by
        return f"it is held by {held_by}" if held_by else ""
    return _not_asked(auditor, decision.job, f.JobHoldReleased)


def _priority(auditor: Auditor, decision: d.PriorityChanged) -> str:
    return _not_asked(auditor, decision.job, f.JobPriorityChangeRequested)


def _added(auditor: Auditor, decision: d.NodeAdded) -> str:
    return "" if decision.node in auditor.book.asked[f.NodeAdmitted] else "nobody admitted it"


def _booted(auditor: Auditor, decision: d.NodeBooted) -> str:
    known = decision.boot_id in auditor.book.boots[decision.node]
    return "" if known else f"it has not said that it is {decision.boot_id}"


def _health(auditor: Auditor, decision: d.NodeHealthChanged) -> str:
    bound = {"silent": "suspect_after", "lost": "lost_after"}.get(decision.cause)
    if bound is None:
        return ""
    silence_ms = auditor.silence_ms(decision.node)
    least_ms = auditor.policy(bound) - CLOCKS_DIFFER_MS
    return f"it was heard {silence_ms} ms ago" if silence_ms < least_ms else ""


def _withdrawn(auditor: Auditor, decision: d.GpuWithdrawn) -> str:
    said = {(decision.node, decision.gpu), (decision.node, -1)} & auditor.book.broken
    return "" if said else "it has not said so"


def _returned(auditor: Auditor, decision: d.GpuReturned) -> str:
    said = {(decision.node, decision.gpu), (decision.node, -1)} & auditor.book.mended
    return "" if said else "it has not said so"


def _team(auditor: Auditor, decision: d.TeamChanged) -> str:
    return "" if decision.team in auditor.book.teams else "nobody said so"


def _policy(auditor: Auditor, decision: d.PolicyChanged) -> str:
    odd = set(decision.values.items()) - auditor.book.policies
    return f"nobody said {sorted(odd)}" if odd else ""


def _refused(auditor: Auditor, decision: d.InputRejected) -> str:
    """An honest fact is not refused as if it were not."""
    refused = auditor.book.range(decision.topic, decision.partition, decision.first, decision.last)
    if len(refused) < decision.count:
        return f"only {len(refused)} such facts exist"
    if decision.reason == "undecodable" and all(each.event is not None for each in refused):
        return "they can be decoded"
    if "of itself only" in decision.reason and all(each.honest for each in refused):
        return "they are of itself"
    return ""


RULES: Final[Mapping[type, Callable[[Auditor, Any], str]]] = {
    d.JobQueued: _queued,
    d.JobRejected: _rejected,
    d.GangPlaced: _placed,
    d.MembersReady: _ready,
    d.GangStarted: _started,
    d.GangStartAborted: _aborted,
    d.CheckpointRecorded: _recorded,
    d.MemberEnded: _ended,
    d.GangPreempted: grace_problem,
    d.GangStopping: _stopping,
    d.GangReleased: _released,
    d.JobRequeued: _requeued,
    d.JobFinished: _finished,
    d.JobHeld: _held,
    d.JobReleased: _let_go,
    d.PriorityChanged: _priority,
    d.NodeAdded: _added,
    d.NodeBooted: _booted,
    d.NodeHealthChanged: _health,
    d.GpuWithdrawn: _withdrawn,
    d.GpuReturned: _returned,
    d.TeamChanged: _team,
    d.PolicyChanged: _policy,
    d.InputRejected: _refused,
}
