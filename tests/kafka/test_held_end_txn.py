"""A request to end a transaction that arrives late, and what it does to those who trust an "ok".

librdkafka repeats a request that got no answer in time. Here the first copy of "end
transaction 1, committed" is kept back in a proxy; the repeated one commits, and the client hears
"ok". Then the first copy arrives in the middle of transaction 2, of which it cannot know, and
commits what is there of it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from gangline.events.kafka import settings, wire, writer
from gangline.events.log import CommitUnknownError, Message, Topic
from gangline.events.reading import from_the_start, read_to_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.events.kafka import KafkaLog
    from gangline.events.kafka.wire import Delivery, Placed
    from tests.support.kafka_proxy import KafkaProxy

SOCKET_TIMEOUT_MS = 1_000
BOTH = from_the_start([Topic.DECISIONS, Topic.ASSIGNMENTS])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients repeat a request after one second instead of ten."""
    monkeypatch.setattr(writer, "SOCKET_TIMEOUT_MS", SOCKET_TIMEOUT_MS)
    monkeypatch.setattr(
        settings, "_COMMON", {**settings._COMMON, "socket.timeout.ms": SOCKET_TIMEOUT_MS}
    )


def batch(seq: int) -> list[Message]:
    """A batch and one assignment, in partitions that do not end together."""
    return [
        Message(topic=Topic.DECISIONS, value=b"%d" % seq),
        Message(topic=Topic.ASSIGNMENTS, key=b"node", value=b"%d" % seq),
    ]


def seen(log: KafkaLog) -> dict[int, set[str]]:
    """For each number, in which topics a reader of committed records finds it."""
    time.sleep(0.5)
    found: dict[int, set[str]] = {}
    for record in read_to_ends(log, BOTH):
        found.setdefault(int(record.value), set()).add(record.topic)
    return found


def test_without_the_recovery_a_reader_believes_a_torn_batch(
    log: KafkaLog, proxy: KafkaProxy, cell: str
) -> None:
    """A client that takes "ok" for "ok" goes on; half of a transaction it gave up is committed."""
    producer = Producer(
        settings.writer_settings(cell, "scheduler") | {"bootstrap.servers": proxy.bootstrap}
    )
    producer.init_transactions()
    proxy.hold_next_end_txn()
    producer.begin_transaction()
    for message in batch(1):
        produce(producer, cell, message)
    producer.commit_transaction()  # "ok", by the repeated request
    assert proxy.holds.is_set()
    assert seen(log) == {1: {"decisions", "assignments"}}

    producer.begin_transaction()
    produce(producer, cell, batch(2)[0])
    producer.flush(5)
    proxy.release()
    time.sleep(0.5)
    with suppress(KafkaException):
        producer.abort_transaction()
    assert seen(log)[2] == {"decisions"}, "the late request did no harm: is the broker newer?"


def test_without_its_check_our_own_writer_would_do_the_same(
    log: KafkaLog, proxied: KafkaLog, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the check that helps: one that trusts a late "ok" and stops half-way tears a batch."""
    monkeypatch.setattr(writer, "SOCKET_TIMEOUT_MS", 10**9)
    trusting = proxied.writer("scheduler")
    monkeypatch.setattr(writer._Ear, "log", lambda *_: None)
    proxy.hold_next_end_txn()
    trusting.commit(batch(1))
    assert proxy.holds.is_set()
    stop_half_way(proxy, monkeypatch)
    with pytest.raises(CommitUnknownError):
        trusting.commit(batch(2))
    assert seen(log)[2] == {"decisions"}


@pytest.mark.parametrize("loss", ["of the answer", "of the connection"])
def test_with_the_recovery_no_reader_sees_one(
    log: KafkaLog,
    proxied: KafkaLog,
    proxy: KafkaProxy,
    monkeypatch: pytest.MonkeyPatch,
    *,
    loss: str,
) -> None:
    """A late "ok" is unknown: a new writer settles it, and the broker refuses the late copy.

    The request is repeated when its answer does not come in time, and at once when the connection
    is lost; of that the client is told in no way but by a line of its log.
    """
    first = proxied.writer("scheduler")
    first.commit(batch(0))
    if loss == "of the answer":
        monkeypatch.setattr(writer._Ear, "log", lambda *_: None)  # the time it took is enough
        proxy.hold_next_end_txn()
    else:
        proxy.hold_and_cut_next_end_txn()
    with pytest.raises(CommitUnknownError):
        first.commit(batch(1))
    assert proxy.holds.is_set()

    again = proxied.writer("scheduler")
    assert seen(log)[1] == {"decisions", "assignments"}  # what a leader reads and goes on from
    with monkeypatch.context() as half_way:
        stop_half_way(proxy, half_way)
        with pytest.raises(CommitUnknownError):
            again.commit(batch(2))
    proxied.writer("scheduler").commit(batch(3))
    assert seen(log) == {seq: {"decisions", "assignments"} for seq in (0, 1, 3)}


def produce(producer: Producer, cell: str, message: Message) -> None:
    """As a simple client would."""
    producer.produce(
        f"gangline.{cell}.{message.topic}", value=message.value, key=message.key, partition=0
    )


def stop_half_way(proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the late request arrive when half of the next commit is there, and end it there."""
    original = wire.produce

    def produce_one(producer: Producer, placed: Sequence[Placed], delivery: Delivery) -> None:
        original(producer, placed[:1], delivery)
        time.sleep(0.3)
        proxy.release()
        time.sleep(0.5)
        raise KafkaException(KafkaError(KafkaError.UNKNOWN))

    monkeypatch.setattr(writer, "produce", produce_one)
