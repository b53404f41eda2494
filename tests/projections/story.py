"""Decisions for tests: written to a log in chained batches, as the leading scheduler would."""

from __future__ import annotations

from dataclasses import dataclass, field

from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.batch import DecisionBatch, InputRange, PackedDecision
from gangline.events.envelope import Event
from gangline.events.log import Log, Message, Position, Topic
from gangline.events.memory import MemoryLog
from gangline.events.spec import CheckpointSpec, JobClass, Private, Spec

START_MS = 1_800_000_000_000
"""When stories begin: on a boundary of five minutes."""


def new_log(cell: str = "main") -> MemoryLog:
    """An empty log with its topics."""
    log = MemoryLog(cell)
    log.create_topics()
    return log


@dataclass(slots=True)
class Story:
    """Writes steps to a log. now_ms: of the next step."""

    log: Log = field(default_factory=new_log)
    now_ms: int = START_MS
    seq: int = 0
    term: int = 1
    digest: bytes = b""
    inputs: int = 0

    def wait(self, *, s: float = 0, h: float = 0) -> None:
        """Let time pass."""
        self.now_ms += int(s * 1000 + h * 3_600_000)

    def step(self, *decisions: d.Decision | PackedDecision, inputs: int = 0) -> Position:
        """Append one step of one record. inputs: how many facts of `jobs` it consumed."""
        return self.part(*decisions, inputs=inputs, more=False)

    def part(
        self, *decisions: d.Decision | PackedDecision, inputs: int = 0, more: bool = True
    ) -> Position:
        """Append one record of a step."""
        self.seq += 1
        packed = [x if isinstance(x, PackedDecision) else codec.pack(x) for x in decisions]
        batch = DecisionBatch(
            genesis="genesis",
            term=self.term,
            seq=self.seq,
            more=more,
            now_ms=self.now_ms,
            caught_up=True,
            logic_version=1,
            inputs=self._consumed(inputs),
            edges=(),
            decisions=tuple(packed),
            state_digest=b"",
            previous_digest=self.digest,
        )
        envelope = codec.envelope_for(batch, id=f"genesis-{self.seq}", actor="scheduler:s0")
        value = codec.encode(Event(envelope=envelope, body=batch))
        self.digest = codec.body_digest(value)
        return self.log.append([Message(topic=Topic.DECISIONS, value=value)])[0]

    def _consumed(self, count: int) -> tuple[InputRange, ...]:
        if not count:
            return ()
        first, self.inputs = self.inputs, self.inputs + count
        last = self.inputs - 1
        return (
            InputRange(
                topic=Topic.JOBS, partition=0, first=first, last=last, count=count, digest=b""
            ),
        )


def spec(
    team: str = "vision",
    *,
    gpus: int = 8,
    job_class: JobClass = JobClass.NORMAL,
    checkpoint_ms: int | None = None,
) -> Spec:
    """A spec with a command that nobody but its owner may read."""
    return Spec(
        team=team,
        gpus=gpus,
        job_class=job_class,
        checkpoint=None if checkpoint_ms is None else CheckpointSpec(interval_ms=checkpoint_ms),
        private=Private(ciphertext=b'{"command": ["secret"]}'),
    )


def queued(
    job: str, *, number: int = 1, of: Spec | None = None, submitted_ms: int = START_MS
) -> d.JobQueued:
    """A job was accepted."""
    return d.JobQueued(
        job=job,
        number=number,
        spec=of or spec(),
        submitted_ms=submitted_ms,
        submitted_at=f"jobs-0-{number - 1}",
        actor="user:ada",
    )


def placed(job: str, *nodes: str, attempt: int = 1, gpus: int = 8) -> d.GangPlaced:
    """A gang holds the first GPUs of these nodes."""
    seats = tuple(
        d.Seat(node=node, gpus=tuple(range(gpus)), first_rank=rank * gpus)
        for rank, node in enumerate(nodes)
    )
    return d.GangPlaced(job=job, attempt=attempt, seats=seats, level="block", crossed=1, borrowed=0)


def started(job: str, *, attempt: int = 1, resumed_ms: int = 0) -> d.GangStarted:
    """The processes run."""
    return d.GangStarted(job=job, attempt=attempt, resumed_ms=resumed_ms)


def saved(
    job: str, *, productive_ms: int, attempt: int = 1, node: str = "n0"
) -> d.CheckpointRecorded:
    """A checkpoint exists."""
    return d.CheckpointRecorded(
        job=job, attempt=attempt, node=node, step=1, path="/ckpt/1", productive_ms=productive_ms
    )


def released(
    job: str,
    *,
    attempt: int = 1,
    cause: d.StopCause = d.StopCause.FINISHED,
    lost_gpu_ms: int = 0,
    productive_ms: int = 0,
    lingering: tuple[str, ...] = (),
) -> d.GangReleased:
    """A gang holds nothing any more."""
    return d.GangReleased(
        job=job,
        attempt=attempt,
        cause=cause,
        lost_gpu_ms=lost_gpu_ms,
        productive_ms=productive_ms,
        lingering=lingering,
    )


def requeued(job: str, *, attempt: int = 1, cause: d.StopCause = d.StopCause.USER) -> d.JobRequeued:
    """A job waits again."""
    return d.JobRequeued(job=job, attempt=attempt, cause=cause, retries_used=0)


def finished(job: str, outcome: d.Outcome = d.Outcome.SUCCEEDED) -> d.JobFinished:
    """A job has ended."""
    return d.JobFinished(job=job, outcome=outcome)


def waits(
    *jobs: str, cause: d.WaitCause = d.WaitCause.CAPACITY, text: str = ""
) -> d.WaitCauseChanged:
    """Jobs wait for another reason."""
    return d.WaitCauseChanged(jobs=jobs, cause=cause, text=text)


def node(name: str, *, gpus: int = 8) -> d.NodeAdded:
    """A node of the first block."""
    return d.NodeAdded(node=name, path=("s0", "s0-b0"), levels=("spine", "block"), gpus=gpus)


def team(
    name: str, *, guaranteed: int = 8, parent: str = "", lend: int = -1, weight: int = 1
) -> d.TeamChanged:
    """A team with a guarantee, that borrows without limit."""
    return d.TeamChanged(
        team=name, guaranteed=guaranteed, borrow=-1, lend=lend, weight=weight, parent=parent
    )
