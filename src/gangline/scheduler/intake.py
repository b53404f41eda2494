"""What was read and not yet answered: facts in order, and proof of what was read. Pure.

Facts are *waiting* (read, not yet part of a step), then *taken* (part of every step until a batch
records them). A step without decisions writes no batch, so its facts stay taken and are given to
the next step again: what a batch consumed is exactly what lies between its input ranges and those
of the batch before, and replay gives the core the same facts at once. Heartbeats are only counted,
digested and reduced; what else stands among them goes to the core, which refuses it. What a node's
key did not sign reaches the core as something that cannot be read (keyring.py).

Order of the facts of one batch: `control`, `jobs`, `nodes`, each partition in its own order; when
behind, by append time, so that a backlog is gone through as it arose.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import TYPE_CHECKING, Final

from gangline.events import codec, facts
from gangline.events.batch import InputRange
from gangline.events.codec import UndecodableError
from gangline.events.log import Record, Topic, TopicPartition
from gangline.scheduler.core.inputs import Fact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from gangline.scheduler.reducer import HeartbeatReducer

INPUT_TOPICS: Final = (Topic.CONTROL, Topic.JOBS, Topic.NODES, Topic.HEARTBEATS)
"""In the order in which a batch takes them."""

_RANK: Final = {str(topic): rank for rank, topic in enumerate(INPUT_TOPICS)}


def rank(partition: TopicPartition) -> tuple[int, int]:
    """Where a partition stands in the order of inputs."""
    return _RANK[partition.topic], partition.partition


def to_fact(record: Record) -> Fact:
    """A record as the core sees it."""
    try:
        event = codec.decode(record.value)
    except UndecodableError as error:
        place = (record.topic, record.partition, record.offset, record.appended_ms)
        return Fact(*place, event=None, problem=str(error))
    return Fact(record.topic, record.partition, record.offset, record.appended_ms, event)


def heartbeat_of(fact: Fact) -> str | None:
    """The node whose heartbeat this is; None for anything else, or when another node says so."""
    if fact.event is None or not isinstance(fact.event.body, facts.NodeHeartbeat):
        return None
    node = fact.event.body.node
    return node if fact.event.envelope.actor == f"node:{node}" else None


def registration_of(fact: Fact) -> str | None:
    """The node that came up by this fact; it is heard by that."""
    if fact.event is None or not isinstance(fact.event.body, facts.NodeRegistered):
        return None
    node = fact.event.body.node
    return node if fact.event.envelope.actor == f"node:{node}" else None


def in_order(taken: Iterable[Fact], *, caught_up: bool) -> list[Fact]:
    """The facts of one batch in the order in which the core gets them.

    When behind, the newest append time seen so far in a partition counts, so that no partition's
    own order is broken where its clock went back.
    """
    ranked = sorted(taken, key=_place)
    if caught_up:
        return ranked
    newest: dict[tuple[str, int], int] = {}
    keyed = []
    for fact in ranked:
        partition = (fact.topic, fact.partition)
        newest[partition] = max(newest.get(partition, 0), fact.appended_ms)
        keyed.append((newest[partition], *_place(fact), fact))
    keyed.sort(key=lambda entry: entry[:4])
    return [entry[4] for entry in keyed]


def _place(fact: Fact) -> tuple[int, int, int]:
    return _RANK[fact.topic], fact.partition, fact.offset


class RangeDigest:
    """The range of one partition's records, growing."""

    def __init__(self) -> None:
        self.first = -1
        self.last = -1
        self.count = 0
        self._hash = hashlib.blake2b(digest_size=32)

    def add(self, record: Record) -> None:
        """The next record of the partition."""
        if self.count == 0:
            self.first = record.offset
        self.last = record.offset
        self.count += 1
        self._hash.update(codec.avro_bytes(record.value))

    def range_of(self, partition: TopicPartition) -> InputRange:
        """What a batch says of it."""
        return InputRange(
            topic=str(partition.topic),
            partition=partition.partition,
            first=self.first,
            last=self.last,
            count=self.count,
            digest=self._hash.digest(),
        )


