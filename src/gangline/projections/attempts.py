"""The view `attempts`: one row a gang, from its placement until it is out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events.avro import to_plain
from gangline.events.named_sql import load_sql
from gangline.projections.work import ReadModel, Unknown, Work, touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_seat = to_plain(d.Seat)
_certificate = to_plain(d.Certificate)

HUNG: Final = "no progress for its progress_timeout"
"""Why the machine, which cannot tell a hung network from a hung program, ended it."""


@dataclass(slots=True, kw_only=True)
class AttemptRow:
    """The columns of the table `attempt`."""

    cell: str
    job: str
    attempt: int
    state: str
    gpus: int
    borrowed: int
    seats: list[dict[str, Any]] = field(default_factory=list)
    level: str
    crossed: int
    placed_ms: int
    started_ms: int | None = None
    stopping_ms: int | None = None
    ended_ms: int | None = None
    cause: str = ""
    cause_text: str = ""
    claimant: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    exit_node: str = ""
    resumed_ms: int = 0
    resume_step: int = 0
    productive_ms: int = 0
    lost_gpu_ms: int = 0
    checkpoints: int = 0
    checkpoint_ms: int | None = None
    checkpoint_step: int | None = None
    checkpoint_path: str = ""
    certificate: dict[str, Any] = field(default_factory=dict)


def placed(cell: str, decision: d.GangPlaced, at_ms: int) -> AttemptRow:
    """The row of a new gang."""
    return AttemptRow(
        cell=cell,
        job=decision.job,
        attempt=decision.attempt,
        state="starting",
        gpus=sum(len(seat.gpus) for seat in decision.seats),
        borrowed=decision.borrowed,
        seats=[_seat(seat) for seat in decision.seats],
        level=decision.level,
        crossed=decision.crossed,
        placed_ms=at_ms,
        certificate=_certificate(decision.certificate),
    )


def _started(row: AttemptRow, decision: d.GangStarted, at_ms: int) -> None:
    row.state, row.started_ms = "running", at_ms
    row.resumed_ms, row.resume_step = decision.resumed_ms, decision.resume_step
    row.productive_ms = decision.resumed_ms


def _start_aborted(row: AttemptRow, decision: d.GangStartAborted, _at_ms: int) -> None:
    row.state, row.cause_text = "aborted", decision.why


def _saved(row: AttemptRow, decision: d.CheckpointRecorded, at_ms: int) -> None:
    row.checkpoints += 1
    row.checkpoint_ms, row.checkpoint_step = at_ms, decision.step
    row.checkpoint_path, row.productive_ms = decision.path, decision.productive_ms


def _member_ended(row: AttemptRow, decision: d.MemberEnded, _at_ms: int) -> None:
    """Keep the first exit that was no success, until GangReleased says who failed first."""
    if decision.reason == "hung" and row.ended_ms is None:
        row.cause_text = HUNG
    elif decision.reason == "infrastructure" and row.state in ("starting", "running"):
        gone = f"{decision.node} was lost or removed"
        broken = f"the machine, or the supervisor of its processes, failed on {decision.node}"
        row.cause_text = gone if decision.presumed else broken
    if not row.exit_code and not row.exit_signal and row.ended_ms is None:
        row.exit_code, row.exit_signal = decision.code, decision.signal
        row.exit_node = decision.node


def _preempted(row: AttemptRow, decision: d.GangPreempted, at_ms: int) -> None:
    row.state, row.claimant, row.cause_text = "stopping", decision.claimant, decision.cause
    row.stopping_ms = at_ms if row.stopping_ms is None else row.stopping_ms


def _stopping(row: AttemptRow, decision: d.GangStopping, at_ms: int) -> None:
    row.state, row.cause_text = "stopping", f"by {decision.by}" if decision.by else row.cause_text
    row.stopping_ms = at_ms if row.stopping_ms is None else row.stopping_ms


def _released(row: AttemptRow, decision: d.GangReleased, at_ms: int) -> None:
    row.state = "aborted" if decision.cause is d.StopCause.START_ABORTED else "ended"
    row.ended_ms, row.cause = at_ms, str(decision.cause)
    row.lost_gpu_ms, row.productive_ms = decision.lost_gpu_ms, decision.productive_ms
    if decision.failed_on:
        row.exit_node = decision.failed_on
        row.exit_code, row.exit_signal = decision.code, decision.signal


_FOLDS: Final[Mapping[type, Callable[[AttemptRow, Any, int], None]]] = {
    d.GangStarted: _started,
    d.GangStartAborted: _start_aborted,
    d.CheckpointRecorded: _saved,
    d.MemberEnded: _member_ended,
    d.GangPreempted: _preempted,
    d.GangStopping: _stopping,
    d.GangReleased: _released,
}


class Attempts(ReadModel):
    """The read model of `attempts`."""

    name = "attempts"
    tables = ("attempt",)
    unknown = Unknown.SKIP
    kinds = (d.GangPlaced, *_FOLDS)
    sql = load_sql("gangline.projections", "attempts.sql")

    def apply(self, work: Work) -> Iterator[None]:
        """Fold a run of steps into the table."""
        decisions = list(work.decisions(self))
        found = work.load("load", AttemptRow, jobs=touched(decisions, "job"))
        yield
        rows = {(row.job, row.attempt): row for row in found}
        changed: dict[tuple[str, int], AttemptRow] = {}
        new: dict[tuple[str, int], AttemptRow] = {}
        for item, decision in decisions:
            work.at = item
            key: tuple[str, int] = (decision.job, decision.attempt)  # type: ignore[union-attr]
            if isinstance(decision, d.GangPlaced):
                rows[key] = new[key] = placed(work.cell, decision, item.at_ms)
            elif key in rows:
                _FOLDS[type(decision)](rows[key], decision, item.at_ms)
            else:
                continue
            changed[key] = rows[key]
        work.write("remove", list(new.values()))
        work.write("write", list(changed.values()))
