"""An archive in a bucket of an S3-compatible store."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from gangline.cli.main import run
from gangline.events.log import Topic, TopicPartition
from gangline.replay.archive import ARCHIVED, Archive, ArchivedSource
from gangline.replay.history import LogSource
from gangline.replay.logfile import LogFileError
from gangline.replay.shelf import ArchiveError
from gangline.replay.verify import verify
from tests.scheduler.toy_core import ToyCore
from tests.support.s3 import BUCKET, store
from tests.support.sites import Site, memory_site

if TYPE_CHECKING:
    from collections.abc import Iterator

DECISIONS = TopicPartition(Topic.DECISIONS, 0)


class Bucket:
    """Where it is, and what lies in it."""

    def __init__(self, url: str, objects: dict[str, bytes]) -> None:
        self.url = url
        self.objects = objects


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An empty bucket, with a prefix of our own."""
    with store() as (url, environ, objects):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        yield Bucket(f"{url}/some/prefix", objects)


def test_a_history_is_read_across_bucket_and_log(bucket: Bucket) -> None:
    """What lies in the bucket may go from the log."""
    cell = memory_site("job-1", "job-2")
    archive = Archive(bucket.url, cell=cell.name)
    archive.append(cell.log, most=2)
    cell.go_on("job-3")
    before = verify(LogSource(cell.log), ToyCore())
    cell.forget({p: archive.next_offset(p) for p in cell.log.ends(ARCHIVED)})

    report = verify(ArchivedSource(archive, cell.log), ToyCore())

    assert report.difference is None
    assert (report.digest, report.facts) == (before.digest, before.facts)
    assert len(archive.segments(DECISIONS)) > 1


def test_what_lies_there_is_never_overwritten(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two who archive at once the faster one keeps the name."""
    cell = memory_site("job-1", "job-2")
    archive = Archive(bucket.url, cell=cell.name)
    other = Archive(bucket.url, cell=cell.name)
    monkeypatch.setattr(other, "next_offset", lambda _partition: 0)  # it has not seen the files
    archive.append(cell.log)
    kept = dict(bucket.objects)

    with pytest.raises(ArchiveError, match="already exists"):
        other.append(cell.log)

    assert bucket.objects == kept


def test_a_changed_object_is_found(bucket: Bucket) -> None:
    """And named by its URL, whatever copy was read."""
    cell = memory_site("job-1", "job-2")
    archive = Archive(bucket.url, cell=cell.name)
    archive.append(cell.log)
    (segment,) = archive.segments(DECISIONS)
    name = f"some/prefix/{segment.name}"
    bucket.objects[name] = bucket.objects[name][:-40]

    with pytest.raises(LogFileError, match=f"^s3://{BUCKET}/some/prefix/{segment.name}: "):
        verify(ArchivedSource(archive, cell.log), ToyCore())


def test_a_store_that_is_away_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what was asked of it."""
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "something",
    }.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ArchiveError, match=r"^s3://cold: .*127\.0\.0\.1:9") as caught:
        Archive("s3://cold", cell="main").next_offset(DECISIONS)

    assert "\n" not in str(caught.value)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is an extra."""
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(ArchiveError, match=r"pip install 'gangline\[archive\]'"):
        Archive("s3://cold", cell="main")


@pytest.mark.postgres
def test_the_commands_take_a_url(
    bucket: Bucket, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`replay archive s3://…`, and `--archive s3://…` with any other."""
    cell = Site("postgres", postgres_url)
    cell.go_on("job-1")
    where = ["--bus", postgres_url, "--cell", cell.name]

    assert run(["replay", "archive", bucket.url, *where, "--json"]) == 0
    assert "decisions-0" in capsys.readouterr().out
    cell.go_on("job-2")
    archive = Archive(bucket.url, cell=cell.name)
    cell.forget({p: archive.next_offset(p) for p in cell.log.ends(ARCHIVED)})
    assert run(["replay", "show", "job-1", *where, "--archive", bucket.url]) == 0
    assert "accepted as number" in capsys.readouterr().out
    cell.log.close()


@pytest.mark.skipif("GANGLINE_TEST_S3" not in os.environ, reason="GANGLINE_TEST_S3 names no bucket")
def test_a_real_store_serves_as_well() -> None:
    """Whatever speaks S3: GANGLINE_TEST_S3=s3://bucket/empty-prefix and the usual AWS_… names."""
    cell = memory_site("job-1", "job-2")
    archive = Archive(os.environ["GANGLINE_TEST_S3"], cell=cell.name)
    archive.append(cell.log, most=2)
    cell.go_on("job-3")
    before = verify(LogSource(cell.log), ToyCore())
    cell.forget({p: archive.next_offset(p) for p in cell.log.ends(ARCHIVED)})

    assert verify(ArchivedSource(archive, cell.log), ToyCore()).digest == before.digest
    assert archive.append(cell.log) != []
