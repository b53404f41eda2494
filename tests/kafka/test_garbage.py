"""What other programs may put into the topics comes through as it is, and stops nobody."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from gangline.events.log import Message, Topic, TopicPartition
from gangline.events.reading import read_to_ends

if TYPE_CHECKING:
    from gangline.events.kafka import KafkaLog

JOBS = TopicPartition(Topic.JOBS, 0)


def test_a_partition_full_of_garbage(log: KafkaLog, kafka_bootstrap: str, cell: str) -> None:
    """Ten thousand records of noise, a good one in the middle: all read, in order, unchanged."""
    noise = random.Random(7)  # noqa: S311 - noise that is the same each time
    sent = [noise.randbytes(noise.randrange(200)) for _ in range(10_000)]
    sent[5_000] = b"a good one"
    stranger = Producer({"bootstrap.servers": kafka_bootstrap, "compression.type": "gzip"})
    for value in sent:
        stranger.produce(f"gangline.{cell}.jobs", value=value, partition=0)
    assert stranger.flush(30) == 0
    found = list(read_to_ends(log, {JOBS: 0}))
    assert [record.value for record in found] == sent


def test_what_is_missing_is_empty(log: KafkaLog, kafka_bootstrap: str, cell: str) -> None:
    """No key, no value (a tombstone), no value of a header: empty bytes, not an exception."""
    stranger = Producer({"bootstrap.servers": kafka_bootstrap})
    stranger.produce(f"gangline.{cell}.jobs", value=None, key=None, partition=0)
    stranger.produce(
        f"gangline.{cell}.jobs", value=b"\xff", headers=[("a", None), ("b", b"\x80")], partition=0
    )
    assert stranger.flush(10) == 0
    nothing, bytes_only = read_to_ends(log, {JOBS: 0})
    assert (nothing.key, nothing.value, nothing.headers) == (b"", b"", ())
    assert bytes_only.headers == (("a", b""), ("b", b"\x80"))


def test_garbage_from_java_has_javas_partition(
    log: KafkaLog, kafka_bootstrap: str, cell: str
) -> None:
    """A client with Kafka's own partitioner agrees with ours, key by key."""
    stranger = Producer({"bootstrap.servers": kafka_bootstrap, "partitioner": "murmur2_random"})
    keys = [b"%d" % number for number in range(50)]
    theirs: dict[bytes | None, int | None] = {}
    for key in keys:
        stranger.produce(
            f"gangline.{cell}.nodes",
            value=b"x",
            key=key,
            on_delivery=lambda _, sent: theirs.update({sent.key(): sent.partition()}),
        )
    assert stranger.flush(10) == 0
    messages = [Message(topic=Topic.NODES, key=key, value=b"y") for key in keys]
    ours = {
        key: position.partition for key, position in zip(keys, log.append(messages), strict=True)
    }
    assert ours == theirs
    assert set(ours.values()) == {0, 1, 2, 3}
