"""What is appended is there: whole, in order, at the position that was answered."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from gangline.events.log import (
    MAX_MESSAGE_BYTES,
    Message,
    MessageTooLargeError,
    Topic,
    TopicPartition,
    TopicsMissingError,
)
from gangline.events.murmur2 import partition_of_key
from gangline.events.reading import from_the_start
from tests.contract.conftest import JOBS, job, read_all, read_count, values

if TYPE_CHECKING:
    from gangline.events.log import Log, Position
    from tests.contract.conftest import Bus


def test_a_partition_keeps_the_order_of_calls(log: Log) -> None:
    """Batches stand one after the other, and so do the messages of each."""
    for first in range(0, 30, 3):
        log.append([job(b"%d" % (first + each)) for each in range(3)])
    records = read_count(log, {JOBS: 0}, 30)
    assert values(records) == [b"%d" % each for each in range(30)]
    assert [record.offset for record in records] == sorted(record.offset for record in records)


def test_positions_are_where_the_records_stand(log: Log) -> None:
    """The answer to an append lets a client wait for its own write."""
    keys = [b"n1", b"n2", b"n3", b"n4", b"n5", b"n1"]
    messages = [
        Message(topic=Topic.NODES, key=key, value=b"%d" % number) for number, key in enumerate(keys)
    ]
    positions = log.append(messages)
    records = read_count(log, from_the_start([Topic.NODES]), len(messages))
    found = {record.position: record.value for record in records}
    assert [found[position] for position in positions] == [message.value for message in messages]
    assert [position.topic for position in positions] == ["nodes"] * len(keys)


def test_a_key_has_the_same_partition_on_every_bus(log: Log) -> None:
    """A log can be copied from one bus to another, and Java clients agree with ours."""
    keys = [b"", b"node-1", b"s0-b0-n0", "kanü".encode(), b"\xff\x00\xfe", b"21", b"abc"]
    messages = [Message(topic=Topic.ASSIGNMENTS, key=key, value=b"x") for key in keys]
    partitions = [position.partition for position in log.append(messages)]
    assert partitions == [partition_of_key(key, 4) for key in keys]


def test_a_message_may_name_its_partition(log: Log) -> None:
    """Then the key has no say in it."""
    for partition in (3, 0, 2):
        message = Message(topic=Topic.NODES, key=b"same", value=b"x", partition=partition)
        assert log.append([message])[0].partition == partition


def test_bytes_pass_unchanged(log: Log) -> None:
    """The log never looks inside: empty, undecodable and odd bytes come back as they went in."""
    messages = [
        Message(topic=Topic.JOBS, value=b"", key=b""),
        Message(topic=Topic.JOBS, value=b"\xff\xfe\x00garbage\x80", key=b"\x00\xff"),
        Message(
            topic=Topic.JOBS,
            value=bytes(range(256)),
            headers=(("ce_id", b"1"), ("ce_id", b"2"), ("empty", b""), ("ü", b"\x00\xff")),
        ),
    ]
    log.append(messages)
    records = read_count(log, {JOBS: 0}, 3)
    assert [(each.key, each.value, each.headers) for each in records] == [
        (each.key, each.value, each.headers) for each in messages
    ]


def test_a_record_may_be_large(log: Log) -> None:
    """One message of the largest size passes; the next byte is refused before anything is sent."""
    large = bytes(range(256)) * (MAX_MESSAGE_BYTES // 256)
    log.append([job(large), job(b"after it")])
    with pytest.raises(MessageTooLargeError, match="at most 960,000"):
        log.append([job(b"first"), job(large + b"x" * 256)])
    assert values(read_all(log, {JOBS: 0})) == [large, b"after it"]


def test_what_no_cell_has_is_refused(log: Log) -> None:
    """A wrong topic or partition is a mistake of the program, found before anything is sent."""
    with pytest.raises(ValueError, match="nonsense"):
        log.append([job(b"a"), Message(topic="nonsense", value=b"b")])
    with pytest.raises(ValueError, match="none is 4"):
        log.append([job(b"a"), Message(topic=Topic.NODES, value=b"b", partition=4)])
    assert log.ends([Topic.JOBS]) == {JOBS: 0}


def test_nothing_appended_is_nothing_answered(log: Log) -> None:
    """An empty batch is no error."""
    assert list(log.append([])) == []


def test_the_log_tells_the_time(log: Log) -> None:
    """Each record carries the log's append time, in milliseconds since the epoch."""
    log.append([job(b"1")])
    log.append([job(b"2")])
    first, second = read_count(log, {JOBS: 0}, 2)
    assert abs(first.appended_ms - time.time_ns() // 1_000_000) < 60_000
    assert first.appended_ms <= second.appended_ms


def test_many_threads_append_at_once(log: Log) -> None:
    """Nothing is lost or doubled, every thread's own order holds, and all answers are right."""
    answered: dict[bytes, Position] = {}

    def append(name: int) -> None:
        for number in range(20):
            value = b"%d-%02d" % (name, number)
            key = b"key-%d" % (number % 3)
            message = Message(topic=Topic.NODES, key=key, value=value, partition=number % 2)
            answered[value] = log.append([message, job(value)])[0]

    threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    nodes = read_count(log, from_the_start([Topic.NODES]), 80)
    assert {record.value: record.position for record in nodes} == answered
    jobs = values(read_count(log, {JOBS: 0}, 80))
    for name in range(4):
        own = [value for value in jobs if value.startswith(b"%d-" % name)]
        assert own == [b"%d-%02d" % (name, number) for number in range(20)]


def test_topics_must_be_made_first(bus: Bus) -> None:
    """Whatever is asked of a cell without topics, the answer names the command that makes them."""
    log = bus.open()
    for ask in (
        lambda: log.append([job(b"a")]),
        lambda: log.ends([Topic.JOBS]),
        lambda: log.reader({JOBS: 0}),
        lambda: log.writer("scheduler"),
    ):
        with pytest.raises(TopicsMissingError, match="gangline init"):
            ask()
    log.create_topics()
    log.append([job(b"now")])


def test_topics_may_be_made_again_and_at_once(bus: Bus) -> None:
    """Several programs may start together; what is there stays as it is."""
    failures: list[BaseException] = []

    def create() -> None:
        try:
            bus.open().create_topics()
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    log = bus.open()
    log.append([job(b"kept")])
    log.create_topics()
    assert values(read_count(log, {JOBS: 0}, 1)) == [b"kept"]


def test_cells_do_not_see_each_other(bus: Bus, log: Log) -> None:
    """Two cells on one bus share nothing but the bus."""
    if bus.driver == "memory":
        pytest.skip("a log in memory is one cell")
    log.append([job(b"ours")])
    ours, bus.cell = bus.cell, bus.cell + "-other"
    other = bus.open()
    other.create_topics()
    assert other.ends([Topic.JOBS]) == {JOBS: 0}
    other.append([job(b"theirs")])
    bus.cell = ours
    assert values(read_all(log, {JOBS: 0})) == [b"ours"]


def test_every_partition_is_named_in_ends(log: Log) -> None:
    """Empty partitions end at 0."""
    log.append([Message(topic=Topic.NODES, value=b"x", partition=1)])
    assert log.ends([Topic.NODES, Topic.JOBS]) == {
        JOBS: 0,
        **{TopicPartition(Topic.NODES, each): int(each == 1) for each in range(4)},
    }
