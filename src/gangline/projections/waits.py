"""The view `waits`: every pending millisecond of a job has one cause.

A job waits from its submission, and from each time it is queued again, until its gang starts. The
cause is `deciding` until the scheduler has given one, and `starting` from the placement on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gangline.events import decisions as d
from gangline.events.named_sql import load_sql
from gangline.projections.work import ReadModel, Unknown, Work, touched

if TYPE_CHECKING:
    from collections.abc import Iterator

DECIDING: Final = "deciding"
STARTING: Final = "starting"


@dataclass(slots=True, kw_only=True)
class WaitRow:
    """The columns of the table `wait`. to_ms: None while it goes on."""

    cell: str
    job: str
    from_ms: int
    to_ms: int | None = None
    cause: str
    team: str
    gpus: int
    first_start: bool


@dataclass(slots=True, kw_only=True)
class WaitJobRow:
    """The columns of the table `wait_job`: what must be known of a job that has not ended."""

    cell: str
    job: str
    team: str
    gpus: int
    started: bool = False


@dataclass(slots=True)
class Waiting:
    """The rows that a run touches. open: what goes on, by job. closed: what the run ended."""

    cell: str
    jobs: dict[str, WaitJobRow]
    open: dict[str, WaitRow]
    closed: list[WaitRow] = field(default_factory=list)
    ended: dict[str, None] = field(default_factory=dict)

    def fold(self, decision: d.Decision, at_ms: int) -> None:
        """Change the rows as a decision says."""
        match decision:
            case d.JobQueued():
                self._enter(decision)
            case d.WaitCauseChanged():
                for job in decision.jobs:
                    self._turn(job, str(decision.cause), at_ms)
            case d.GangPlaced():
                self._turn(decision.job, STARTING, at_ms)
            case d.JobRequeued():
                self._begin(decision.job, DECIDING, at_ms)
            case _:
                self._leave(decision, at_ms)

    def _leave(self, decision: d.Decision, at_ms: int) -> None:
        """The gang started, or was told to stop before it did, or the job has ended."""
        name: str = decision.job  # type: ignore[union-attr]
        self._close(name, at_ms)
        if isinstance(decision, d.GangStarted) and name in self.jobs:
            self.jobs[name].started = True
        elif isinstance(decision, (d.JobFinished, d.JobRejected)) and name in self.jobs:
            del self.jobs[name]
            self.ended[name] = None

    def _enter(self, decision: d.JobQueued) -> None:
        self.ended.pop(decision.job, None)
        self.jobs[decision.job] = WaitJobRow(
            cell=self.cell, job=decision.job, team=decision.spec.team, gpus=decision.spec.gpus
        )
        self._begin(decision.job, DECIDING, decision.submitted_ms)

    def _begin(self, name: str, cause: str, at_ms: int) -> None:
        self._close(name, at_ms)
        job = self.jobs.get(name)
        if job is not None:
            self.open[name] = WaitRow(
                cell=self.cell,
                job=name,
                from_ms=at_ms,
                cause=cause,
                team=job.team,
                gpus=job.gpus,
                first_start=not job.started,
            )

    def _turn(self, name: str, cause: str, at_ms: int) -> None:
        """Go on waiting, for another cause."""
        row = self.open.get(name)
        if row is not None and row.cause != cause:
            self._begin(name, cause, at_ms)

    def _close(self, name: str, at_ms: int) -> None:
        """End what goes on; what has no length is put aside."""
        row = self.open.pop(name, None)
        if row is not None and at_ms > row.from_ms:
            row.to_ms = at_ms
            self.closed.append(row)


class Waits(ReadModel):
    """The read model of `waits`."""

    name = "waits"
    tables = ("wait", "wait_job", "wait_total")
    unknown = Unknown.SKIP
    kinds = (
        d.JobQueued,
        d.WaitCauseChanged,
        d.GangPlaced,
        d.GangStarted,
        d.JobRequeued,
        d.GangPreempted,
        d.GangStopping,
        d.GangStartAborted,
        d.JobFinished,
        d.JobRejected,
    )
    sql = load_sql("gangline.projections", "waits.sql")

    def apply(self, work: Work) -> Iterator[None]:
        """Fold a run of steps into the tables."""
        decisions = list(work.decisions(self))
        names = touched(decisions, "job")
        jobs = {row.job: row for row in work.load("load_jobs", WaitJobRow, jobs=names)}
        before = {row.job: row for row in work.load("load", WaitRow, jobs=names)}
        yield
        waiting = Waiting(work.cell, jobs, dict(before))
        for item, decision in decisions:
            work.at = item
            waiting.fold(decision, item.at_ms)
        if before:
            work.run("drop_open", jobs=list(before))
        work.write("write", [*waiting.closed, *waiting.open.values()])
        work.write("add_totals", waiting.closed)
        if waiting.ended:
            work.run("remove_jobs", jobs=list(waiting.ended))
        work.write("write_jobs", list(waiting.jobs.values()))
