"""Transactions that are open, given up or abandoned: readers see none of it, and are not lost."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from gangline.events.kafka import hanging, reader, settings, writer
from gangline.events.log import (
    CommitUnknownError,
    FencedError,
    LogError,
    Message,
    OffsetOutOfRangeError,
    Topic,
    TopicPartition,
)
from gangline.events.reading import behind, read_to_ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.kafka import KafkaLog
    from gangline.events.log import Reader, Record
    from tests.support.kafka_proxy import KafkaProxy

DECISIONS = TopicPartition(Topic.DECISIONS, 0)
JOBS = TopicPartition(Topic.JOBS, 0)


@pytest.fixture
def leader(kafka_bootstrap: str, cell: str, log: KafkaLog) -> Iterator[Producer]:
    """Give a leader's client inside a transaction, with one record sent."""
    producer = Producer(
        settings.writer_settings(cell, "scheduler") | {"bootstrap.servers": kafka_bootstrap}
    )
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, cell, b"open")
    yield producer
    log.close()


def send(producer: Producer, cell: str, value: bytes) -> None:
    """Send a record inside the transaction, and wait until the broker has it."""
    producer.produce(f"gangline.{cell}.decisions", value=value, partition=0)
    producer.flush(10)


def batch(value: bytes) -> list[Message]:
    """What a leader commits."""
    return [Message(topic=Topic.DECISIONS, value=value)]


def to_the_end(log: KafkaLog, reader: Reader) -> list[Record]:
    """Poll until the reader's positions have reached the ends."""
    found: list[Record] = []
    ends = log.ends([Topic.DECISIONS])
    deadline = time.monotonic() + 10
    while behind(reader.positions(), ends) and time.monotonic() < deadline:
        found += reader.poll(0.1)
    assert not behind(reader.positions(), ends)
    return found


def test_an_open_transaction_lies_beyond_the_end(log: KafkaLog, leader: Producer) -> None:
    """Nobody reads it, `ends` stays before it, and `unsettled` tells that something hangs there."""
    reader = log.reader({DECISIONS: 0})
    assert not reader.poll(0.5)
    assert log.ends([Topic.DECISIONS]) == {DECISIONS: 0}
    assert log.unsettled([Topic.DECISIONS]) == {DECISIONS: 1}
    leader.commit_transaction()
    assert [record.value for record in reader.poll(5)] == [b"open"]
    assert log.unsettled([Topic.DECISIONS]) == {DECISIONS: 0}
    reader.close()


