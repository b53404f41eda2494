"""The log in memory, for tests and simulation: deterministic, and told the time by its maker."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangline.events.layout import (
    check_cell,
    check_cursors,
    partitions_of,
    place,
    resolve_cursor,
)
from gangline.events.log import (
    TOPIC_SETTINGS,
    CommitUnknownError,
    FencedError,
    LogError,
    Message,
    Position,
    Record,
    Topic,
    TopicPartition,
    TopicsMissingError,
)
from gangline.events.reading import FairQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def wall_clock_ms() -> int:
    """Milliseconds since the epoch by this machine's clock."""
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Partition:
    """Records in order of offset. start: the first offset kept; end: the next one given."""

    records: list[Record] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def since(self, offset: int, limit: int) -> list[Record]:
        """At most so many records from an offset on."""
        first = bisect_left(self.records, offset, key=lambda record: record.offset)
        return self.records[first : first + limit]


class _Store:
    """The partitions of one cell, and the lock around them."""

    def __init__(self, cell: str, clock: Callable[[], int]) -> None:
        self.cell = check_cell(cell)
        self.clock = clock
        self.changed = threading.Condition()
        self.partitions: dict[TopicPartition, _Partition] = {}
        self.terms: dict[str, int] = {}
        self.lost: list[str] = []

    def at(self, name: TopicPartition) -> _Partition:
        """A partition, or TopicsMissingError."""
        if name not in self.partitions:
            raise TopicsMissingError(f"cell {self.cell} has no topics: `gangline init` makes them")
        return self.partitions[name]

    def append(self, messages: Sequence[Message]) -> list[Position]:
        """Append all, or none when one of them cannot be; positions in the order given."""
        with self.changed:
            placed = [(message, name, self.at(name)) for message, name in _placed(messages)]
            positions = [self._append(*each) for each in placed]
            self.changed.notify_all()
            return positions

    def commit(self, role: str, term: int, messages: Sequence[Message]) -> list[Position]:
        """Append for a writer, unless a newer one exists."""
        with self.changed:
            if self.terms[role] != term:
                raise FencedError(f"a newer {role} than term {term} writes to cell {self.cell}")
            lost = self.lost.pop(0) if self.lost else ""
            positions = [] if lost == "commit" else self.append(messages)
            if lost:
                raise CommitUnknownError("the answer to a commit was lost, as a test asked")
            return positions

    def resolve(self, cursors: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where reading really begins."""
        with self.changed:
            return {
                name: resolve_cursor(name, offset, start=self.at(name).start, end=self.at(name).end)
                for name, offset in check_cursors(cursors).items()
            }

    def fill(self, queue: FairQueue, limit: int) -> bool:
        """Put up to `limit` records of each partition into a reader's queue; true if some wait."""
        for name, offset in queue.fetched().items() if len(queue) < limit else ():
            partition = self.at(name)
            resolve_cursor(name, offset, start=partition.start, end=partition.end)
            records = partition.since(offset, limit)
            for record in records:
                queue.add(record)
            if len(records) < limit:
                queue.skip_to(name, partition.end)
        return len(queue) > 0

    def _append(self, message: Message, name: TopicPartition, partition: _Partition) -> Position:
        """Append one message; under the lock."""
        record = Record(
            topic=name.topic,
            partition=name.partition,
            offset=partition.end,
            appended_ms=self.clock(),
            key=message.key,
            value=message.value,
            headers=message.headers,
        )
        partition.records.append(record)
        partition.end += 1
        return record.position


def _placed(messages: Sequence[Message]) -> list[tuple[Message, TopicPartition]]:
    """Each message with its partition."""
    return list(zip(messages, place(messages), strict=True))


class MemoryLog:
    """A `Log` that lives as long as the process. clock: gives `appended_ms`."""

    def __init__(self, cell: str = "main", *, clock: Callable[[], int] = wall_clock_ms) -> None:
        self._store = _Store(cell, clock)

    def create_topics(self) -> None:
        """Make what is missing."""
        with self._store.changed:
            for name in partitions_of(Topic):
                self._store.partitions.setdefault(name, _Partition())

    def append(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Append facts, in the order given."""
        return self._store.append(messages)

    def reader(self, cursors: Mapping[TopicPartition, int]) -> MemoryReader:
        """A reader of exactly these partitions from these offsets on."""
        return MemoryReader(self._store, self._store.resolve(cursors))

    def ends(self, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
        """For each partition, the offset after the last record."""
        with self._store.changed:
            return {name: self._store.at(name).end for name in partitions_of(topics)}

    def writer(self, role: str) -> MemoryWriter:
        """A new writer of the role; fences the older ones."""
        store = self._store
        with store.changed:
            store.at(TopicPartition(Topic.DECISIONS, 0))
            store.terms[role] = store.terms.get(role, 0) + 1
            return MemoryWriter(store, role, store.terms[role])

    def close(self) -> None:
        """Nothing is held; the records stay for other users of the same object."""

    def maintain(self) -> None:
        """What a broker does in the background: drop what is past retention, compact."""
        with self._store.changed:
            for name, partition in self._store.partitions.items():
                settings = TOPIC_SETTINGS[Topic(name.topic)]
                if settings.retention_ms >= 0:
                    _expire(partition, self._store.clock() - settings.retention_ms)
                if settings.compacted:
                    _compact(partition)

    def lose_next_answer(self) -> None:
        """For tests: the next commit becomes visible, but its answer is lost."""
        self._store.lost.append("answer")

    def lose_next_commit(self) -> None:
        """For tests: the next commit is lost, and so is its answer."""
        self._store.lost.append("commit")


def _expire(partition: _Partition, before_ms: int) -> None:
    """Drop the oldest records up to the first one appended at or after a time."""
    kept = 0
    while kept < len(partition.records) and partition.records[kept].appended_ms < before_ms:
        kept += 1
    if kept:
        partition.start = partition.records[kept - 1].offset + 1
        del partition.records[:kept]


def _compact(partition: _Partition) -> None:
    """Keep only the newest record of each key."""
    newest = {record.key: record.offset for record in partition.records}
    partition.records = [each for each in partition.records if each.offset == newest[each.key]]


class MemoryReader:
    """A `Reader` of a MemoryLog."""

    def __init__(self, store: _Store, cursors: Mapping[TopicPartition, int]) -> None:
        self._store = store
        self._queue = FairQueue(cursors)
        self._closed = False

    def poll(self, timeout_s: float, *, limit: int = 1000) -> Sequence[Record]:
        """At most `limit` records; waits for one up to `timeout_s`."""
        self._check_open()
        with self._store.changed:
            self._store.changed.wait_for(lambda: self._store.fill(self._queue, limit), timeout_s)
        return self._queue.take(limit)

    def seek(self, cursors: Mapping[TopicPartition, int]) -> None:
        """Read on from these offsets instead; partitions not named keep theirs."""
        self._check_open()
        self._queue.seek(self._store.resolve(cursors))

    def positions(self) -> Mapping[TopicPartition, int]:
        """For each partition, the offset before which everything was given out."""
        return self._queue.positions()

    def close(self) -> None:
        """Further calls are errors."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise LogError("this reader is closed")


class MemoryWriter:
    """The `Writer` of a role of a MemoryLog."""

    def __init__(self, store: _Store, role: str, term: int) -> None:
        self._store = store
        self._role = role
        self._term = term
        self._ended = ""

    def commit(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Make all of them visible, or none; once its outcome was unknown, the writer is done."""
        if self._ended:
            raise LogError(f"this writer {self._ended}: open a new one")
        try:
            return self._store.commit(self._role, self._term, messages)
        except CommitUnknownError:
            self._ended = "lost the answer to a commit"
            raise

    def close(self) -> None:
        """Further calls are errors."""
        self._ended = "is closed"
