"""A history verifies, and no record of it can be touched unseen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events import codec
from gangline.events.envelope import Event
from gangline.events.log import Record, Topic
from gangline.replay.history import FileSource, LogSource
from gangline.replay.logfile import LogFileError, export_log, read_records, write_records
from gangline.replay.verify import Report, verify
from gangline.scheduler.ports import no_probe
from tests.scheduler.cell import Cell
from tests.scheduler.test_real_core import Fleet
from tests.scheduler.theatre import Company, play
from tests.scheduler.toy_core import ToyCore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gangline.events.batch import PackedDecision


@pytest.fixture(scope="module")
def cell() -> Cell:
    """A cell with some history: two terms, silences, garbage, a hand-over."""
    cell = Cell()
    play(cell, Company(cell, no_probe))
    company = Company(cell, no_probe)
    company.run(ms=70_000)
    cell.heartbeat("n1")
    company.run(ms=5_000)
    return cell


@pytest.fixture
def path(cell: Cell, tmp_path: Path) -> Path:
    """The same in a file."""
    exported = tmp_path / "cell.log"
    export_log(cell.log, exported)
    return exported


def verified(path: Path, change: Callable[[list[Record]], object]) -> Report:
    """What verify says after somebody changed the file."""
    records = list(read_records(path))
    change(records)
    write_records(path, records)
    return verify(FileSource(path), ToyCore())


def places(records: list[Record], topic: Topic) -> list[int]:
    """Where the records of a topic stand in a file."""
    return [index for index, record in enumerate(records) if record.topic == topic]


def test_a_live_log_verifies(cell: Cell) -> None:
    """Every batch comes out byte for byte, edges included."""
    report = verify(LogSource(cell.log), ToyCore())

    assert report.difference is None
    assert report.last_seq == len(cell.batches())
    assert report.digest == cell.replayed().end().digest.hex()
    assert report.unchecked_edges == 0
    assert report.heartbeats > 20
    assert any(edge.kind == "heard" for batch in cell.batches() for edge in batch.edges)


def test_a_file_holds_the_same_history(cell: Cell, path: Path) -> None:
    """Exported, it verifies to the same digest and numbers."""
    live = verify(LogSource(cell.log), ToyCore())
    filed = verify(FileSource(path), ToyCore())

    assert filed.ok
    assert replace(filed, seconds=0.0) == replace(live, seconds=0.0)


def test_a_part_can_be_verified(cell: Cell) -> None:
    """What is before is folded; what is after is not looked at."""
    report = verify(LogSource(cell.log), ToyCore(), from_seq=5, to_seq=9)

    assert report.ok
    assert (report.first_seq, report.last_seq, report.steps) == (5, 9, 5)


def test_two_processes_with_different_hash_seeds_agree(tmp_path: Path) -> None:
    """Nothing depends on the order of a set or on hash(): not in the core, not in the driver."""
    fleet = Fleet()
    fleet.play()
    path = tmp_path / "fleet.log"
    export_log(fleet.cell.log, path)
    program = (
        "import sys, pathlib, json\n"
        "from gangline.replay.history import FileSource\n"
        "from gangline.replay.verify import verify\n"
        "from gangline.scheduler import core\n"
        "r = verify(FileSource(pathlib.Path(sys.argv[1])), core)\n"
        "print(json.dumps([r.ok, r.digest, r.steps]))\n"
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert answers[0] == answers[1]
    assert json.loads(answers[0])[0] is True


@pytest.mark.parametrize("topic", [Topic.JOBS, Topic.NODES, Topic.CONTROL, Topic.HEARTBEATS])
def test_an_altered_fact_is_found(path: Path, topic: Topic) -> None:
    """By the digest of the inputs of the batch that consumed it."""

    def alter(records: list[Record]) -> None:
        index = places(records, topic)[1]
        value = bytearray(records[index].value)
        value[-1] ^= 1
        records[index] = replace(records[index], value=bytes(value))

    report = verified(path, alter)

    assert report.difference is not None
    assert f"input {topic}" in report.difference.what


@pytest.mark.parametrize("topic", [Topic.JOBS, Topic.CONTROL, Topic.HEARTBEATS, Topic.DECISIONS])
def test_a_missing_record_is_found(path: Path, topic: Topic) -> None:
    """A fact in the middle, or a batch."""
    report = verified(path, lambda records: records.pop(places(records, topic)[2]))

    assert not report.ok


@pytest.mark.parametrize("topic", [Topic.JOBS, Topic.DECISIONS])
def test_a_repeated_record_is_found(path: Path, topic: Topic) -> None:
    """The same bytes twice are not the same history."""

    def repeat(records: list[Record]) -> None:
        index = places(records, topic)[2]
        records.insert(index, records[index])

    assert not verified(path, repeat).ok


@pytest.mark.parametrize("topic", [Topic.JOBS, Topic.CONTROL, Topic.DECISIONS])
def test_reordered_records_are_found(path: Path, topic: Topic) -> None:
    """Two neighbours exchanged, each with the other's offset."""

    def exchange(records: list[Record]) -> None:
        one, two = places(records, topic)[1:3]
        first, second = records[one], records[two]
        records[one] = replace(second, offset=first.offset)
        records[two] = replace(first, offset=second.offset)

    assert not verified(path, exchange).ok


