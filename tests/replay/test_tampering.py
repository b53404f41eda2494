"""A small log with every byte flipped, and cut at every record: found, or provably harmless."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events import codec
from gangline.events.log import Record, Topic
from gangline.replay.logfile import LogFileError, export_log, read_records, write_records
from gangline.replay.verify import verify
from gangline.scheduler.batches import BrokenChainError, LogDifferenceError
from tests.scheduler.cell import Cell
from tests.scheduler.toy_core import ToyCore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gangline.events.log import TopicPartition


class ListSource:
    """A history in a list."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def decisions(self) -> Iterator[Record]:
        """The records of `decisions`."""
        return (record for record in self._records if record.topic == Topic.DECISIONS)

    def inputs(self, cursors: Mapping[TopicPartition, int]) -> Iterator[Record]:
        """All others."""
        return (record for record in self._records if record.topic != Topic.DECISIONS)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """A small log with every input topic, a silence and two terms."""
    cell = Cell()
    first = cell.scheduler()
    cell.admit("n1", "n2")
    cell.led_by(first)
    cell.submit("job-1", "job-2")
    cell.run(first)
    cell.heartbeat("n1")
    cell.run(first, ms=31_000)
    first.close()
    second = cell.scheduler("two")
    cell.led_by(second)
    cell.garbage(Topic.NODES)
    cell.heartbeat("n1", "n2")
    cell.submit("job-3")
    cell.run(second, ms=1_000)
    path = tmp_path_factory.mktemp("tampering") / "cell.log"
    export_log(cell.log, path)
    return list(read_records(path))


def is_found(records: list[Record]) -> bool:
    """Whether verify says that something is wrong, or that heartbeats are gone.

    Those are kept for days only, so that their absence alone is no difference.
    """
    report = verify(ListSource(records), ToyCore())
    return report.difference is not None or report.unchecked_edges > 0


def test_the_log_as_it_was_verifies(records: list[Record]) -> None:
    """Else nothing below would mean anything."""
    assert not is_found(records)
    topics = {record.topic for record in records}
    assert topics == {"control", "jobs", "nodes", "heartbeats", "decisions"}


def flips(records: list[Record]) -> Iterator[tuple[int, int, list[Record]]]:
    """Each byte of each record with one bit changed: record, byte, and the changed log."""
    for index, record in enumerate(records):
        for at in range(len(record.value)):
            value = bytearray(record.value)
            value[at] ^= 1 << (at % 8)
            changed = replace(record, value=bytes(value))
            yield index, at, [*records[:index], changed, *records[index + 1 :]]


def test_every_flipped_byte_is_found_or_harmless(records: list[Record]) -> None:
    """Digests cover Avro bodies, so only a wire header may change, and the body reads the same.

    The last batch has no follower that proves its time: there, a time at which the core decides
    the same is another history that is just as right (a signed checkpoint tells them apart).
    """
    last = records[-1]
    unfound = []
    for index, at, changed in flips(records):
        if not is_found(changed):
            unfound.append((index, at, changed[index]))

    for index, at, record in unfound:
        if index < len(records) - 1:
            assert codec.avro_bytes(record.value) == codec.avro_bytes(records[index].value), at
        else:
            was, now = (codec.decode(each.value).body for each in (last, record))
            assert replace(now, now_ms=was.now_ms, edges=was.edges) == was, at


def test_every_flipped_byte_of_a_log_file_is_found_or_reads_the_same(
    records: list[Record], tmp_path: Path
) -> None:
    """Headers, lengths and marks of the container too: one line that names the file, or verify's.

    What is no part of any batch may differ: when a record was appended, and its key. And one bit of
    a compressed file may change the last batch together with a fact that only it has consumed:
    another history that is just as right, as nothing follows yet.
    """
    path = tmp_path / "cell.log"
    write_records(path, records)
    whole = path.read_bytes()
    seen: set[str] = set()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1 << (at % 8)
        path.write_bytes(changed)
        seen.add(_fate_of(path, records))

    assert seen <= {"no log file", "found", "the same", "another end"}
    assert "no log file" in seen


def _fate_of(path: Path, records: list[Record]) -> str:
    """What becomes of a changed file."""
    try:
        read = list(read_records(path))
    except LogFileError:
        return "no log file"
    if [_proven(record) for record in read] == [_proven(record) for record in records]:
        return "the same"
    if is_found(read):
        return "found"
    same = _batches(read)[:-1] == _batches(records)[:-1]
    return "another end" if same else f"believed: {read}"


def _batches(records: list[Record]) -> list[bytes]:
    return [record.value for record in records if record.topic == Topic.DECISIONS]


def _proven(record: Record) -> tuple[object, ...]:
    return record.topic, record.partition, record.offset, codec.avro_bytes(record.value)


def test_a_log_cut_at_any_batch_is_a_shorter_history_or_a_broken_one(
    records: list[Record],
) -> None:
    """A cut after a whole step verifies up to there; nothing is ever half believed."""
    for end in range(len(records)):
        report = verify(ListSource(records[:end]), ToyCore())
        whole = sum(1 for record in records[:end] if record.topic == Topic.DECISIONS)
        assert report.difference is None
        assert report.last_seq == whole


def test_every_missing_record_is_found_unless_it_is_the_last_of_all(
    records: list[Record],
) -> None:
    """Whatever its topic."""
    for index in range(len(records) - 1):
        assert is_found([*records[:index], *records[index + 1 :]]), records[index].position


def test_every_exchange_of_neighbours_in_a_partition_is_found(records: list[Record]) -> None:
    """Bodies change places and offsets stay."""
    for one, first in enumerate(records):
        for two in range(one + 1, len(records)):
            second = records[two]
            same = (first.topic, first.partition) == (second.topic, second.partition)
            if same and codec.avro_bytes(first.value) != codec.avro_bytes(second.value):
                changed = list(records)
                changed[one] = replace(first, value=second.value)
                changed[two] = replace(second, value=first.value)
                assert is_found(changed), (first.position, second.position)
                break


def test_a_difference_says_where_what_and_both_values(records: list[Record]) -> None:
    """In one line."""
    index = next(i for i, record in enumerate(records) if record.topic == Topic.DECISIONS)
    other = next(r for r in records[index + 1 :] if r.topic == Topic.DECISIONS)
    changed = [*records[:index], replace(records[index], value=other.value), *records[index + 1 :]]

    difference = verify(ListSource(changed), ToyCore()).difference

    assert isinstance(difference, BrokenChainError)
    assert isinstance(difference, LogDifferenceError)
    assert str(difference) == "decisions-0-0: seq: expected 1, got 2"
