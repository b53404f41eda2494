"""Writes a simulated history to a log file, as a live cell would have written it to its log.

The facts stand there with their offsets, and each step that decided something as a batch: what it
consumed, with digests, what was decided, and the state's digest, chained to the one before. So
`gangline replay verify --log FILE` proves a simulation like any other history. Facts and edges of
steps that decided nothing are given again with the next step, as a live scheduler does, and so
they are part of the next batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from gangline.events import codec
from gangline.events.batch import InputRange
from gangline.events.log import Record, Topic, TopicPartition
from gangline.replay.logfile import LogFileWriter
from gangline.scheduler.batches import Link, StepHeader, build
from gangline.scheduler.intake import INPUT_TOPICS, RangeDigest

if TYPE_CHECKING:
    from gangline.events.batch import Edge
    from gangline.replay.core_port import Step
    from gangline.replay.world import World
    from gangline.scheduler.core.inputs import Fact

LEADER: Final = "sim-1"
UNDECODABLE: Final = b"\x00garbage"
# A simulation makes edges, not heartbeats. A reader would miss them, and take every node for
# silent; so the first batch after the leader's own says that it consumed one that is not kept any
# more, as in a log that is older than the days for which heartbeats are kept.
HEARTBEATS_GONE: Final = InputRange(
    topic=Topic.HEARTBEATS, partition=0, first=0, last=0, count=1, digest=codec.digest(b"")
)


class RecordWriter(Protocol):
    """Whoever takes records as they come: a log file, or a live log."""

    def write(self, record: Record) -> None:
        """The next record."""
        ...

    def close(self) -> None:
        """Write what is buffered."""
        ...


class LogRecorder:
    """An observer of a world that writes what it sees; close it at the end."""

    def __init__(self, to: Path | RecordWriter, *, genesis: str, logic_version: int) -> None:
        self._writer: RecordWriter = LogFileWriter(to) if isinstance(to, Path) else to
        self._logic_version = logic_version
        self._link = Link(genesis, 0, 0, b"", 0)
        self._ranges: dict[TopicPartition, RangeDigest] = {}
        self._edges: list[Edge] = []
        self._offset = 0
        self._told_gone = False

    def stepped(self, world: World, step: Step) -> None:
        """Write a step that decided something: its facts, then its batch."""
        if not step.decisions:
            return
        for fact in step.facts:
            self._write_fact(fact)
        self._edges.extend(step.edges)
        self._write_batch(world, step)

    def close(self) -> None:
        """Write what is buffered."""
        self._writer.close()

    @property
    def _led(self) -> bool:
        """Whether the batch in which the leader took over stands there."""
        return self._link.seq > 0

    def _write_fact(self, fact: Fact) -> None:
        value = UNDECODABLE if fact.event is None else codec.encode(fact.event)
        body = None if fact.event is None else fact.event.body
        key = getattr(body, "node" if fact.topic == Topic.NODES else "job", "")
        record = Record(
            topic=fact.topic,
            partition=fact.partition,
            offset=fact.offset,
            appended_ms=fact.appended_ms,
            key=key.encode(),
            value=value,
        )
        self._consume(record)

    def _consume(self, record: Record) -> None:
        """Write an input record; the next batch says that it was consumed."""
        self._writer.write(record)
        partition = TopicPartition(record.topic, record.partition)
        self._ranges.setdefault(partition, RangeDigest()).add(record)

    def _write_batch(self, world: World, step: Step) -> None:
        gone = (HEARTBEATS_GONE,) if self._led and not self._told_gone else ()
        self._told_gone |= bool(gone)
        partitions = sorted(self._ranges, key=lambda p: (INPUT_TOPICS.index(p.topic), p.partition))
        header = StepHeader(
            link=self._link,
            leader=LEADER,
            term=world.leader.term,
            now_ms=step.now_ms,
            caught_up=step.caught_up,
            logic_version=self._logic_version,
            inputs=(*(self._ranges[p].range_of(p) for p in partitions), *gone),
            edges=tuple(self._edges),
            state_digest=step.digest or world.core.state_digest(world.state),
        )
        for record in build(header, [codec.pack(decision) for decision in step.decisions]):
            self._link = record.link
            self._writer.write(
                Record(
                    topic=Topic.DECISIONS,
                    partition=0,
                    offset=self._offset,
                    appended_ms=step.now_ms,
                    key=b"",
                    value=record.value,
                )
            )
            self._offset += 1
        self._ranges = {}
        self._edges = []