def test_a_forged_decision_is_found_and_told_in_words(path: Path) -> None:
    """A last batch with a right chain, and a placement that the core would not make."""

    def forge(records: list[Record]) -> None:
        index = places(records, Topic.DECISIONS)[-1]
        event = codec.decode(records[index].value)
        packed = event.body.decisions[0]
        decision = codec.unpack(packed)
        forged = codec.pack(replace(decision, node="n9"))  # type: ignore[arg-type, type-var]
        body = replace(event.body, decisions=(forged, *event.body.decisions[1:]))
        value = codec.encode(Event(envelope=event.envelope, body=body))
        records[index] = replace(records[index], value=value)

    report = verified(path, forge)

    assert report.difference is not None
    assert "decision 1 of batch" in report.difference.what
    assert "n9" in str(report.difference.got)
    assert "-" in report.difference.diff


def test_the_same_words_in_other_bytes_are_told_by_their_bytes(path: Path) -> None:
    """As another version of the schema writes them: two equal sentences would help nobody."""

    def forge(records: list[Record]) -> None:
        index = places(records, Topic.DECISIONS)[-1]
        event = codec.decode(records[index].value)
        packed = event.body.decisions[0]
        body = replace(event.body, decisions=(_longer(packed), *event.body.decisions[1:]))
        value = codec.encode(Event(envelope=event.envelope, body=body))
        records[index] = replace(records[index], value=value)

    difference = verified(path, forge).difference

    assert difference is not None
    assert difference.expected != difference.got
    assert str(difference.expected).split()[1] == str(difference.got).split()[1] == "v1"
    assert difference.diff


def _longer(packed: PackedDecision) -> PackedDecision:
    """The same with its first length, which takes one byte, written in two."""
    length, rest = packed.body[0], packed.body[1:]
    return replace(packed, body=bytes((length | 0x80, 0)) + rest)


def test_a_forged_author_is_found(path: Path) -> None:
    """The envelope of a batch follows from its term."""

    def forge(records: list[Record]) -> None:
        index = places(records, Topic.DECISIONS)[3]
        event = codec.decode(records[index].value)
        envelope = replace(event.envelope, actor="scheduler:mallory")
        value = codec.encode(Event(envelope=envelope, body=event.body))
        records[index] = replace(records[index], value=value)

    report = verified(path, forge)

    assert report.difference is not None
    assert report.difference.what == "envelope's actor"


def test_heartbeats_past_their_retention_are_no_difference(cell: Cell, path: Path) -> None:
    """Edges are then taken as they stand, and the report says so."""

    def expire(records: list[Record]) -> None:
        kept = places(records, Topic.HEARTBEATS)[-2:]
        records[:] = [
            record
            for index, record in enumerate(records)
            if record.topic != Topic.HEARTBEATS or index in kept
        ]

    report = verified(path, expire)

    assert report.difference is None
    assert report.unchecked_edges > 0
    assert report.last_seq == len(cell.batches())


def test_a_file_that_ends_early_is_no_log(path: Path) -> None:
    """One line that names the file."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])

    with pytest.raises(LogFileError, match=r"cell\.log"):
        verify(FileSource(path), ToyCore())
