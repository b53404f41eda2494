"""What was asked must be answered: each consumed fact that matters has left its mark.

`rules` says what decisions must rest on; here it is the other way round. A step that has consumed
an honest fact must show it: the job is queued or refused, held, stopping, the member is out, the
GPU withdrawn. And what is due by time alone must have happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.log import Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gangline.events.batch import DecisionBatch
    from gangline.replay.model import ModelJob
    from gangline.replay.vopr.auditor import Auditor

LATE_MS: Final = 2_000
"""After it is due, and the leader knows it, something must have happened by then."""


def unanswered(auditor: Auditor, batch: DecisionBatch) -> str:
    """A fact of a whole step that has left no mark; empty for none."""
    newest: dict[tuple[str, str], tuple[int, Any]] = {}
    for offset, body in _consumed(auditor, batch):
        newest[_subject(body), _matter(body)] = offset, body
    for offset, body in newest.values():
        auditor.reading = offset
        mark = _MARKS.get(type(body))
        problem = mark(auditor, body) if mark is not None else ""
        if problem:
            return f"{type(body).__name__} {_subject(body)}: {problem}"
    return ""


def _consumed(auditor: Auditor, batch: DecisionBatch) -> Iterator[tuple[int, Any]]:
    """The honest facts that a step has consumed with their offsets, in order per partition.

    Without copies of faults, which may have been cleared since.
    """
    for consumed in batch.inputs:
        if consumed.topic == Topic.HEARTBEATS:
            continue
        place = consumed.topic, consumed.partition
        for landed in auditor.book.range(*place, consumed.first, consumed.last):
            if landed.honest and landed.event is not None and not landed.copy:
                yield landed.record.offset, landed.event.body


def left_out(auditor: Auditor, *, step_ms: int) -> str:
    """Facts that had landed before a step that says it had read everything; empty for none."""
    for partition, landed in auditor.book.inputs.items():
        following = auditor.book.consumed[partition] + 1
        if partition.topic == Topic.HEARTBEATS or following >= len(landed):
            continue
        if landed[following].at_ms < step_ms:
            position = landed[following].record.position
            return f"says that it has read everything, and {position} had landed before"
    return ""


def _subject(body: Any) -> str:  # noqa: ANN401 - any fact
    if isinstance(body, f.MemberReady | f.MemberExited | f.CheckpointSaved):
        return f"{body.job}#{body.attempt} on {body.node}"
    if isinstance(body, f.FaultDetected | f.FaultCleared):
        return f"{body.node} GPU {body.gpu}"
    name = getattr(body, "job", "") or getattr(body, "node", "") or getattr(body, "team", "")
    return str(name)


def _matter(body: Any) -> str:  # noqa: ANN401 - any fact
    """Facts of one matter supersede each other."""
    return _MATTERS.get(type(body), type(body).__name__)


_MATTERS: Final[Mapping[type, str]] = {
    f.JobHoldRequested: "hold",
    f.JobHoldReleased: "hold",
    f.FaultDetected: "fault",
    f.FaultCleared: "fault",
}


def _live(auditor: Auditor, name: str) -> list[ModelJob]:
    """The live job of a name, or the live tasks of that array, if submitted before it was asked."""
    return [
        job
        for job in auditor.model.named(name)
        if not job.outcome and auditor.submitted_at[job.job] < auditor.reading
    ]


def _submitted(auditor: Auditor, body: f.JobSubmitted) -> str:
    known = body.job in auditor.answered or f"{body.job}.1" in auditor.answered
    return "" if known else "neither queued nor refused"


def _cancel(auditor: Auditor, body: f.JobCancelRequested) -> str:
    running_on = [job.job for job in _live(auditor, body.job) if not job.leaving]
    return f"{', '.join(running_on)} goes on" if running_on else ""


def _hold(auditor: Auditor, body: f.JobHoldRequested) -> str:
    free = [job.job for job in _live(auditor, body.job) if not job.held_by]
    return f"{', '.join(free)} is not held" if free else ""


def _release(auditor: Auditor, body: f.JobHoldReleased) -> str:
    held = [job.job for job in _live(auditor, body.job) if job.held_by == "user:u"]
    return f"{', '.join(held)} is held" if held else ""


def _priority(auditor: Auditor, body: f.JobPriorityChangeRequested) -> str:
    other = [job.job for job in _live(auditor, body.job) if job.job_class != body.job_class]
    return f"{', '.join(other)} is of another class" if other else ""


def _present(auditor: Auditor, body: f.MemberReady | f.MemberExited) -> bool:
    """Whether the fact is of a job's present attempt, which holds its place."""
    job = auditor.model.jobs.get(body.job)
    return job is not None and job.attempt == body.attempt and job.holds


