"""A commit is visible whole or not at all, and only the newest writer of a role may commit."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from gangline.events.log import (
    MAX_MESSAGE_BYTES,
    CommitUnknownError,
    FencedError,
    LogError,
    Message,
    MessageTooLargeError,
    Topic,
)
from gangline.events.memory import MemoryLog
from gangline.events.reading import from_the_start
from tests.contract.conftest import (
    DECISIONS,
    JOBS,
    job,
    read_all,
    read_count,
    read_until,
    values,
)

if TYPE_CHECKING:
    from gangline.events.log import Log, Writer
    from tests.contract.conftest import Bus

BOTH = from_the_start([Topic.DECISIONS, Topic.ASSIGNMENTS])


def batch(seq: int) -> list[Message]:
    """A decision batch and the assignments that follow from it, all carrying its number."""
    return [
        Message(topic=Topic.DECISIONS, value=b"%d" % seq),
        Message(topic=Topic.ASSIGNMENTS, key=b"node-%d" % (seq % 5), value=b"%d" % seq),
        Message(topic=Topic.ASSIGNMENTS, key=b"node-%d" % (seq % 7 + 5), value=b"%d" % seq),
    ]


def test_a_commit_is_visible_in_all_its_partitions(log: Log) -> None:
    """Batch and assignments stand where the answer says."""
    writer = log.writer("scheduler")
    positions = [position for seq in range(5) for position in writer.commit(batch(seq))]
    records = read_count(log, BOTH, 15)
    found = {record.position: record.value for record in records}
    assert [found[position] for position in positions] == [b"%d" % (n // 3) for n in range(15)]
    writer.close()


def test_nothing_committed_is_nothing_answered(log: Log) -> None:
    """An empty commit is no error."""
    writer = log.writer("scheduler")
    assert list(writer.commit([])) == []
    writer.close()


def test_a_fenced_writer_cannot_write(bus: Bus, log: Log) -> None:
    """Opening a writer ends all older ones of the role, also those of other programs."""
    old = bus.open().writer("scheduler")
    old.commit(batch(1))
    new = log.writer("scheduler")
    with pytest.raises(FencedError, match="newer scheduler"):
        old.commit(batch(2))
    new.commit(batch(3))
    with pytest.raises(LogError):
        old.commit(batch(4))
    assert sorted(values(read_all(log, BOTH))) == [b"1"] * 3 + [b"3"] * 3
    new.close()


def test_takeover_back_and_forth(log: Log) -> None:
    """However often the lead changes, only the newest writes."""
    writers = []
    for seq in range(4):
        writers.append(log.writer("scheduler"))
        writers[-1].commit(batch(seq))
    for writer in writers[:-1]:
        with pytest.raises(FencedError):
            writer.commit(batch(9))
    assert values(read_count(log, {DECISIONS: 0}, 4)) == [b"0", b"1", b"2", b"3"]
    writers[-1].close()


def test_roles_do_not_fence_each_other(log: Log) -> None:
    """A standby's snapshots and the leader's batches have writers of their own."""
    leader, standby = log.writer("scheduler"), log.writer("snapshots")
    leader.commit(batch(1))
    standby.commit([Message(topic=Topic.SNAPSHOTS, key=b"1", value=b"state")])
    leader.commit(batch(2))
    assert values(read_count(log, {DECISIONS: 0}, 2)) == [b"1", b"2"]
    leader.close()
    standby.close()


def test_a_refused_batch_leaves_the_writer_as_it_was(log: Log) -> None:
    """What cannot be appended is refused before anything is sent."""
    writer = log.writer("scheduler")
    large = Message(topic=Topic.ASSIGNMENTS, key=b"n", value=b"x" * (MAX_MESSAGE_BYTES + 1))
    with pytest.raises(MessageTooLargeError):
        writer.commit([*batch(1), large])
    with pytest.raises(ValueError, match="nonsense"):
        writer.commit([*batch(1), Message(topic="nonsense", value=b"")])
    writer.commit(batch(2))
    assert values(read_all(log, BOTH)) == [b"2"] * 3
    writer.close()


def test_a_large_batch_is_several_records_of_one_commit(log: Log) -> None:
    """More than one record may hold is split by the caller, and still visible whole."""
    writer = log.writer("scheduler")
    parts = [Message(topic=Topic.DECISIONS, value=b"%d" % n + b"x" * 900_000) for n in range(4)]
    writer.commit(parts)
    assert values(read_count(log, {DECISIONS: 0}, 4)) == [part.value for part in parts]
    writer.close()


def test_no_reader_ever_sees_half_a_commit_for_good(log: Log) -> None:
    """While leaders come and go, readers end up with whole batches, each once."""
    reader = log.reader(BOTH)
    committed: list[int] = []
    abandoned: list[Writer] = []

    def lead() -> None:
        for first in range(0, 30, 10):
            writer = log.writer("scheduler")
            for seq in range(first, first + 10):
                writer.commit(batch(seq))
                committed.append(seq)
            # Half of them leave in good order, half are only fenced.
            if first % 20:
                writer.close()
            abandoned.append(writer)

    leader = threading.Thread(target=lead)
    leader.start()
    found = read_until(reader, lambda found: len(found) >= 90, timeout_s=20)
    leader.join()
    assert committed == list(range(30))
    for seq in committed:
        assert sum(record.value == b"%d" % seq for record in found) == 3
    reader.close()
    for writer in abandoned:
        writer.close()


def test_facts_are_appended_while_a_leader_commits(log: Log) -> None:
    """Neither waits for the other for long, and the order of each partition holds."""
    writer = log.writer("scheduler")

    def append() -> None:
        for number in range(40):
            log.append([job(b"%d" % number)])

    thread = threading.Thread(target=append)
    thread.start()
    for seq in range(20):
        writer.commit(batch(seq))
    thread.join()
    assert values(read_count(log, {JOBS: 0}, 40)) == [b"%d" % number for number in range(40)]
    assert values(read_count(log, {DECISIONS: 0}, 20)) == [b"%d" % seq for seq in range(20)]
    writer.close()


@pytest.mark.parametrize("visible", [True, False])
def test_memory_loses_answers_when_told(*, visible: bool) -> None:
    """The scheduler's tests need both kinds of unknown commits, without a network."""
    log = MemoryLog(clock=lambda: 7)
    log.create_topics()
    writer = log.writer("scheduler")
    if visible:
        log.lose_next_answer()
    else:
        log.lose_next_commit()
    with pytest.raises(CommitUnknownError):
        writer.commit(batch(1))
    with pytest.raises(LogError, match="open a new one"):
        writer.commit(batch(2))
    assert values(read_all(log, {DECISIONS: 0})) == ([b"1"] if visible else [])
    log.writer("scheduler").commit(batch(3))
    assert [each.appended_ms for each in read_all(log, {DECISIONS: 0})][-1] == 7
