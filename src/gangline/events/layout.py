"""Where messages go: names, partitions of keys, limits. Pure, and the same for all drivers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gangline.events.log import (
    MAX_MESSAGE_BYTES,
    TOPIC_SETTINGS,
    Message,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    Topic,
    TopicPartition,
)
from gangline.events.murmur2 import partition_of_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_CELL = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def check_cell(cell: str) -> str:
    """The name of a cell as it came, or `ValueError`: it becomes part of names of topics."""
    if not _CELL.fullmatch(cell):
        raise ValueError(f"a cell is named by a-z, 0-9 and -, at most 63 of them, not {cell!r}")
    return cell


def topic_name(cell: str, topic: str) -> str:
    """A topic's whole name on a bus that several cells share."""
    return f"gangline.{cell}.{Topic(topic)}"


def partitions_of(topics: Iterable[str]) -> Iterator[TopicPartition]:
    """Every partition of these topics, in order; `ValueError` for a topic that no cell has."""
    for topic in sorted(set(topics)):
        for partition in range(TOPIC_SETTINGS[Topic(topic)].partitions):
            yield TopicPartition(str(topic), partition)


def place(messages: Sequence[Message]) -> list[TopicPartition]:
    """The partition of each message; nothing is placed when one of them cannot be appended."""
    return [_place(message) for message in messages]


def _place(message: Message) -> TopicPartition:
    """One message's partition: the one it names, else its key's."""
    size = len(message.key) + len(message.value)
    size += sum(len(name.encode()) + len(value) for name, value in message.headers)
    if size > MAX_MESSAGE_BYTES:
        raise MessageTooLargeError(
            f"a message of {size:,} bytes for {message.topic}: at most {MAX_MESSAGE_BYTES:,} fit"
        )
    count = TOPIC_SETTINGS[Topic(message.topic)].partitions
    if message.partition is None:
        return TopicPartition(str(message.topic), partition_of_key(message.key, count))
    if not 0 <= message.partition < count:
        raise ValueError(f"{message.topic} has {count} partitions, none is {message.partition}")
    return TopicPartition(str(message.topic), message.partition)


def check_cursors(cursors: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The same cursors in order, or `ValueError` for partitions that no cell has."""
    known = set(partitions_of({partition.topic for partition in cursors}))
    for partition, offset in cursors.items():
        if partition not in known or offset < 0:
            raise ValueError(f"no cell has {partition.topic}-{partition.partition}-{offset}")
    return dict(sorted(cursors.items()))


def resolve_cursor(partition: TopicPartition, offset: int, *, start: int, end: int) -> int:
    """Where reading really begins: 0 means the start of what is kept, all else must be in the log.

    A wrong offset is never quietly moved: a reader that skips records would never know.
    """
    if offset == 0:
        return start
    if not start <= offset <= end:
        raise OffsetOutOfRangeError(
            f"{partition.topic}-{partition.partition} holds offsets {start} to {end}, not {offset}"
        )
    return offset
