"""A cell's history: every step with the facts that it consumed, as the core got them.

It comes from a log or from a file. Steps are chained and inputs are digested, so reading is
checking: the first record that is altered, missing, repeated or out of place raises
LogDifferenceError.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gangline.events.log import Position, Record, Topic, TopicPartition
from gangline.events.reading import read_to_ends
from gangline.replay.logfile import read_records
from gangline.scheduler.batches import LogDifferenceError, RecordedStep, StepReader
from gangline.scheduler.follower import DECISIONS
from gangline.scheduler.intake import INPUT_TOPICS, RangeDigest, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """One mixed stream of records, of which each step takes its ranges.

    What is wanted is delivered while the stream is read, and only what comes too early waits: a
    range of a quiet night's heartbeats needs no more memory than one of a minute.
    """

    def __init__(self, records: Iterator[Record]) -> None:
        self._records = records
        self._waiting: dict[TopicPartition, deque[Record]] = {}

    def take(self, wanted: Mapping[TopicPartition, int], deliver: Callable[[Record], None]) -> None:
        """Deliver the next records of these partitions, up to these offsets.

        Fewer of a partition when a later one comes, or the stream ends, before its last.
        """
        missing = {
            p: last for p, last in wanted.items() if not self._from_waiting(p, last, deliver)
        }
        while missing:
            record = next(self._records, None)
            if record is None:
                return
            partition = TopicPartition(record.topic, record.partition)
            last = missing.get(partition, -1)
            if record.offset <= last:
                deliver(record)
            else:
                self._waiting.setdefault(partition, deque()).append(record)
            if record.offset >= last:
                missing.pop(partition, None)

    def _from_waiting(
        self, partition: TopicPartition, last: int, deliver: Callable[[Record], None]
    ) -> bool:
        """Deliver what waits; whether that was all."""
        queue = self._waiting.get(partition)
        while queue:
            if queue[0].offset > last:
                return True
            record = queue.popleft()
            deliver(record)
            if record.offset == last:
                return True
        return False

    def rest(self) -> Iterator[Record]:
        """What nobody took: by partition what was read already, then what comes."""
        for partition in sorted(self._waiting):
            yield from self._waiting.pop(partition)
        yield from self._records


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One step of the history. facts: the records that it consumed, without heartbeats.

    heartbeats: how many it consumed. lost_heartbeats: some of those are no longer kept.
    """

    step: RecordedStep
    facts: tuple[Record, ...]
    heartbeats: int
    lost_heartbeats: bool


def steps(source: Source) -> Iterator[RecordedStep]:
    """All steps with the chain checked; an unfinished last one is a broken chain."""
    reader = StepReader()
    record = None
    newest = -1
    for record in source.decisions():
        if record.offset <= newest:
            raise LogDifferenceError(
                record.position, what="offset", expected=f"more than {newest}", got=record.offset
            )
        newest = record.offset
        step = reader.feed(record)
        if step is not None:
            yield step
    if reader.unfinished and record is not None:
        raise LogDifferenceError(
            record.position, what="the last step", expected="another part", got="the end"
        )


class History:
    """Steps together with what they consumed.

    steps_from: from the place where reading begins. cursors: the next offsets of the inputs there.
    heartbeat: told each record of a step's heartbeats before the step comes.
    """

    def __init__(
        self,
        source: Source,
        *,
        steps_from: Iterable[RecordedStep] | None = None,
        cursors: Mapping[TopicPartition, int] | None = None,
        heartbeat: Callable[[Record], None] | None = None,
    ) -> None:
        self._steps = steps(source) if steps_from is None else steps_from
        self._streams = Streams(source.inputs(cursors or {}))
        self._heartbeat = heartbeat or _ignore
        self._read_this_term: set[int] = set()
        self._kept: set[int] = set()

    def __iter__(self) -> Iterator[Moment]:
        for step in self._steps:
            yield self._moment(step)

    def rest(self) -> Iterator[Record]:
        """What no batch consumed, after all moments were read."""
        return self._streams.rest()

    def unconsumed(self) -> int:
        """How many facts no batch consumed, after all moments were read."""
        return sum(1 for record in self.rest() if record.topic != Topic.HEARTBEATS)

    def _moment(self, step: RecordedStep) -> Moment:
        if step.led_by is not None:
            self._read_this_term.clear()
        check_order(step)
        facts: list[Record] = []
        reading = {
            _partition(each): _Reading(each, skips=self._skips(each)) for each in step.batch.inputs
        }

        def deliver(record: Record) -> None:
            if not reading[TopicPartition(record.topic, record.partition)].add(record):
                return
            if record.topic == Topic.HEARTBEATS:
                self._heartbeat(record)
            else:
                facts.append(record)

        self._streams.take({p: each.wanted.last for p, each in reading.items()}, deliver)
        at = step.records[0].position
        lost = [p for p, each in reading.items() if not self._checked(each, at)]
        beats = (each.found.count for p, each in reading.items() if p.topic == Topic.HEARTBEATS)
        return Moment(
            step=step, facts=tuple(facts), heartbeats=sum(beats), lost_heartbeats=bool(lost)
        )

    def _skips(self, consumed: InputRange) -> bool:
        """Whether heartbeats before this range were left out: a new leader does not read them."""
        if consumed.topic != Topic.HEARTBEATS or consumed.partition in self._read_this_term:
            return False
        self._read_this_term.add(consumed.partition)
        return True

    def _checked(self, reading: _Reading, at: Position) -> bool:
        """Whether a range is kept; LogDifferenceError where it is not what the batch consumed."""
        wanted = reading.wanted
        if wanted.topic == Topic.HEARTBEATS and wanted.partition not in self._kept:
            if reading.found.count == 0 or reading.found.first > wanted.first:
                return False
            self._kept.add(wanted.partition)
        check_range(wanted, reading.found, at=at)
        return True


def check_order(step: RecordedStep) -> None:
    """LogDifferenceError unless each partition has one range, in the order of topics."""
    got = [_partition(consumed) for consumed in step.batch.inputs]
    if any(partition.topic not in _INPUTS for partition in got):
        expected: object = "input topics only"
    else:
        expected = sorted(set(got), key=rank)
    if expected != got:
        raise LogDifferenceError(
            step.records[0].position, what="input ranges", expected=expected, got=got
        )


def _ignore(record: Record) -> None:
    """Nobody wants it."""


def _partition(consumed: InputRange) -> TopicPartition:
    return TopicPartition(consumed.topic, consumed.partition)


class _Reading:
    """One input range while its records come."""

    def __init__(self, wanted: InputRange, *, skips: bool) -> None:
        self.wanted = wanted
        self.found = RangeDigest()
        self._skips = skips

    def add(self, record: Record) -> bool:
        """Count a record in; false if it lies before the range and was left out."""
        if self._skips and record.offset < self.wanted.first:
            return False
        self.found.add(record)
        return True


def check_range(wanted: InputRange, found: RangeDigest, *, at: Position) -> None:
    """LogDifferenceError unless these were the very records that the batch at `at` consumed."""
    name = f"{wanted.topic}-{wanted.partition}-{wanted.first}..{wanted.last}"
    got = found.range_of(_partition(wanted))
    for what, expected, actual in (
        ("number of records", wanted.count, got.count),
        ("first offset", wanted.first, got.first),
        ("last offset", wanted.last, got.last),
        ("digest", wanted.digest.hex(), got.digest.hex()),
    ):
        if expected != actual:
            raise LogDifferenceError(
                at, what=f"input {name}: {what}", expected=expected, got=actual
            )
