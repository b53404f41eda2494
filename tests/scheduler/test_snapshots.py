"""A snapshot spares reading, and never changes what is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events import codec
from gangline.events.batch import SnapshotChunk
from gangline.events.envelope import Event
from gangline.events.log import Message, Topic
from gangline.events.memory import MemoryLog
from gangline.scheduler.beginning import start_follower
from gangline.scheduler.ports import Point
from gangline.scheduler.snapshots import (
    BadSnapshotError,
    SnapshotWriter,
    frames,
    newest,
    newest_seq,
    restore,
    take,
    unframed,
)
from tests.scheduler.cell import Cell, KillAt, Killed
from tests.scheduler.toy_core import ToyCore

if TYPE_CHECKING:
    from gangline.scheduler.follower import Follower


class CountingCore(ToyCore):
    """Counts what it folds."""

    def __init__(self) -> None:
        super().__init__()
        self.folded = 0

    def fold(self, state: object, decisions: object, *, now_ms: int) -> None:
        """Count, and fold."""
        self.folded += 1
        super().fold(state, decisions, now_ms=now_ms)  # type: ignore[arg-type]


def busy_cell(jobs: int = 6) -> Cell:
    """A cell with some batches."""
    cell = Cell(core=CountingCore())
    scheduler = cell.scheduler()
    cell.admit("n1", "n2")
    cell.led_by(scheduler)
    for index in range(jobs):
        cell.submit(f"job-{index}")
        cell.run(scheduler)
    scheduler.close()
    return cell


def write(cell: Cell, follower: Follower, name: str = "one") -> int:
    """Write a snapshot; returns its seq."""
    writer = SnapshotWriter(cell.outside(), actor=f"scheduler:{name}", name=name)
    return writer.write(follower).seq


def test_a_start_from_a_snapshot_reads_only_the_rest() -> None:
    """And stands at the same place, with the same state, as one that read everything."""
    cell = busy_cell()
    write(cell, cell.replayed())
    assert isinstance(cell.core, CountingCore)
    more = cell.scheduler("two")
    cell.submit("later")
    cell.led_by(more)
    more.close()
    cell.core.folded = 0
    warnings: list[str] = []

    started = start_follower(cell.log, cell.core, warn=warnings.append)

    assert cell.core.folded == 1
    assert warnings == []
    whole = cell.replayed()
    assert started.link == whole.link
    assert started.inputs == whole.inputs
    assert started.next_offset == whole.next_offset
    assert started.touched == whole.touched
    assert cell.core.state_digest(started.state) == cell.core.state_digest(whole.state)


def test_who_is_silent_survives_a_snapshot() -> None:
    """Else a node that comes back would never be heard again."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.admit("n1")
    cell.led_by(scheduler)
    cell.run(scheduler, ms=40_000)
    follower = cell.replayed()
    assert follower.reducer.silent == ("n1",)

    pointer, chunks = take(cell.core, follower)

    assert restore(cell.core, pointer, chunks).reducer.silent == ("n1",)


def test_a_corrupt_snapshot_is_passed_over_with_a_warning() -> None:
    """An older one serves, and the rest is read."""
    cell = busy_cell()
    good = write(cell, cell.replayed(), "good")
    again = cell.scheduler("two")
    cell.led_by(again)
    pointer, chunks = take(cell.core, cell.replayed())
    for index, body in enumerate(chunks):
        chunk = SnapshotChunk(seq=pointer.seq, index=index, body=body[:-1] + b"?")
        append(cell, chunk, f"bad-{index}")
    append(cell, pointer, "bad-pointer")
    cell.garbage(Topic.SNAPSHOTS)
    warnings: list[str] = []

    found = newest(cell.log, cell.core, warn=warnings.append)

    assert found is not None
    assert found.end().seq == good
    assert ["passed over" in text for text in warnings] == [True, True]


def append(cell: Cell, body: object, key: str) -> None:
    """Write a snapshot record as it is."""
    envelope = codec.envelope_for(body, id=key, actor="scheduler:x")
    value = codec.encode(Event(envelope=envelope, body=body))
    cell.log.append([Message(topic=Topic.SNAPSHOTS, key=key.encode(), value=value)])


