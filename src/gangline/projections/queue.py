"""The view `queue`: jobs that wait for a place, why, and when they may start.

Start estimates are what the scheduler planned, moved by how far past plans were from what happened:
each first plan of a wait is kept beside the real start (`start_estimate`), and the view adds the
measured error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events.named_sql import load_sql
from gangline.projections.work import ReadModel, Unknown, Work, touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(slots=True, kw_only=True)
class WaitingRow:
    """The columns of the table `waiting`. start_ms: as planned now; first_start_ms: at first."""

    cell: str
    job: str
    number: int
    team: str
    class_rank: int
    gpus: int
    queued: bool = True
    submitted_ms: int
    reason: str = ""
    reason_text: str = ""
    held: bool = False
    reservation: str = ""
    planned_ms: int | None = None
    start_ms: int | None = None
    first_planned_ms: int | None = None
    first_start_ms: int | None = None
    not_before_ms: int = 0


@dataclass(slots=True, kw_only=True)
class EstimateRow:
    """The columns of the table `start_estimate`."""

    cell: str
    job: str
    started_ms: int
    planned_ms: int
    start_ms: int


@dataclass(slots=True)
class Line:
    """The rows that a run touches. ended: jobs that left. estimates: of gangs that started."""

    cell: str
    rows: dict[str, WaitingRow]
    ended: dict[str, None] = field(default_factory=dict)
    estimates: list[EstimateRow] = field(default_factory=list)

    def fold(self, decision: d.Decision, at_ms: int) -> None:
        """Change the rows as a decision says."""
        if isinstance(decision, d.JobQueued):
            self._enter(decision)
        elif isinstance(decision, d.WaitCauseChanged):
            self._explain(decision)
        else:
            name: str = decision.job  # type: ignore[union-attr]
            row = self.rows.get(name)
            if row is not None:
                _FOLDS[type(decision)](self, row, decision, at_ms)

    def _enter(self, decision: d.JobQueued) -> None:
        self.ended.pop(decision.job, None)
        self.rows[decision.job] = WaitingRow(
            cell=self.cell,
            job=decision.job,
            number=decision.number,
            team=decision.spec.team,
            class_rank=int(decision.spec.job_class),
            gpus=decision.spec.gpus,
            submitted_ms=decision.submitted_ms,
        )

    def _explain(self, decision: d.WaitCauseChanged) -> None:
        for name in decision.jobs:
            row = self.rows.get(name)
            if row is not None:
                row.reason, row.reason_text = str(decision.cause), decision.text


def _held(_line: Line, row: WaitingRow, _decision: d.JobHeld, _at_ms: int) -> None:
    row.held = True


def _released(_line: Line, row: WaitingRow, _decision: d.JobReleased, _at_ms: int) -> None:
    row.held = False


def _priority_changed(_line: Line, row: WaitingRow, decision: d.PriorityChanged, _ms: int) -> None:
    row.class_rank = int(decision.job_class)


def _planned(_line: Line, row: WaitingRow, decision: d.ReservationPlanned, at_ms: int) -> None:
    row.reservation, row.planned_ms, row.start_ms = decision.kind, at_ms, decision.start_ms
    if row.first_start_ms is None:
        row.first_planned_ms, row.first_start_ms = at_ms, decision.start_ms


def _plan_released(
    _line: Line, row: WaitingRow, _decision: d.ReservationReleased, _ms: int
) -> None:
    row.reservation, row.planned_ms, row.start_ms = "", None, None


def _placed(_line: Line, row: WaitingRow, _decision: d.GangPlaced, _at_ms: int) -> None:
    row.queued, row.reason, row.reason_text = False, "", ""


def _started(line: Line, row: WaitingRow, _decision: d.GangStarted, at_ms: int) -> None:
    if row.first_start_ms is not None and row.first_planned_ms is not None:
        estimate = EstimateRow(
            cell=line.cell,
            job=row.job,
            started_ms=at_ms,
            planned_ms=row.first_planned_ms,
            start_ms=row.first_start_ms,
        )
        line.estimates.append(estimate)
    row.first_planned_ms = row.first_start_ms = None


def _requeued(_line: Line, row: WaitingRow, decision: d.JobRequeued, _at_ms: int) -> None:
    row.queued, row.not_before_ms = True, decision.not_before_ms


def _ended(line: Line, row: WaitingRow, _decision: object, _at_ms: int) -> None:
    del line.rows[row.job]
    line.ended[row.job] = None


_FOLDS: Final[Mapping[type, Callable[[Line, WaitingRow, Any, int], None]]] = {
    d.JobHeld: _held,
    d.JobReleased: _released,
    d.PriorityChanged: _priority_changed,
    d.ReservationPlanned: _planned,
    d.ReservationReleased: _plan_released,
    d.GangPlaced: _placed,
    d.GangStarted: _started,
    d.JobRequeued: _requeued,
    d.JobRejected: _ended,
    d.JobFinished: _ended,
}


class Queue(ReadModel):
    """The read model of `queue`."""

    name = "queue"
    tables = ("waiting", "start_estimate")
    unknown = Unknown.SKIP
    kinds = (d.JobQueued, d.WaitCauseChanged, *_FOLDS)
    sql = load_sql("gangline.projections", "queue.sql")

    def apply(self, work: Work) -> Iterator[None]:
        """Fold a run of steps into the tables."""
        decisions = list(work.decisions(self))
        found = work.load("load", WaitingRow, jobs=touched(decisions, "job"))
        yield
        line = Line(work.cell, {row.job: row for row in found})
        for item, decision in decisions:
            work.at = item
            line.fold(decision, item.at_ms)
        if line.ended:
            work.run("remove", jobs=list(line.ended))
        work.write("write", list(line.rows.values()))
        work.write("keep_estimates", line.estimates)