class Intake:
    """Records between the log and the core."""

    def __init__(self, reducer: HeartbeatReducer, *, limit: int = 500) -> None:
        self._reducer = reducer
        self._limit = limit
        self._waiting: dict[TopicPartition, deque[Record]] = {}
        self._newest: dict[TopicPartition, int] = {}
        self._ranges: dict[TopicPartition, RangeDigest] = {}
        self._taken: list[tuple[Fact, Record]] = []
        self._problems = self._seen_problems = 0
        self.waiting = 0

    @property
    def news(self) -> bool:
        """Whether something came that no step has seen."""
        return self.waiting > 0 or self._problems > self._seen_problems

    @property
    def fits(self) -> bool:
        """Whether all that waits would be taken at once."""
        return self.waiting <= self._limit

    @property
    def taken(self) -> int:
        """How many facts the next step gets (again)."""
        return len(self._taken)

    def add(self, records: Iterable[Record]) -> None:
        """Records as they were read, in order per partition."""
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            if record.topic == Topic.HEARTBEATS:
                self._take_heartbeat(partition, record)
            else:
                self._waiting.setdefault(partition, deque()).append(record)
                self.waiting += 1

    def _take_heartbeat(self, partition: TopicPartition, record: Record) -> None:
        self._range(partition).add(record)
        fact = to_fact(record)
        node = heartbeat_of(self._reducer.keyring.judged(fact, record))
        if node is not None:
            self._reducer.observe(node, fact.appended_ms)
        else:
            self._taken.append((fact, record))
            self._problems += 1

    def take(self, unread: Collection[TopicPartition]) -> int:
        """Take facts for the next step, at most the limit of new ones; returns how many.

        unread: partitions with records before the ends that were not added yet. None: everything
        that waits is taken if it is not too much. Else the oldest go first, up to where an unread
        partition may hold an older one.
        """
        before = len(self._taken)
        self._seen_problems = self._problems
        if not unread and self.waiting <= self._limit:
            for partition in self._waiting:
                self._take_all(partition)
        else:
            for _ in range(self._limit):
                oldest = self._oldest(unread)
                if oldest is None:
                    break
                self._take_one(oldest)
        return len(self._taken) - before

    def is_blocked(self, unread: Collection[TopicPartition]) -> bool:
        """Whether an unread partition, of which nothing waits, may hold the oldest fact."""
        return any(p.topic != Topic.HEARTBEATS and not self._waiting.get(p) for p in unread)

    def _oldest(self, unread: Collection[TopicPartition]) -> TopicPartition | None:
        if self.is_blocked(unread):
            return None
        heads = []
        for partition, queue in self._waiting.items():
            if queue:
                at = max(self._newest.get(partition, 0), queue[0].appended_ms)
                heads.append((at, _RANK[partition.topic], partition.partition, partition))
        return min(heads)[3] if heads else None

    def _take_all(self, partition: TopicPartition) -> None:
        while self._waiting[partition]:
            self._take_one(partition)

    def _take_one(self, partition: TopicPartition) -> None:
        record = self._waiting[partition].popleft()
        self.waiting -= 1
        self._newest[partition] = max(self._newest.get(partition, 0), record.appended_ms)
        self._range(partition).add(record)
        fact = to_fact(record)
        self._taken.append((fact, record))
        node = registration_of(self._reducer.keyring.judged(fact, record))
        if node is not None:
            self._reducer.observe(node, fact.appended_ms)

    def _range(self, partition: TopicPartition) -> RangeDigest:
        return self._ranges.setdefault(partition, RangeDigest())

    def facts(self, *, caught_up: bool) -> list[Fact]:
        """What was taken since the last batch, in the core's order."""
        judged = self._reducer.keyring.judged_all(self._taken, fleet=self._reducer.fleet)
        return in_order(judged, caught_up=caught_up)

    def ranges(self) -> tuple[InputRange, ...]:
        """What a batch written now has consumed."""
        ordered = sorted(self._ranges, key=rank)
        return tuple(self._ranges[partition].range_of(partition) for partition in ordered)

    def settle(self) -> None:
        """A batch recorded what was taken."""
        self._taken.clear()
        self._ranges.clear()