@pytest.mark.parametrize("field", ["state_digest", "body_digest", "chunks", "logic_version"])
def test_a_pointer_that_lies_is_not_believed(field: str) -> None:
    """Whatever it lies about."""
    cell = busy_cell()
    pointer, chunks = take(cell.core, cell.replayed())
    lie = {"state_digest": b"?", "body_digest": b"?", "chunks": 9, "logic_version": 99}[field]
    append(cell, replace(pointer, **{field: lie}), "pointer")  # type: ignore[arg-type]
    for index, body in enumerate(chunks):
        append(cell, SnapshotChunk(seq=pointer.seq, index=index, body=body), f"chunk-{index}")
    warnings: list[str] = []

    assert newest(cell.log, cell.core, warn=warnings.append) is None
    assert len(warnings) == 1


def test_every_bit_of_a_pointer_counts() -> None:
    """A flipped one is noticed, or changes nothing that anybody reads."""
    cell = busy_cell()
    good, chunks = take(cell.core, cell.replayed())
    event = Event(envelope=codec.envelope_for(good, id="p", actor="scheduler:x"), body=good)
    value = codec.encode(event)
    whole = restore(cell.core, good, chunks)

    for bit in range(len(value) * 8):
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            found = restore(cell.core, codec.decode(bytes(flipped)).body, chunks)
        except (BadSnapshotError, codec.UndecodableError):
            continue
        assert found.link == whole.link
        assert found.next_offset == whole.next_offset
        assert found.inputs == whole.inputs


def test_an_unfinished_snapshot_is_none() -> None:
    """Its pointer comes last, so without it there is nothing to pass over."""
    cell = busy_cell()
    probe = KillAt(Point.SNAPSHOT_VERIFIED)
    writer = SnapshotWriter(cell.outside(probe=probe), actor="scheduler:one", name="one")

    with pytest.raises(Killed):
        writer.write(cell.replayed())

    assert newest_seq(cell.log) == 0
    assert start_follower(cell.log, cell.core, warn=lambda _: None).link == cell.replayed().link


def test_a_compacted_topic_always_holds_a_whole_snapshot() -> None:
    """Whoever is writing one, and wherever that stops."""
    cell = busy_cell()
    assert isinstance(cell.log, MemoryLog)
    follower = cell.replayed()
    writer = SnapshotWriter(cell.outside(), actor="scheduler:one", name="one")
    for _ in range(3):
        writer.write(follower)
    probe = KillAt(Point.SNAPSHOT_CHUNK)
    torn = SnapshotWriter(cell.outside(probe=probe), actor="scheduler:one", name="one")
    with pytest.raises(Killed):
        torn.write(follower)

    cell.log.maintain()

    assert newest(cell.log, cell.core, warn=pytest.fail) is not None
    assert len(cell.records(Topic.SNAPSHOTS)) <= 4


def test_standbys_write_snapshots() -> None:
    """Every so many steps, and the leader has no work with it."""
    cell = Cell()
    leader = cell.scheduler("one", snapshot_every=5)
    standby = cell.scheduler("two", index=1, snapshot_every=5)
    cell.led_by(leader)
    for index in range(12):
        cell.submit(f"job-{index}")
        cell.run(leader, standby)

    actors = {codec.decode(r.value).envelope.actor for r in cell.records(Topic.SNAPSHOTS)}

    assert actors == {"scheduler:two"}
    assert newest_seq(cell.log) >= 10


def test_a_leader_without_a_standby_writes_them_itself() -> None:
    """More seldom, as nobody decides meanwhile."""
    cell = Cell()
    leader = cell.scheduler("one", snapshot_every=5)
    cell.led_by(leader)
    for index in range(30):
        cell.submit(f"job-{index}")
        cell.run(leader)

    assert newest_seq(cell.log) >= 15


def test_records_of_any_size_are_framed_and_unframed() -> None:
    """Also empty ones, and ones larger than a chunk."""
    records = [b"", b"a", b"b" * 100, b"c" * 1_000, b""]

    chunks = list(frames(records, limit=150))

    assert list(unframed(chunks)) == records
    assert len(chunks) == 3
