"""A job's life in words, from the decisions about it: one line for each, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from gangline.events import codec
from gangline.events import decisions as d
from gangline.replay.history import steps
from gangline.replay.ties import cost_in_words, order_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.replay.history import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that happened to a job. seq: of the batch that says so."""

    seq: int
    at_ms: int
    kind: str
    text: str

    def __str__(self) -> str:
        """As people read it."""
        at = datetime.fromtimestamp(self.at_ms / 1000, tz=UTC)
        return f"{at:%Y-%m-%d %H:%M:%S}.{self.at_ms % 1000:03d}  #{self.seq}  {self.text}"


def life_of(source: Source, job: str) -> list[Line]:
    """Everything that was decided about a job, oldest first; empty for a job that never was."""
    lines = []
    for step in steps(source):
        for packed in step.batch.decisions:
            decision = codec.unpack(packed)
            if decision is not None and concerns(decision, job):
                lines.append(
                    Line(
                        seq=step.batch.seq,
                        at_ms=step.batch.now_ms,
                        kind=packed.kind,
                        text=in_words(decision, job),
                    )
                )
    return lines


def concerns(decision: object, job: str) -> bool:
    """Whether a decision is about a job, or names it."""
    named = (getattr(decision, name, None) for name in ("job", "claimant", "array"))
    return job in named or any(job in getattr(decision, name, ()) for name in ("jobs", "victims"))


def in_words(decision: object, job: str) -> str:
    """A decision as a sentence; job: who reads it."""
    tell = _TELL.get(type(decision))
    if tell is None:
        return type(decision).__name__
    return tell(decision, job)


def duration(ms: int) -> str:
    """A length of time as the scenario grammar writes it: the largest unit that it fills evenly."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms" if ms < 1_000 else f"{ms / 1_000:.1f}s"


def _queued(it: d.JobQueued, _job: str) -> str:
    spec = it.spec
    shape = "" if spec.gpus_per_node is None else f", {spec.gpus_per_node} on each node"
    return (
        f"accepted as number {it.number} from {it.submitted_at}: "
        f"team {spec.team}, {spec.gpus} GPUs{shape}, {spec.job_class.word}"
    )


def _rejected(it: d.JobRejected, _job: str) -> str:
    nearest = f"; could start: {it.nearest}" if it.nearest else ""
    return f"rejected: {it.text or it.reason}{nearest}"


def _placed(it: d.GangPlaced, _job: str) -> str:
    seats = ", ".join(f"{seat.node} ({len(seat.gpus)})" for seat in it.seats)
    borrowed = f", {it.borrowed} GPUs borrowed" if it.borrowed else ""
    return f"attempt {it.attempt}: placed on {seats} within one {it.level}{borrowed}{_why(it)}"


def _started(it: d.GangStarted, _job: str) -> str:
    resumed = f" from its checkpoint at {duration(it.resumed_ms)}" if it.resumed_ms else ""
    return f"attempt {it.attempt}: all members were ready; it runs{resumed}"


def _aborted(it: d.GangStartAborted, _job: str) -> str:
    return f"attempt {it.attempt}: did not start ({it.why}): {', '.join(it.slow) or 'nobody slow'}"


def _preempted(it: d.GangPreempted, job: str) -> str:
    if it.job != job:
        return f"{it.job} is told to leave for it ({it.cause}){_why(it)}"
    return (
        f"attempt {it.attempt}: told to leave for {it.claimant} ({it.cause}), "
        f"grace {duration(it.grace_ms)}{_why(it)}"
    )


def _stopping(it: d.GangStopping, _job: str) -> str:
    by = f" by {it.by}" if it.by else ""
    return f"attempt {it.attempt}: told to stop ({it.cause}){by}, grace {duration(it.grace_ms)}"


def _released(it: d.GangReleased, _job: str) -> str:
    lost = f", {duration(it.lost_gpu_ms)} of GPU time must be done again" if it.lost_gpu_ms else ""
    linger = f"; still fenced on {', '.join(it.lingering)}" if it.lingering else ""
    kept = duration(it.productive_ms)
    return f"attempt {it.attempt}: holds nothing any more ({it.cause}); {kept} kept{lost}{linger}"


def _ended(it: d.MemberEnded, _job: str) -> str:
    how = "presumed gone" if it.presumed else f"{it.reason}, code {it.code}"
    signal = f", signal {it.signal}" if it.signal else ""
    return f"attempt {it.attempt}: member on {it.node} is out ({how}{signal})"


def _requeued(it: d.JobRequeued, _job: str) -> str:
    return f"waits again after attempt {it.attempt} ({it.cause}), {it.retries_used} retries used"


def _finished(it: d.JobFinished, _job: str) -> str:
    reason = f": {it.reason}" if it.reason else ""
    return f"ended: {it.outcome}{reason}"


def _planned(it: d.ReservationPlanned, job: str) -> str:
    if it.job != job:
        return f"{it.job} has a claim on its place"
    seats = ", ".join(f"{seat.node} ({seat.gpus})" for seat in it.seats)
    return f"has a reservation ({it.kind}) on {seats}"


def _saved(it: d.CheckpointRecorded, _job: str) -> str:
    return f"attempt {it.attempt}: checkpoint at {duration(it.productive_ms)} ({it.path})"


def _why(it: d.GangPlaced | d.GangPreempted) -> str:
    """The certificate, as far as it says something."""
    found = it.certificate
    if isinstance(it, d.GangPlaced):
        tie = ("in order by", order_in_words(found.tie))
    else:
        tie = ("at the cost of", cost_in_words(found.tie, duration=duration))
    parts = (("binding", found.binding), tie, ("else", found.alternative))
    said = ", ".join(f"{name}: {text}" for name, text in parts if text)
    return f" [{said}]" if said else ""


_TELL: Final = cast(
    "Mapping[type, Callable[[Any, str], str]]",
    {
        d.JobQueued: _queued,
        d.JobRejected: _rejected,
        d.JobHeld: lambda it, _: f"held by {it.by}: {it.why}",
        d.JobReleased: lambda it, _: f"released by {it.by}" if it.by else "released",
        d.PriorityChanged: lambda it, _: f"is {it.job_class.word} from now on",
        d.JobRequeued: _requeued,
        d.JobFinished: _finished,
        d.WaitCauseChanged: lambda it, _: f"waits: {it.cause}: {it.text}",
        d.GangPlaced: _placed,
        d.MembersReady: lambda it, _: f"attempt {it.attempt}: ready on {', '.join(it.nodes)}",
        d.GangStarted: _started,
        d.GangStartAborted: _aborted,
        d.CheckpointRecorded: _saved,
        d.MemberEnded: _ended,
        d.GangPreempted: _preempted,
        d.GangStopping: _stopping,
        d.GangReleased: _released,
        d.ReservationPlanned: _planned,
        d.ReservationReleased: lambda it, _: f"its reservation is over ({it.why})",
        d.NodeHealthChanged: lambda it, _: f"{it.node} is {it.health} because of it ({it.cause})",
    },
)


def told(lines: list[Line]) -> Iterator[str]:
    """The life as text."""
    return map(str, lines)