@pytest.mark.usefixtures("leader")
def test_a_transaction_that_hangs_is_said_loudly(
    log: KafkaLog, cell: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Readers stand still without an error: what they say names the place and the way out."""
    monkeypatch.setattr(reader, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(reader, "HangingWatch", partial(hanging.HangingWatch, limit_s=0.5))
    standing = log.reader({DECISIONS: 0})
    deadline = time.monotonic() + 10
    while not caplog.records and time.monotonic() < deadline:
        assert not standing.poll(0.2)
    (said,) = (record.getMessage() for record in caplog.records)
    assert f"a transaction hangs in gangline.{cell}.decisions partition 0" in said
    assert "nobody could read beyond offset 0" in said
    assert "kafka-transactions.sh --bootstrap-server" in said
    standing.close()


def test_what_was_given_up_is_never_read(log: KafkaLog, leader: Producer) -> None:
    """The reader passes over it; it stands at the end though no record came."""
    reader = log.reader({DECISIONS: 0})
    leader.abort_transaction()
    time.sleep(0.2)
    assert log.ends([Topic.DECISIONS]) == {DECISIONS: 2}
    assert to_the_end(log, reader) == []
    reader.close()


def test_offsets_have_holes_and_the_end_is_found_all_the_same(log: KafkaLog) -> None:
    """Each commit leaves a marker: counting by offsets would wait for records that never come."""
    leading = log.writer("scheduler")
    offsets = [leading.commit(batch(b"%d" % number))[0].offset for number in range(4)]
    assert offsets == [0, 2, 4, 6]
    leading.close()
    log.writer("scheduler").close()
    reader = log.reader({DECISIONS: 0})
    assert [record.offset for record in to_the_end(log, reader)] == offsets
    assert log.ends([Topic.DECISIONS]) == {DECISIONS: 8}
    assert reader.positions() == {DECISIONS: 8}
    reader.seek({DECISIONS: 1})
    assert [record.value for record in to_the_end(log, reader)] == [b"1", b"2", b"3"]
    reader.close()


@pytest.mark.usefixtures("leader")
def test_a_dead_leaders_transaction_is_settled_by_the_next(log: KafkaLog) -> None:
    """Opening a writer gives up what an older one left open, so readers go on at once."""
    newer = log.writer("scheduler")
    newer.commit(batch(b"newer"))
    assert [record.value for record in read_to_ends(log, {DECISIONS: 0})] in ([b"newer"], [])
    log.writer("scheduler").close()
    assert [record.value for record in read_to_ends(log, {DECISIONS: 0})] == [b"newer"]


def test_trouble_with_the_connection_makes_a_commit_unknown(
    proxied: KafkaLog, log: KafkaLog, proxy: KafkaProxy
) -> None:
    """Also trouble between two commits: what the client did about it is not ours to guess."""
    leading = proxied.writer("scheduler")
    leading.commit(batch(b"1"))
    proxy.cut_all()
    time.sleep(0.3)
    with pytest.raises(CommitUnknownError):
        leading.commit(batch(b"2"))
    with pytest.raises(LogError, match="open a new one"):
        leading.commit(batch(b"3"))
    again = proxied.writer("scheduler")
    again.commit(batch(b"4"))
    log.writer("scheduler").close()
    values = [record.value for record in read_to_ends(log, {DECISIONS: 0})]
    assert values in ([b"1", b"4"], [b"1", b"2", b"4"])


def test_facts_and_readers_outlive_connections(
    proxied: KafkaLog, log: KafkaLog, proxy: KafkaProxy
) -> None:
    """Idempotent appends are repeated by the client, once is what arrives; readers go on."""
    reader = proxied.reader({JOBS: 0})
    found: list[Record] = []
    for number in range(20):
        if number % 5 == 4:
            proxy.cut_all()
        proxied.append([Message(topic=Topic.JOBS, value=b"%d" % number)])
        found += reader.poll(0)
    deadline = time.monotonic() + 15
    while len(found) < 20 and time.monotonic() < deadline:
        found += reader.poll(0.2)
    assert [record.value for record in found] == [b"%d" % number for number in range(20)]
    assert [record.value for record in read_to_ends(log, {JOBS: 0})] == [r.value for r in found]
    reader.close()


def test_records_that_were_dropped_are_not_skipped_in_silence(
    log: KafkaLog, kafka_bootstrap: str, cell: str
) -> None:
    """A reader below the oldest record gets an error, from 0 it begins at the oldest."""
    log.append([Message(topic=Topic.JOBS, value=b"%d" % number) for number in range(6)])
    reader = log.reader({JOBS: 2})
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    native = KafkaPartition(f"gangline.{cell}.jobs", 0, 4)
    admin.delete_records([native])[native].result()
    with pytest.raises(OffsetOutOfRangeError, match="holds offsets 4 to 6, not 2"):
        log.reader({JOBS: 2})
    assert [record.value for record in read_to_ends(log, {JOBS: 0})] == [b"4", b"5"]
    reader.close()
    # Kafka takes any offset without a look: what the reader is told later must be an error too.
    blind = log.reader({JOBS: 4})
    blind._consumer.assign([KafkaPartition(native.topic, 0, 1)])
    with pytest.raises(OffsetOutOfRangeError):
        blind.poll(10)
    blind.close()


def test_a_fenced_leader_hears_it_whatever_it_was_doing(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fenced between its records: the broker refuses what it sends from then on."""
    older = log.writer("scheduler")
    transact = writer._transact

    def overtaken(*args: object) -> object:
        log.writer("scheduler").close()
        return transact(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(writer, "_transact", overtaken)
    with pytest.raises(FencedError):
        older.commit(batch(b"too late"))
    assert list(read_to_ends(log, {DECISIONS: 0})) == []


def test_a_log_is_for_one_process(log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's clients do not survive a fork: no new ones are made from what a parent opened."""
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(LogError, match="fork"):
        log.writer("scheduler")
