"""Readers start anywhere, miss nothing, wait well, and treat partitions alike."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from gangline.events.log import LogError, Message, OffsetOutOfRangeError, Topic, TopicPartition
from gangline.events.reading import behind, from_the_start, read_to_ends
from tests.contract.conftest import (
    DECISIONS,
    JOBS,
    Limited,
    job,
    read_all,
    read_count,
    read_until,
    values,
)

if TYPE_CHECKING:
    from gangline.events.log import Log, Record
    from tests.contract.conftest import Bus

NODES = [TopicPartition(Topic.NODES, each) for each in range(4)]


def node(partition: int, value: bytes) -> Message:
    """A message for one of several partitions."""
    return Message(topic=Topic.NODES, value=value, partition=partition)


def test_reading_begins_at_any_offset(log: Log) -> None:
    """From each record on, exactly that one and the later ones come."""
    positions = log.append([job(b"%d" % each) for each in range(5)])
    for index, position in enumerate(positions):
        records = read_count(log, {JOBS: position.offset}, 5 - index)
        assert values(records) == [b"%d" % each for each in range(index, 5)]


def test_reading_begins_at_the_end(log: Log) -> None:
    """From the end on, only what comes later; two clients of the log are as good as one."""
    log.append([job(b"old")])
    reader = log.reader(log.ends([Topic.JOBS]))
    assert not reader.poll(0.2)
    log.append([job(b"new")])
    assert values(read_until(reader, bool)) == [b"new"]
    reader.close()


def test_an_offset_that_is_not_there_is_an_error(log: Log) -> None:
    """Beyond the end, a reader would wait for ever or be moved without a word."""
    log.append([job(b"only")])
    with pytest.raises(OffsetOutOfRangeError, match="jobs-0 holds offsets 0 to 1, not 7"):
        log.reader({JOBS: 7})
    reader = log.reader({JOBS: 0})
    with pytest.raises(OffsetOutOfRangeError):
        reader.seek({JOBS: 7})
    with pytest.raises(ValueError, match="no cell has jobs-5-0"):
        log.reader({TopicPartition(Topic.JOBS, 5): 0})
    reader.close()


def test_seek_moves_what_it_names(log: Log) -> None:
    """Back and forth in one partition; the other goes on where it was."""
    positions = log.append([job(b"%d" % each) for each in range(4)])
    log.append([node(0, b"n0"), node(0, b"n1")])
    reader = log.reader({JOBS: 0, NODES[0]: 0})
    assert len(read_until(reader, lambda found: len(found) >= 6)) == 6
    reader.seek({JOBS: positions[2].offset})
    log.append([node(0, b"n2")])
    found = read_until(reader, lambda found: len(found) >= 3)
    assert sorted(values(found)) == [b"2", b"3", b"n2"]
    reader.seek({JOBS: log.ends([Topic.JOBS])[JOBS], NODES[0]: 0})
    found = read_until(reader, lambda found: len(found) >= 3)
    assert values(found) == [b"n0", b"n1", b"n2"]
    reader.close()


def test_seek_forgets_what_was_fetched(log: Log) -> None:
    """Records that wait inside the reader are not given out after it was sent elsewhere."""
    log.append([job(b"%d" % each) for each in range(10)])
    reader = log.reader({JOBS: 0})
    assert values(read_until(Limited(reader, 2), bool)) == [b"0", b"1"]
    reader.seek({JOBS: 1})
    found = read_until(reader, lambda found: len(found) >= 9)
    assert values(found) == [b"%d" % each for each in range(1, 10)]
    reader.close()


def test_a_poll_takes_no_more_than_asked(log: Log) -> None:
    """The rest comes with the next polls, nothing twice."""
    log.append([job(b"%d" % each) for each in range(7)])
    reader = log.reader({JOBS: 0})
    limited = Limited(reader, 3)
    sizes: list[int] = []
    found: list[Record] = []
    while len(found) < 7:
        part = read_until(limited, bool)
        sizes.append(len(part))
        found += part
    assert max(sizes) <= 3
    assert values(found) == [b"%d" % each for each in range(7)]
    reader.close()


def test_a_poll_waits_as_long_as_told(log: Log) -> None:
    """Nothing there: back when the time is over. Something comes: back at once."""
    reader = log.reader({JOBS: 0})
    began = time.monotonic()
    assert not reader.poll(0.3)
    assert 0.25 < time.monotonic() - began < 2
    timer = threading.Timer(0.3, log.append, [[job(b"late")]])
    timer.start()
    began = time.monotonic()
    assert values(reader.poll(30)) == [b"late"]
    assert time.monotonic() - began < 5
    timer.join()
    reader.close()


def test_a_backlog_keeps_nobody_waiting(log: Log) -> None:
    """Three records of one partition come long before the end of another's three thousand."""
    for first in range(0, 3000, 500):
        log.append([node(0, b"%d" % (first + each)) for each in range(500)])
    log.append([node(1, b"urgent") for _ in range(3)])
    reader = Limited(log.reader(dict.fromkeys(NODES, 0)), 100)
    found = read_until(reader, lambda found: sum(each.partition for each in found) == 3)
    assert len(found) < 1500
    found += read_until(reader, lambda more: len(found) + len(more) >= 3003)
    backlog = [record.value for record in found if record.partition == 0]
    assert backlog == [b"%d" % each for each in range(3000)]
    reader.close()


