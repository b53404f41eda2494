"""Reading from Kafka: partitions assigned by name and offset."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException

from gangline.events.kafka.hanging import HangingWatch
from gangline.events.kafka.settings import reader_settings
from gangline.events.kafka.wire import (
    FORBIDDEN,
    MISSING,
    OUT_OF_RANGE,
    PARTITION_EOF,
    RegistryAwayError,
)
from gangline.events.log import (
    LogError,
    OffsetOutOfRangeError,
    Record,
    Topic,
)
from gangline.events.reading import FairQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Message as KafkaMessage

    from gangline.events.kafka.wire import Cluster
    from gangline.events.log import TopicPartition

QUEUED_RECORDS = 20_000
QUEUED_BYTES = 32_000_000
LOOK_EVERY_S = 1.0
_OUR_OWN = {Topic.DECISIONS, Topic.ASSIGNMENTS, Topic.LEADER, Topic.SNAPSHOTS}
"""Only schedulers write these: a frame there is no garbage of a stranger's."""


class KafkaReader:
    """A `Reader`: partitions assigned by name and offset, no group, nothing stored."""

    def __init__(
        self,
        cluster: Cluster,
        cursors: Mapping[TopicPartition, int],
        resolve: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]],
    ) -> None:
        self._cluster = cluster
        self._resolve = resolve
        self._queue = FairQueue(cursors)
        self._consumer = cluster.client(Consumer, reader_settings(cluster.cell))
        self._closed = False
        self._ended: dict[TopicPartition, int] = {}
        self._watch = HangingWatch(cluster.bootstrap)
        self._looked_s = time.monotonic()
        self._assign()

    def poll(self, timeout_s: float, *, limit: int = 1000) -> Sequence[Record]:
        """At most `limit` records; waits for one up to `timeout_s`."""
        self._check_open()
        deadline = time.monotonic() + timeout_s
        self._fetch(0)
        while not len(self._queue):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                self._look_for_hanging(time.monotonic())
                return ()
            self._fetch(left_s)
        return self._queue.take(limit)

    def seek(self, cursors: Mapping[TopicPartition, int]) -> None:
        """Read on from these offsets instead; partitions not named keep theirs."""
        self._check_open()
        self._queue.seek(self._resolve(cursors))
        self._assign()

    def positions(self) -> Mapping[TopicPartition, int]:
        """For each partition, the offset before which everything was given out."""
        return self._queue.positions()

    def close(self) -> None:
        """Let go of the client, which does not do so by itself; further calls are errors."""
        if not self._closed:
            self._closed = True
            self._consumer.close()

    def _assign(self) -> None:
        """Fetch from where the queue ends."""
        self._consumer.assign(
            [self._cluster.native(each, offset) for each, offset in self._queue.fetched().items()]
        )

    def _fetch(self, wait_s: float) -> None:
        """Queue all that the client holds, waiting for the first; so no partition hides another."""
        first = self._consumer.poll(wait_s)
        messages = [] if first is None else [first]
        while messages:
            try:
                for message in messages:
                    self._take(message)
            except RegistryAwayError:
                # Fetch again, later, what has not been queued.
                self._assign()
                return
            if len(self._queue) >= QUEUED_RECORDS or self._queue.size_bytes >= QUEUED_BYTES:
                return
            messages = self._consumer.consume(500, timeout=0)

    def _take(self, message: KafkaMessage) -> None:
        """Queue a record, or note what an event says."""
        error = message.error()
        if error is None:
            partition = self._cluster.ours(message.topic(), message.partition())
            self._queue.add(_record(partition, message, self._bare(partition, message)))
        elif error.code() == PARTITION_EOF:
            partition = self._cluster.ours(message.topic(), message.partition())
            self._queue.skip_to(partition, message.offset() or 0)
            self._ended[partition] = message.offset() or 0
        elif error.code() in OUT_OF_RANGE:
            raise OffsetOutOfRangeError(
                f"{message.topic()} partition {message.partition()} does not hold offset "
                f"{message.offset()} (any more)"
            )
        elif error.code() in MISSING | FORBIDDEN or error.fatal():
            raise self._cluster.explain(KafkaException(error))

    def _look_for_hanging(self, now_s: float) -> None:
        """Where all that may be read was read: compare with the ends that fetches told of."""
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for partition, at in self._queue.fetched().items():
            if self._ended.get(partition) == at:
                native = self._cluster.native(partition)
                _, end = self._consumer.get_watermark_offsets(native, cached=True)
                self._watch.look(partition, native.topic, at=at, end=end, now_s=now_s)

    def _bare(self, partition: TopicPartition, message: KafkaMessage) -> bytes:
        """A message's value, without the frame of a registry."""
        value = message.value() or b""
        if self._cluster.framing is not None:
            return self._cluster.framing.bare(value)
        if value[:1] == b"\x00" and partition.topic in _OUR_OWN:
            raise LogError(
                f"{message.topic()} is written in the format of a schema registry: "
                "GANGLINE_SCHEMA_REGISTRY_URL must name it"
            )
        return value

    def _check_open(self) -> None:
        if self._closed:
            raise LogError("this reader is closed")


def _record(partition: TopicPartition, message: KafkaMessage, value: bytes) -> Record:
    """A record; what other programs leave out is empty here."""
    return Record(
        topic=partition.topic,
        partition=partition.partition,
        offset=message.offset() or 0,
        appended_ms=message.timestamp()[1],
        key=message.key() or b"",
        value=value,
        headers=_headers(message),
    )


def _headers(message: KafkaMessage) -> tuple[tuple[str, bytes], ...]:
    """A message's headers; none where a name is no text, since nothing may rest on headers."""
    try:
        found = message.headers() or ()
    except UnicodeDecodeError:
        return ()
    pairs = found.items() if isinstance(found, dict) else found
    return tuple(
        (name, value.encode() if isinstance(value, str) else value or b"") for name, value in pairs
    )
