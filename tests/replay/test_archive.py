"""A history whose beginning is in files and whose end is in a log, on every bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangline.cli.main import run
from gangline.events.log import Topic, TopicPartition
from gangline.replay.archive import ARCHIVED, Archive, ArchivedSource
from gangline.replay.history import LogSource, steps
from gangline.replay.logfile import read_records
from gangline.replay.shelf import ArchiveError
from gangline.replay.verify import verify
from tests.scheduler.toy_core import ToyCore
from tests.support.sites import Site, memory_site, site

__all__ = ["site"]


def test_a_history_is_read_across_the_seam(site: Site, tmp_path: Path) -> None:
    """What is archived may go from the log; verify reads the whole history all the same."""
    archive = Archive(tmp_path, cell=site.name)
    site.go_on("job-1", "job-2")
    archive.append(site.log)
    site.go_on("job-3", "job-4")
    before = verify(LogSource(site.log), ToyCore())
    site.forget({p: archive.next_offset(p) for p in site.log.ends(ARCHIVED)})

    assert verify(LogSource(site.log), ToyCore()).difference is not None
    report = verify(ArchivedSource(archive, site.log), ToyCore())

    assert report.difference is None
    assert (report.digest, report.facts) == (before.digest, before.facts)
    assert report.heartbeats == before.heartbeats > 0
    assert report.unchecked_edges == 0


def test_each_run_adds_what_is_new(site: Site, tmp_path: Path) -> None:
    """Files follow each other without a gap, and what is archived is not read again."""
    archive = Archive(tmp_path, cell=site.name)
    site.go_on("job-1")
    first = archive.append(site.log)
    assert archive.append(site.log) == []
    site.go_on("job-2")
    second = archive.append(site.log)

    decisions = TopicPartition(Topic.DECISIONS, 0)
    files = archive.segments(decisions)
    assert [each.name for each in files] == [
        each.name for each in (*first, *second) if each.partition == decisions
    ]
    archived = [record.offset for record in archive.records(decisions)]
    assert archived == [record.offset for record in LogSource(site.log).decisions()]


def test_a_gap_between_archive_and_log_is_said(site: Site, tmp_path: Path) -> None:
    """Else a history with a hole would be read as if it was whole."""
    archive = Archive(tmp_path, cell=site.name)
    site.go_on("job-1")
    archive.append(site.log)
    site.go_on("job-2", "job-3")
    decisions = TopicPartition(Topic.DECISIONS, 0)
    site.forget({decisions: site.log.ends([Topic.DECISIONS])[decisions] - 1})

    with pytest.raises(ArchiveError, match="the log begins after the archive's end"):
        list(steps(ArchivedSource(archive, site.log)))


def test_files_hold_so_many_records_and_only_old_ones_if_asked(tmp_path: Path) -> None:
    """A file of any partition is a log file of its own."""
    site = memory_site("job-1", "job-2", "job-3")
    archive = Archive(tmp_path, cell=site.name)
    middle_ms = list(LogSource(site.log).decisions())[3].appended_ms
    written = archive.append(site.log, before_ms=middle_ms, most=2)

    for segment in written:
        records = list(read_records(Path(segment.place)))
        assert 1 <= len(records) <= 2
        assert all(record.appended_ms < middle_ms for record in records)
        assert Path(segment.name).name == f"{segment.first:020d}-{segment.last:020d}.avro"
    assert list(tmp_path.rglob("*.part")) == []


def test_a_changed_archive_is_found_by_verify(tmp_path: Path) -> None:
    """A missing file is a broken chain; nothing in the folder is trusted."""
    site = memory_site("job-1", "job-2", "job-3")
    archive = Archive(tmp_path, cell=site.name)
    archive.append(site.log, most=2)
    Path(archive.segments(TopicPartition(Topic.DECISIONS, 0))[0].place).unlink()

    report = verify(ArchivedSource(archive, site.log), ToyCore())

    assert "seq: expected 1, got 3" in str(report.difference)


@pytest.mark.postgres
def test_the_commands_archive_and_read_across(
    postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`replay archive`, and `--archive` with any other command of replay."""
    site = Site("postgres", postgres_url)
    site.go_on("job-1")
    where = ["--bus", postgres_url, "--cell", site.name]

    assert run(["replay", "archive", str(tmp_path), *where, "--json"]) == 0
    assert "decisions-0" in capsys.readouterr().out
    site.go_on("job-2")
    site.forget(
        {p: Archive(tmp_path, cell=site.name).next_offset(p) for p in site.log.ends(ARCHIVED)}
    )
    assert run(["replay", "show", "job-1", *where, "--archive", str(tmp_path)]) == 0
    assert "accepted as number" in capsys.readouterr().out
    assert run(["replay", "show", "job-1", *where]) == 1
    site.log.close()
