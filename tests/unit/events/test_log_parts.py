"""The pure parts that all drivers of the log share."""

from __future__ import annotations

import pytest

from gangline.events.bus import brokers_of, open_log
from gangline.events.layout import (
    check_cell,
    check_cursors,
    partitions_of,
    place,
    resolve_cursor,
    topic_name,
)
from gangline.events.log import (
    TOPIC_SETTINGS,
    Message,
    OffsetOutOfRangeError,
    Position,
    Record,
    Topic,
    TopicPartition,
)
from gangline.events.memory import MemoryLog
from gangline.events.murmur2 import murmur2, partition_of_key
from gangline.events.named_sql import parse_sql
from gangline.events.reading import FairQueue

A, B, C = (TopicPartition("nodes", each) for each in range(3))


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_murmur2_is_that_of_kafka(key: bytes, signed: int) -> None:
    """The values stand in the tests of Kafka's own clients, as signed numbers."""
    assert murmur2(key) == signed & 0xFFFFFFFF
    assert partition_of_key(key, 7) == (signed & 0x7FFFFFFF) % 7


def test_partitions_are_ordered_by_topic_and_number() -> None:
    """Every topic of a cell, and as many partitions as its settings say."""
    partitions = list(partitions_of(Topic))
    assert partitions == sorted(partitions)
    assert len(partitions) == sum(each.partitions for each in TOPIC_SETTINGS.values())
    assert topic_name("main", "jobs") == "gangline.main.jobs"


@pytest.mark.parametrize("cell", ["", "A", "a.b", "a b", "-a", "ä", "x" * 64, "a\n"])
def test_a_cell_needs_a_plain_name(cell: str) -> None:
    """It becomes part of the names of topics."""
    with pytest.raises(ValueError, match="a cell is named by"):
        check_cell(cell)


def test_the_same_key_is_placed_alike_and_a_named_partition_wins() -> None:
    """Placing is a function of the message."""
    message = Message(topic="assignments", key=b"node-1", value=b"")
    assert place([message, message])[0] == place([message])[0]
    named = Message(topic="assignments", key=b"node-1", value=b"", partition=2)
    assert place([named]) == [TopicPartition("assignments", 2)]


def test_cursors_are_checked_and_ordered() -> None:
    """A partition that no cell has, or an offset below 0, is a mistake of the program."""
    assert list(check_cursors({B: 1, A: 2})) == [A, B]
    for wrong in ({TopicPartition("nodes", 9): 0}, {A: -1}):
        with pytest.raises(ValueError, match="no cell has"):
            check_cursors(wrong)


@pytest.mark.parametrize(("offset", "begin"), [(0, 5), (5, 5), (7, 7), (9, 9)])
def test_reading_begins_inside_what_is_kept(offset: int, begin: int) -> None:
    """0 is the start of what is kept, the end is allowed."""
    assert resolve_cursor(A, offset, start=5, end=9) == begin


@pytest.mark.parametrize("offset", [1, 4, 10])
def test_reading_begins_nowhere_else(offset: int) -> None:
    """A wrong offset is never moved to a right one."""
    with pytest.raises(OffsetOutOfRangeError, match="nodes-0 holds offsets 5 to 9"):
        resolve_cursor(A, offset, start=5, end=9)


def record(partition: TopicPartition, offset: int) -> Record:
    """A record with its position as its value."""
    return Record(
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        appended_ms=0,
        key=b"",
        value=b"%d-%d" % (partition.partition, offset),
    )


def fill(queue: FairQueue, partition: TopicPartition, count: int) -> None:
    """Put in the next records of a partition."""
    for _ in range(count):
        queue.add(record(partition, queue.fetched()[partition]))


def taken(queue: FairQueue, limit: int) -> list[str]:
    """What one poll gives, as words."""
    return [each.value.decode() for each in queue.take(limit)]


def test_shares_are_equal_and_what_one_leaves_goes_to_others() -> None:
    """Six places for three partitions are two each; one record short, and another has three."""
    queue = FairQueue({A: 0, B: 0, C: 0})
    fill(queue, A, 9)
    fill(queue, B, 1)
    fill(queue, C, 9)
    assert taken(queue, 6) == ["0-0", "0-1", "0-2", "1-0", "2-0", "2-1"]
    assert queue.positions() == {A: 3, B: 1, C: 2}
    assert len(queue) == 13


