"""The log as the rest of Gangline sees it: ordered partitions, and one fenced writer.

Theory of operation. A topic is a fixed number of partitions; a partition is a sequence of records
with growing offsets (there may be holes). Three things can be done with it:

- *append*: facts, by anybody who may. Durable when it returns; order per partition is the order of
  calls.
- *read*: from any offset on, only what is committed, in order per partition.
- *commit*: by the one leading scheduler, through a `Writer`. A commit of several messages is
  visible whole or not at all. Opening a writer for a role fences every writer opened for it before.

A commit that answers anything but "ok" at once has an unknown outcome (`CommitUnknownError`): the
caller drops the writer, opens a new one (which settles and fences the old), reads the topic to its
end, and goes on from there. There is no other recovery (docs/adr/0002).

Offsets have holes (compaction, and in Kafka the markers of transactions), so nobody counts by them:
a reader is at the end when its `positions()` have reached `ends()`. Records of one commit that
stand in several partitions are committed together but may be read at different moments.

One contract suite (`tests/contract/`) holds for every driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Topic(StrEnum):
    """The topics of a cell, by their short names; drivers prefix `gangline.<cell>.`."""

    JOBS = "jobs"
    CONTROL = "control"
    NODES = "nodes"
    HEARTBEATS = "heartbeats"
    DECISIONS = "decisions"
    ASSIGNMENTS = "assignments"
    LEADER = "leader"
    SNAPSHOTS = "snapshots"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How a topic is laid out and kept.

    partitions: how many; never changed for a keyed topic. compacted: only the newest record of a
    key is kept for ever. retention_ms: how long records are kept, -1 for ever.
    """

    partitions: int
    compacted: bool = False
    retention_ms: int = -1


_HOUR_MS = 3_600_000

TOPIC_SETTINGS: Mapping[Topic, TopicSettings] = {
    Topic.JOBS: TopicSettings(partitions=1),
    Topic.CONTROL: TopicSettings(partitions=1),
    Topic.NODES: TopicSettings(partitions=4),
    Topic.HEARTBEATS: TopicSettings(partitions=4, retention_ms=3 * 24 * _HOUR_MS),
    Topic.DECISIONS: TopicSettings(partitions=1),
    Topic.ASSIGNMENTS: TopicSettings(partitions=4, compacted=True),
    Topic.LEADER: TopicSettings(partitions=1, retention_ms=6 * _HOUR_MS),
    Topic.SNAPSHOTS: TopicSettings(partitions=1, compacted=True),
}


MAX_MESSAGE_BYTES = 960_000
"""Key, value and headers of one message together; a Kafka broker takes 1 MiB with its framing."""


class TopicPartition(NamedTuple):
    """One partition of one topic. topic: the short name (`Topic`)."""

    topic: str
    partition: int


class Position(NamedTuple):
    """Where a record stands; what a client gets back for what it appended."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """The public form, `topic-partition-offset`."""
        return f"{self.topic}-{self.partition}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the public form back; `ValueError` says what is wrong with it."""
        topic, separator, rest = text.partition("-")
        partition, separator2, offset = rest.partition("-")
        if not (
            topic and separator and separator2 and partition.isdecimal() and offset.isdecimal()
        ):
            message = f"a position is topic-partition-offset, like jobs-0-17, not {text!r}"
            raise ValueError(message)
        return cls(topic, int(partition), int(offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Something to append.

    key: chooses the partition (murmur2 of the key, modulo partitions) unless `partition` names one.
    headers: CloudEvents attributes and the like; never covered by digests.
    """

    topic: str
    value: bytes
    key: bytes = b""
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Something read. appended_ms: the log's own append time, milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    appended_ms: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def position(self) -> Position:
        """Where it stands."""
        return Position(self.topic, self.partition, self.offset)


class LogError(Exception):
    """The log did not do what was asked."""


class LogUnreachableError(LogError):
    """The log cannot be reached; the message says in one line what, where, and how to start it."""


class FencedError(LogError):
    """A newer writer of this role exists; this one may never write again."""


class CommitUnknownError(LogError):
    """A commit may or may not be visible: open a new writer, read to the end, go on from there."""


class TopicsMissingError(LogError):
    """A topic of the cell does not exist or is laid out otherwise; `gangline init` makes them."""


class OffsetOutOfRangeError(LogError):
    """A reader was sent to an offset that is no longer kept, or that the log has not reached."""


class MessageTooLargeError(LogError):
    """A message is larger than MAX_MESSAGE_BYTES; nothing of its batch was appended."""


class Reader(Protocol):
    """Reads some partitions from given offsets on; committed records only, in order per partition.

    Fair: every poll takes from all partitions where records wait, in shares as equal as can be, so
    no partition waits for another's backlog. The records of one poll are grouped by partition, in
    the order of topic and partition. Trouble with the connection is not an error: the reader
    connects again and goes on where it was, and meanwhile polls return nothing. For one thread.
    """

    def poll(self, timeout_s: float, *, limit: int = 1000) -> Sequence[Record]:
        """At most `limit` records, at once if any wait, else the first within `timeout_s`."""
        ...

    def seek(self, cursors: Mapping[TopicPartition, int]) -> None:
        """Read on from these offsets instead; partitions not named keep theirs."""
        ...

    def positions(self) -> Mapping[TopicPartition, int]:
        """For each partition, the offset before which everything was given out (beyond holes)."""
        ...

    def close(self) -> None:
        """Let go of connections; further calls are errors."""
        ...


class Writer(Protocol):
    """The fenced, transactional writer of one role (one leading scheduler a cell)."""

    def commit(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Make all of them visible, or none.

        Raises FencedError when a newer writer of the role exists, CommitUnknownError when the
        outcome is not known.
        """
        ...

    def close(self) -> None:
        """Let go of connections; further calls are errors."""
        ...


class Log(Protocol):
    """One cell's topics on one bus."""

    def create_topics(self) -> None:
        """Make what is missing by TOPIC_SETTINGS; TopicsMissingError where one is otherwise."""
        ...

    def append(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Append facts; durable on return. LogUnreachableError when that is not certain.

        After an error, some of them may still be there or come to be there: facts carry ids of
        their own, so they are appended again. For any number of threads at once.
        """
        ...

    def reader(self, cursors: Mapping[TopicPartition, int]) -> Reader:
        """A reader of exactly these partitions from these offsets on.

        0 means the start of what is kept. OffsetOutOfRangeError where such an offset is not (or no
        longer) in the log.
        """
        ...

    def ends(self, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
        """For each partition, the offset after the last committed record (0 when empty).

        An open transaction's records lie beyond the end. A reader whose `positions()` have reached
        the end has read everything that was committed when `ends` was asked. (Kafka answers a
        commit some milliseconds before it is visible; all that older writers of a role committed is
        once a new writer of the role is open.)
        """
        ...

    def writer(self, role: str) -> Writer:
        """A new writer of the role; settles what an older one left and fences it."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