def test_records_come_grouped_in_order_of_partitions(log: Log) -> None:
    """One poll gives topic by topic and partition by partition, on every bus alike."""
    log.append([node(3, b"d"), job(b"j"), node(0, b"a"), node(3, b"e")])
    reader = log.reader({NODES[3]: 0, JOBS: 0, NODES[0]: 0})
    # Only a poll that comes when everything is at hand must have it all.
    found = read_until(reader, lambda found: len(found) >= 4)
    reader.seek({NODES[3]: 0, JOBS: 0, NODES[0]: 0})
    assert sorted(values(found)) == [b"a", b"d", b"e", b"j"]
    by_poll: list[list[bytes]] = []
    while sum(map(len, by_poll)) < 4:
        records = reader.poll(1)
        assert [record.position for record in records] == sorted(
            record.position for record in records
        )
        by_poll.append(values(records))
    reader.close()


def test_positions_reach_the_ends(log: Log) -> None:
    """A reader is at the end when its positions are, whatever holes there are before the end."""
    writer = log.writer("scheduler")
    writer.commit([Message(topic=Topic.DECISIONS, value=b"1")])
    log.append([job(b"a"), job(b"b")])
    reader = log.reader({DECISIONS: 0, JOBS: 0, NODES[2]: 0})
    ends = log.ends([Topic.DECISIONS, Topic.JOBS, Topic.NODES])
    assert set(behind(reader.positions(), ends)) == {DECISIONS, JOBS}
    deadline = time.monotonic() + 10
    while behind(reader.positions(), ends) and time.monotonic() < deadline:
        reader.poll(0.1)
    assert reader.positions()[JOBS] == ends[JOBS] == 2
    assert reader.positions()[DECISIONS] >= ends[DECISIONS]
    reader.close()
    writer.close()


def test_positions_are_what_was_given_out(log: Log) -> None:
    """What a reader has fetched but not given out does not count: a new reader goes on there."""
    log.append([job(b"%d" % each) for each in range(6)])
    reader = Limited(log.reader({JOBS: 0}), 4)
    first = read_until(reader, bool)
    position = reader.positions()[JOBS]
    reader.close()
    rest = read_count(log, {JOBS: position}, 6 - len(first))
    assert values(first) + values(rest) == [b"%d" % each for each in range(6)]


def test_reading_to_the_ends(log: Log) -> None:
    """Everything that is there at the call, and then an end."""
    assert list(read_to_ends(log, from_the_start([Topic.JOBS, Topic.NODES]))) == []
    log.append([job(b"j"), node(2, b"n")])
    records = list(read_to_ends(log, from_the_start([Topic.JOBS, Topic.NODES])))
    assert sorted(values(records)) == [b"j", b"n"]


def test_what_is_closed_stays_closed(log: Log) -> None:
    """Closing twice is harmless, using it afterwards is an error."""
    reader, writer = log.reader({JOBS: 0}), log.writer("scheduler")
    for _ in range(2):
        reader.close()
        writer.close()
    with pytest.raises(LogError, match="closed"):
        reader.poll(0)
    with pytest.raises(LogError, match="closed"):
        reader.seek({JOBS: 0})
    with pytest.raises(LogError, match="closed"):
        writer.commit([Message(topic=Topic.DECISIONS, value=b"x")])


def test_readers_do_not_disturb_each_other(bus: Bus, log: Log) -> None:
    """Each has its own progress, also in other clients of the log."""
    log.append([job(b"1"), job(b"2")])
    for client in (log, bus.open(), log):
        assert values(read_all(client, {JOBS: 0})) == [b"1", b"2"]
