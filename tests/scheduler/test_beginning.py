"""A log whose beginning is gone is not taken for a new cell, on any bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.events.log import Topic
from gangline.events.memory import MemoryLog
from gangline.scheduler.beginning import MissingHistoryError, start_follower
from gangline.scheduler.follower import DECISIONS
from gangline.scheduler.snapshots import SnapshotWriter
from tests.scheduler.cell import Cell
from tests.support.sites import Site, site

if TYPE_CHECKING:
    from gangline.events.log import Log

__all__ = ["site"]


def end_of_decisions(log: Log) -> int:
    """The offset after the last batch."""
    return log.ends([Topic.DECISIONS])[DECISIONS]


def refused(site: Site) -> str:
    """What a scheduler says that starts there and is refused."""
    with pytest.raises(MissingHistoryError) as caught:
        site.cell.scheduler("late")
    return str(caught.value)


def snapshot_of(site: Site) -> int:
    """Write a snapshot of the present; returns its batch."""
    writer = SnapshotWriter(site.cell.outside(), actor="scheduler:one", name="one")
    return writer.write(site.cell.replayed()).seq


def test_a_log_without_any_batch_left_is_not_new(site: Site) -> None:
    """All batches are gone, and no snapshot is there: who led now would begin from nothing."""
    site.go_on("job-1", "job-2")
    end = end_of_decisions(site.log)
    site.forget({DECISIONS: end})

    assert f"decisions begin at offset {end}" in refused(site)


def test_a_log_whose_first_batches_are_gone_says_so(site: Site) -> None:
    """With no snapshot that stands in for them."""
    site.go_on("job-1", "job-2")
    site.forget({DECISIONS: end_of_decisions(site.log) - 1})

    assert "no good snapshot stands in for them" in refused(site)


def test_a_snapshot_stands_in_for_what_is_gone(site: Site) -> None:
    """Everything before its last batch may go, and the cell goes on as it was."""
    site.go_on("job-1", "job-2")
    before = site.cell.replayed()
    snapshot_of(site)
    site.forget({DECISIONS: before.next_offset - 1})

    started = start_follower(site.log, site.cell.core, warn=lambda _text: None)

    assert started.link == before.link


def test_a_hole_behind_the_newest_snapshot_is_said(site: Site) -> None:
    """The batches between snapshot and log are gone."""
    site.go_on("job-1")
    seq = snapshot_of(site)
    site.go_on("job-2", "job-3")
    site.forget({DECISIONS: end_of_decisions(site.log) - 1})

    assert f"the batches after {seq}, where the newest good snapshot ends, are gone" in refused(
        site
    )


def emptied(cell: Cell) -> Cell:
    """The same cell after somebody deleted `decisions` and made it anew."""
    assert isinstance(cell.log, MemoryLog)
    partition = cell.log._store.partitions[DECISIONS]
    partition.records.clear()
    partition.start = partition.end = 0
    return cell


def busy() -> Cell:
    """A cell that has told a node something."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    cell.admit("n1")
    cell.submit("job-1")
    cell.run(scheduler, ms=1_000)
    scheduler.close()
    return cell


def test_decisions_that_were_made_anew_are_no_new_cell() -> None:
    """What a node was told follows from decisions that must have been there."""
    cell = emptied(busy())

    with pytest.raises(MissingHistoryError, match=r"tells n1 what follows from batch \d+"):
        cell.scheduler("late")


def test_a_snapshot_beyond_the_log_is_no_place_to_go_on() -> None:
    """The log has not come so far: it is not the log that the snapshot was taken of."""
    cell = busy()
    follower = cell.replayed()
    SnapshotWriter(cell.outside(), actor="scheduler:one", name="one").write(follower)
    emptied(cell)

    with pytest.raises(MissingHistoryError, match="are gone"):
        cell.scheduler("late")


def test_a_new_cell_is_new() -> None:
    """Facts may be there before the first scheduler is."""
    cell = Cell()
    cell.admit("n1")
    cell.submit("job-1")
    scheduler = cell.scheduler()

    cell.led_by(scheduler)

    assert cell.batches()[0].seq == 1