def _ready(auditor: Auditor, body: f.MemberReady) -> str:
    if not _present(auditor, body) or auditor.model.jobs[body.job].leaving:
        return ""
    return "" if body.node in auditor.model.jobs[body.job].ready else "not counted as ready"


def _exited(auditor: Auditor, body: f.MemberExited) -> str:
    if not _present(auditor, body):
        return ""
    return "" if body.node in auditor.out.get(body.job, ()) else "not counted as out"


def _saved(auditor: Auditor, body: f.CheckpointSaved) -> str:
    job = auditor.model.jobs.get(body.job)
    if job is None or job.attempt != body.attempt or not job.holds or job.started_ms is None:
        return ""
    ran_ms = auditor.resumed_ms[job.job] + auditor.model.now_ms - job.started_ms
    least_ms = min(body.productive_ms, ran_ms)
    return "" if job.saved_ms >= least_ms else f"only {job.saved_ms} ms are recorded"


def _broken(auditor: Auditor, body: f.FaultDetected) -> str:
    node = auditor.model.nodes.get(body.node)
    if node is None or body.gpu in node.bad or not -1 < body.gpu < node.gpus:
        return ""
    return "the GPU is still in use"


def _mended(auditor: Auditor, body: f.FaultCleared) -> str:
    node = auditor.model.nodes.get(body.node)
    return "the GPU is still out" if node is not None and body.gpu in node.bad else ""


_MARKS: Final[Mapping[type, Callable[[Auditor, Any], str]]] = {
    f.JobSubmitted: _submitted,
    f.JobCancelRequested: _cancel,
    f.JobHoldRequested: _hold,
    f.JobHoldReleased: _release,
    f.JobPriorityChangeRequested: _priority,
    f.MemberReady: _ready,
    f.MemberExited: _exited,
    f.CheckpointSaved: _saved,
    f.FaultDetected: _broken,
    f.FaultCleared: _mended,
}


# --- by time --------------------------------------------------------------------------------------


def overdue(auditor: Auditor) -> str:
    """What should have happened by time alone before a step that had read everything."""
    holding: Iterable[ModelJob] = auditor.model.holding.values()
    for job in holding:
        if job.leaving:
            continue
        problem = _over_limit(auditor, job) or _unready(auditor, job)
        if problem:
            return f"{job.job} {problem}"
    return ""


def _over_limit(auditor: Auditor, job: ModelJob) -> str:
    if job.spec.limit_ms is None or job.started_ms is None:
        return ""
    ran_ms = auditor.resumed_ms.get(job.job, 0) + auditor.model.now_ms - job.started_ms
    over_ms = ran_ms - job.spec.limit_ms
    return f"is {over_ms} ms over its limit" if over_ms > LATE_MS else ""


def _unready(auditor: Auditor, job: ModelJob) -> str:
    if job.started_ms is not None:
        return ""
    since_ms = max(auditor.placed_ms[job.job], auditor.led_ms)
    late_ms = auditor.model.now_ms - since_ms - auditor.policy("start_timeout")
    return f"should have started {late_ms} ms ago" if late_ms > LATE_MS else ""


def grace_problem(auditor: Auditor, decision: d.GangPreempted) -> str:
    """A victim has its own grace, or the policy's; nothing, when it had not started."""
    job = auditor.model.jobs[decision.job]
    own = job.spec.grace_ms
    wanted = auditor.policy("preemption_grace") if own is None else own
    if job.started_ms is None:
        wanted = 0
    return "" if decision.grace_ms == wanted else f"a grace of {decision.grace_ms}, not {wanted}"
