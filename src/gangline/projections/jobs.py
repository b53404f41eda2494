"""The view `jobs`: one row a job, with its state now and what it has cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events.named_sql import load_sql
from gangline.projections.work import ReadModel, Unknown, Work, public_spec, touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PREEMPTING: Final = (d.StopCause.PREEMPTED, d.StopCause.DRAINED, d.StopCause.MAINTENANCE)
"""A gang that is told to stop for other causes keeps its state until it is out."""


@dataclass(slots=True, kw_only=True)
class JobRow:
    """The columns of the table `job`."""

    cell: str
    job: str
    number: int
    team: str
    class_rank: int
    gpus: int
    state: str
    submitted_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    attempt: int = 0
    attempts: int = 0
    aborted_starts: int = 0
    preemptions: int = 0
    lost_gpu_ms: int = 0
    productive_ms: int = 0
    retries_used: int = 0
    held: bool = False
    reason: str = ""
    reason_text: str = ""
    exit_code: int | None = None
    nearest: str = ""
    actor: str = ""
    submission: str = ""
    array_of: str = ""
    stop_cause: str = ""
    level: str = ""
    nodes: list[str] = field(default_factory=list)
    spec: dict[str, Any] = field(default_factory=dict)


def queued(cell: str, decision: d.JobQueued) -> JobRow:
    """The row of a job that was accepted."""
    return JobRow(
        cell=cell,
        job=decision.job,
        number=decision.number,
        team=decision.spec.team,
        class_rank=int(decision.spec.job_class),
        gpus=decision.spec.gpus,
        state="queued",
        submitted_ms=decision.submitted_ms,
        actor=decision.actor,
        submission=decision.submitted_at,
        array_of=decision.array,
        spec=public_spec(decision.spec),
    )


def rejected(cell: str, decision: d.JobRejected, at_ms: int) -> JobRow:
    """The row of a job that was never accepted."""
    return JobRow(
        cell=cell,
        job=decision.job,
        number=0,
        team=decision.team,
        class_rank=1,
        gpus=0,
        state="rejected",
        submitted_ms=decision.submitted_ms or at_ms,
        ended_ms=at_ms,
        reason=decision.reason,
        reason_text=decision.text,
        nearest=decision.nearest,
    )


def _rejected_later(job: JobRow, decision: d.JobRejected, at_ms: int) -> None:
    job.state, job.ended_ms = "rejected", at_ms
    job.reason, job.reason_text, job.nearest = decision.reason, decision.text, decision.nearest


def _held(job: JobRow, _decision: d.JobHeld, _at_ms: int) -> None:
    job.held = True


def _released(job: JobRow, _decision: d.JobReleased, _at_ms: int) -> None:
    job.held = False


def _priority_changed(job: JobRow, decision: d.PriorityChanged, _at_ms: int) -> None:
    job.class_rank = int(decision.job_class)


def _placed(job: JobRow, decision: d.GangPlaced, _at_ms: int) -> None:
    job.state, job.attempt, job.stop_cause = "starting", decision.attempt, ""
    job.level, job.nodes = decision.level, [seat.node for seat in decision.seats]


def _started(job: JobRow, _decision: d.GangStarted, at_ms: int) -> None:
    job.state = "running"
    job.attempts += 1
    job.started_ms = at_ms if job.started_ms is None else job.started_ms


def _start_aborted(job: JobRow, _decision: d.GangStartAborted, _at_ms: int) -> None:
    job.aborted_starts += 1
    _stop(job, d.StopCause.START_ABORTED)


def _saved(job: JobRow, decision: d.CheckpointRecorded, _at_ms: int) -> None:
    job.productive_ms = decision.productive_ms


def _preempted(job: JobRow, _decision: d.GangPreempted, _at_ms: int) -> None:
    job.preemptions += 1
    _stop(job, d.StopCause.PREEMPTED)


def _stopping(job: JobRow, decision: d.GangStopping, _at_ms: int) -> None:
    _stop(job, decision.cause)


def _stop(job: JobRow, cause: d.StopCause) -> None:
    """The first order to stop says what becomes of the gang."""
    if not job.stop_cause:
        job.stop_cause = str(cause)
        job.state = "preempting" if cause in _PREEMPTING else job.state


def _gang_released(job: JobRow, decision: d.GangReleased, _at_ms: int) -> None:
    job.lost_gpu_ms += decision.lost_gpu_ms
    job.productive_ms = decision.productive_ms


def _requeued(job: JobRow, decision: d.JobRequeued, _at_ms: int) -> None:
    job.state, job.retries_used = "queued", decision.retries_used


def _finished(job: JobRow, decision: d.JobFinished, at_ms: int) -> None:
    job.state, job.ended_ms = str(decision.outcome), at_ms
    job.reason, job.reason_text, job.exit_code = decision.reason, "", decision.code


_FOLDS: Final[Mapping[type, Callable[[JobRow, Any, int], None]]] = {
    d.JobRejected: _rejected_later,
    d.JobHeld: _held,
    d.JobReleased: _released,
    d.PriorityChanged: _priority_changed,
    d.GangPlaced: _placed,
    d.GangStarted: _started,
    d.GangStartAborted: _start_aborted,
    d.CheckpointRecorded: _saved,
    d.GangPreempted: _preempted,
    d.GangStopping: _stopping,
    d.GangReleased: _gang_released,
    d.JobRequeued: _requeued,
    d.JobFinished: _finished,
}


def fold(jobs: dict[str, JobRow], decision: d.Decision, *, cell: str, at_ms: int) -> None:
    """Change the rows as a decision says. Ended jobs stay as they ended."""
    if isinstance(decision, d.JobQueued):
        jobs[decision.job] = queued(cell, decision)
        return
    name: str = decision.job  # type: ignore[union-attr]
    job = jobs.get(name)
    if job is None:
        if isinstance(decision, d.JobRejected):
            jobs[name] = rejected(cell, decision, at_ms)
        return
    if job.ended_ms is None:
        _FOLDS[type(decision)](job, decision, at_ms)


class Jobs(ReadModel):
    """The read model of `jobs`."""

    name = "jobs"
    tables = ("job",)
    unknown = Unknown.SKIP
    kinds = (d.JobQueued, *_FOLDS)
    sql = load_sql("gangline.projections", "jobs.sql")

    def apply(self, work: Work) -> Iterator[None]:
        """Fold a run of steps into the table."""
        decisions = list(work.decisions(self))
        found = work.load("load", JobRow, jobs=touched(decisions, "job"))
        yield
        jobs = {row.job: row for row in found}
        again = [x.job for _, x in decisions if isinstance(x, d.JobQueued)]
        if not jobs.keys().isdisjoint(again):
            work.run("remove", jobs=[name for name in again if name in jobs])
        for item, decision in decisions:
            work.at = item
            fold(jobs, decision, cell=work.cell, at_ms=item.at_ms)
        work.write("write", list(jobs.values()))
