"""A cell's history: every step with the facts that it consumed, as the core got them.

It comes from a log or from a file. Steps are chained and inputs are digested, so reading is
checking: the first record that is altered, missing, repeated or out of place raises
LogDifferenceError.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gangline.events import codec
from gangline.events.log import Position, Record, Topic, TopicPartition
from gangline.events.reading import read_to_ends
from gangline.replay.logfile import read_records
from gangline.scheduler.batches import LogDifferenceError, RecordedStep, StepReader
from gangline.scheduler.follower import DECISIONS
from gangline.scheduler.intake import INPUT_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gangline.events.batch import InputRange
    from gangline.events.log import Log


class Source(Protocol):
    """Where a history is read from."""

    def decisions(self) -> Iterator[Record]:
        """The records of `decisions` from the first one on."""
        ...

    def inputs(self, cursors: Mapping[TopicPartition, int]) -> Iterator[Record]:
        """Input records from these offsets on, partitions mixed in any way; 0: what is kept."""
        ...


class LogSource:
    """A live log, as far as it goes when reading begins."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def decisions(self) -> Iterator[Record]:
        """The records of `decisions`."""
        return read_to_ends(self._log, {DECISIONS: 0})

    def inputs(self, cursors: Mapping[TopicPartition, int]) -> Iterator[Record]:
        """Input records; heartbeats from the start of what is kept, as older ones may be gone."""
        wanted = dict.fromkeys(self._log.ends(INPUT_TOPICS), 0)
        wanted.update({p: at for p, at in cursors.items() if p.topic != Topic.HEARTBEATS})
        return read_to_ends(self._log, wanted)


class FileSource:
    """A log file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def decisions(self) -> Iterator[Record]:
        """The records of `decisions`."""
        return (r for r in read_records(self._path) if r.topic == Topic.DECISIONS)

    def inputs(self, cursors: Mapping[TopicPartition, int]) -> Iterator[Record]:
        """Input records."""
        for record in read_records(self._path):
            partition = TopicPartition(record.topic, record.partition)
            if record.topic in _INPUTS and record.offset >= cursors.get(partition, 0):
                yield record


_INPUTS = frozenset(map(str, INPUT_TOPICS))


class Streams:
    """One mixed stream of records, taken partition by partition."""

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._waiting: dict[TopicPartition, deque[Record]] = {}

    def up_to(self, partition: TopicPartition, last: int) -> list[Record]:
        """The next records of a partition, up to this offset; fewer when the stream ends before."""
        taken: list[Record] = []
        queue = self._waiting.setdefault(partition, deque())
        while not taken or taken[-1].offset < last:
            if not queue and not self._pull(queue):
                break
            if queue[0].offset > last:
                break
            taken.append(queue.popleft())
        return taken

    def _pull(self, wanted: deque[Record]) -> bool:
        """Read until the queue has a record; false at the end."""
        for record in self._records:
            partition = TopicPartition(record.topic, record.partition)
            queue = self._waiting.setdefault(partition, deque())
            queue.append(record)
            if queue is wanted:
                return True
        return False

    def rest(self) -> Iterator[Record]:
        """What nobody took, by partition."""
        for record in self._records:
            partition = TopicPartition(record.topic, record.partition)
            self._waiting.setdefault(partition, deque()).append(record)
        for partition in sorted(self._waiting):
            yield from self._waiting[partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One step of the history. inputs: the records that it consumed.

    lost_heartbeats: some heartbeats that it consumed are no longer kept.
    """

    step: RecordedStep
    inputs: tuple[Record, ...]
    lost_heartbeats: bool


def steps(source: Source) -> Iterator[RecordedStep]:
    """All steps with the chain checked; an unfinished last one is a broken chain."""
    reader = StepReader()
    record = None
    for record in source.decisions():
        step = reader.feed(record)
        if step is not None:
            yield step
    if reader.unfinished and record is not None:
        raise LogDifferenceError(
            record.position, what="the last step", expected="another part", got="the end"
        )


class History:
    """Steps together with what they consumed.

    steps: from the place where reading begins. cursors: the next offsets of the inputs there.
    """

    def __init__(
        self,
        source: Source,
        *,
        steps_from: Iterable[RecordedStep] | None = None,
        cursors: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._steps = steps(source) if steps_from is None else steps_from
        self._streams = Streams(source.inputs(cursors or {}))
        self._read_this_term: set[int] = set()
        self._kept: set[int] = set()

    def __iter__(self) -> Iterator[Moment]:
        for step in self._steps:
            yield self._moment(step)

    def records(self) -> Iterator[Record]:
        """All records, each batch after what it consumed; what no batch consumed at the end."""
        for moment in self:
            yield from moment.inputs
            yield from moment.step.records
        yield from self._streams.rest()

    def unconsumed(self) -> int:
        """How many facts no batch consumed, after all moments were read."""
        return sum(1 for record in self._streams.rest() if record.topic != Topic.HEARTBEATS)

    def _moment(self, step: RecordedStep) -> Moment:
        if step.led_by is not None:
            self._read_this_term.clear()
        inputs: list[Record] = []
        lost = False
        for consumed in step.batch.inputs:
            records = self._consumed(consumed, step.records[0].position)
            lost |= records is None
            inputs += records or ()
        return Moment(step=step, inputs=tuple(inputs), lost_heartbeats=lost)

    def _consumed(self, consumed: InputRange, at: Position) -> list[Record] | None:
        """The records of one input range, checked; None if they are no longer kept."""
        partition = TopicPartition(consumed.topic, consumed.partition)
        records = self._streams.up_to(partition, consumed.last)
        if consumed.topic == Topic.HEARTBEATS:
            records = self._of_this_term(records, consumed)
            first_kept = records[0].offset if records else consumed.last + 1
            if first_kept > consumed.first and consumed.partition not in self._kept:
                return None
            self._kept.add(consumed.partition)
        check_range(consumed, records, at=at)
        return records

    def _of_this_term(self, records: list[Record], consumed: InputRange) -> list[Record]:
        """Without the heartbeats of before a leader's time: it does not read them."""
        if consumed.partition in self._read_this_term:
            return records
        self._read_this_term.add(consumed.partition)
        return [record for record in records if record.offset >= consumed.first]


def check_range(consumed: InputRange, records: Sequence[Record], *, at: Position) -> None:
    """LogDifferenceError unless these are the very records that the batch at `at` consumed."""
    name = f"{consumed.topic}-{consumed.partition}-{consumed.first}..{consumed.last}"
    found = hashlib.blake2b(digest_size=32)
    for record in records:
        found.update(codec.avro_bytes(record.value))
    first = records[0].offset if records else None
    last = records[-1].offset if records else None
    for what, expected, got in (
        ("number of records", consumed.count, len(records)),
        ("first offset", consumed.first, first),
        ("last offset", consumed.last, last),
        ("digest", consumed.digest.hex(), found.hexdigest()),
    ):
        if expected != got:
            raise LogDifferenceError(at, what=f"input {name}: {what}", expected=expected, got=got)
