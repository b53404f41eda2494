"""Schedulers of different logic versions share a cell: openly, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.envelope import Event
from gangline.events.log import Record, Topic
from gangline.replay.history import LogSource
from gangline.replay.logfile import export_log, read_records
from gangline.replay.verify import verify
from gangline.scheduler import core as real_core
from gangline.scheduler import snapshots
from gangline.scheduler.batches import LogDifferenceError
from gangline.scheduler.beginning import start_follower
from gangline.scheduler.follower import Follower, UnknownLogicError
from gangline.scheduler.logic import upgrade
from tests.replay.test_tampering import ListSource
from tests.scheduler.cell import Cell
from tests.scheduler.toy_core import ToyCore

if TYPE_CHECKING:
    from pathlib import Path


def of_version(cell: Cell, version: int) -> Cell:
    """The same cell, seen by programs of another version."""
    cell.core = ToyCore(logic_version=version)
    return cell


def upgraded() -> Cell:
    """A cell that a leader of version 2 has taken over from one of version 1."""
    cell = Cell()
    one = cell.scheduler("one")
    cell.led_by(one)
    cell.admit("n1", "n2")
    cell.submit("job-1")
    cell.run(one, ms=1_000)
    one.close()
    two = of_version(cell, 2).scheduler("two")
    cell.led_by(two)
    cell.submit("job-2")
    cell.run(two, ms=1_000)
    two.close()
    return cell


def test_a_newer_leader_upgrades_with_the_second_batch_of_its_term() -> None:
    """By the old version it takes over, and from the next batch on the new one decides."""
    cell = upgraded()
    versions = [(batch.term, batch.logic_version) for batch in cell.batches()]
    (decision,) = cell.decisions(d.LogicUpgraded)

    assert versions[-3:] == [(2, 1), (2, 1), (2, 2)]
    assert (decision.old_version, decision.new_version) == (1, 2)
    taken, upgrade_batch = cell.batches()[-3:-1]
    assert decision.old_digest == taken.state_digest
    assert decision.new_digest == upgrade_batch.state_digest


def test_it_is_written_once() -> None:
    """The next leader of that version goes on without a word."""
    cell = upgraded()
    three = cell.scheduler("three")
    cell.led_by(three)

    assert len(cell.decisions(d.LogicUpgraded)) == 1
    assert cell.batches()[-1].logic_version == 2


def test_a_program_of_the_new_version_verifies_the_log_across_the_upgrade() -> None:
    """Old batches by the old version, the upgrade itself, new ones by the new."""
    report = verify(LogSource(upgraded().log), ToyCore(logic_version=2))

    assert report.difference is None
    assert report.unchecked_edges == 0


def test_a_program_of_the_old_version_stops_at_the_upgrade() -> None:
    """Verifying and following: it says which version is needed, instead of going its own way."""
    cell = upgraded()
    said = "from here on logic version 2 decides, this program has 1"

    with pytest.raises(UnknownLogicError, match=said):
        verify(LogSource(cell.log), ToyCore())
    with pytest.raises(UnknownLogicError, match=said):
        Follower(ToyCore()).read_to_end(cell.log)


def test_an_old_standby_of_a_new_leader_ends_and_never_leads() -> None:
    """A mixed pair: upgrade while the other one is still of the old version."""
    cell = Cell()
    old = cell.scheduler("old", index=1)
    new = of_version(cell, 2).scheduler("new")
    cell.until(lambda: new.leader is not None, new)

    with pytest.raises(UnknownLogicError, match="install a newer one"):
        cell.run(new, old, ms=5_000)

    assert old.leader is None


def test_a_new_standby_follows_an_old_leader_and_takes_over() -> None:
    """The way round that an upgrade goes."""
    cell = Cell()
    old = cell.scheduler("old")
    cell.led_by(old)
    new = of_version(cell, 2).scheduler("new", index=1)
    cell.submit("job-1")
    cell.run(old, new, ms=2_000)
    assert cell.decisions(d.LogicUpgraded) == []

    old.close()
    cell.until(lambda: new.leader is not None, new)
    cell.run(new, ms=1_000)

    assert len(cell.decisions(d.LogicUpgraded)) == 1
    assert verify(LogSource(cell.log), cell.core).difference is None


def test_a_downgrade_is_refused_also_where_a_snapshot_is() -> None:
    """The newer snapshot is passed over, and then the log itself says no."""
    cell = upgraded()
    follower = cell.replayed()
    outside = cell.outside()
    snapshots.SnapshotWriter(outside, actor="scheduler:x", name="x").write(follower)

    warnings: list[str] = []
    with pytest.raises(UnknownLogicError):
        start_follower(cell.log, ToyCore(), warn=warnings.append)

    assert len(warnings) == 1
    assert "newer program" in warnings[0]
    restored = start_follower(cell.log, cell.core, warn=warnings.append)
    assert restored.logic_version == 2


def test_an_upgrade_that_nobody_may_write_is_found(tmp_path: Path) -> None:
    """In the middle of a term, however well it is chained."""
    cell = upgraded()
    path = tmp_path / "cell.log"
    export_log(cell.log, path)
    records = list(read_records(path))
    forged = [_without_led(record) for record in records]

    report = verify(ListSource(forged), ToyCore(logic_version=2))

    assert isinstance(report.difference, LogDifferenceError)


def _without_led(record: Record) -> Record:
    """A batch that claims that its term went on all the time."""
    if record.topic != Topic.DECISIONS:
        return record
    event = codec.decode(record.value)
    if event.body.term == 1:
        return record
    body = replace(event.body, edges=(), term=1)
    return replace(record, value=codec.encode(Event(envelope=event.envelope, body=body)))


def test_the_real_cores_state_survives_an_upgrade() -> None:
    """Its digest afterwards is the one that the fold of the decision has."""
    state = real_core.new_state()
    done = upgrade(real_core, state, versions=(1, 2), now_ms=1_000)
    folded = real_core.new_state()
    real_core.fold(folded, [done.decision], now_ms=1_000)

    assert real_core.state_digest(done.state) == real_core.state_digest(folded)
    assert real_core.state_digest(folded) == done.decision.new_digest
    assert done.decision.old_digest != done.decision.new_digest