def test_with_fewer_places_than_partitions_turns_are_taken() -> None:
    """One place a poll goes round all partitions."""
    queue = FairQueue({A: 0, B: 0, C: 0})
    for partition in (A, B, C):
        fill(queue, partition, 2)
    served = [taken(queue, 1)[0] for _ in range(6)]
    assert served == ["0-0", "1-0", "2-0", "0-1", "1-1", "2-1"]
    assert taken(queue, 5) == []


def test_a_record_that_is_fetched_twice_is_given_once() -> None:
    """A driver may repeat a fetch after it has lost its connection."""
    queue = FairQueue({A: 3})
    for offset in (2, 3, 4, 3, 4, 5):
        queue.add(record(A, offset))
    assert taken(queue, 9) == ["0-3", "0-4", "0-5"]


def test_holes_count_as_given_out_when_nothing_waits_before_them() -> None:
    """Positions pass over markers and compacted records, but not over what still waits."""
    queue = FairQueue({A: 0})
    fill(queue, A, 1)
    queue.skip_to(A, 8)
    assert queue.positions() == {A: 0}
    queue.take(1)
    assert queue.positions() == {A: 8}
    queue.skip_to(A, 2)
    assert queue.positions() == {A: 8}


def test_seeking_forgets_only_what_it_names() -> None:
    """The other partitions' records still wait, and the bytes are counted right."""
    queue = FairQueue({A: 0, B: 0})
    fill(queue, A, 2)
    fill(queue, B, 2)
    queue.seek({A: 1})
    assert queue.positions() == {A: 1, B: 0}
    assert queue.size_bytes == 6
    assert taken(queue, 9) == ["1-0", "1-1"]
    assert queue.size_bytes == 0


def test_sql_is_found_by_its_name() -> None:
    """What stands before the first name is nobody's; a name stands once."""
    text = b"-- about\n-- name: one\nSELECT 1;\n\n-- name: two\n-- why\nSELECT 2;\n"
    assert parse_sql(text) == {"one": b"SELECT 1;", "two": b"-- why\nSELECT 2;"}
    with pytest.raises(ValueError, match="twice"):
        parse_sql(b"-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")


def test_a_bus_is_chosen_by_its_url() -> None:
    """An unknown one is an error that shows the known ones."""
    assert isinstance(open_log("memory://", "main"), MemoryLog)
    with pytest.raises(ValueError, match="kafka://host:port"):
        open_log("redis://localhost", "main")
    with pytest.raises(ValueError, match="a cell is named by"):
        open_log("memory://", "no such cell")


@pytest.mark.parametrize(
    ("url", "brokers"),
    [
        ("kafka://b1:9092", "b1:9092"),
        ("kafka://b1", "b1"),
        (
            "kafka://b1:9092,b2.example.org:1,10.0.0.7:65535/",
            "b1:9092,b2.example.org:1,10.0.0.7:65535",
        ),
        ("kafka://[::1]:9092", "[::1]:9092"),
        ("kafka://kafka_1:9092", "kafka_1:9092"),
    ],
)
def test_brokers_are_named_by_address(url: str, brokers: str) -> None:
    """One or several, as Kafka's clients take them."""
    assert brokers_of(url) == brokers


@pytest.mark.parametrize(
    "url",
    [
        "kafka://",
        "kafka:b1:9092",
        "kafka://b1:99999",
        "kafka://b1:0",
        "kafka://b1:port",
        "kafka://b1:9092/topic",
        "kafka://b1:9092?acks=1",
        "kafka://user:word@b1:9092",
        "kafka://b1:9092,",
        "kafka://b1:9092 ,b2:9092",
        "kafka://::1:9092",
    ],
)
def test_what_is_no_address_of_a_broker_is_said(url: str) -> None:
    """The client itself would go to port 34463 for 99999, or wait for nobody."""
    with pytest.raises(ValueError, match="kafka://host:port"):
        brokers_of(url)


def test_a_position_has_a_public_form() -> None:
    """It is read back as it was shown, and nothing else is taken."""
    position = Position("jobs", 0, 17)
    assert Position.parse(str(position)) == position
    for wrong in ("jobs", "jobs-0", "jobs-0-x", "-0-1", "jobs--1"):
        with pytest.raises(ValueError, match="topic-partition-offset"):
            Position.parse(wrong)
