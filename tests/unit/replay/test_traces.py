"""Trace files: what is read, and what is left out and said so."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from gangline.events.spec import JobClass, Topology, TopologyKind
from gangline.replay.bad_input import BadInputError
from gangline.replay.traces import TraceJob, read_trace, teams_of, write_trace

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "job_id,team,submit_s,gpus,duration_s,status"


def file_of(folder: Path, *rows: str, header: str = HEADER) -> Path:
    """A CSV file with these rows."""
    path = folder / "trace.csv"
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def test_a_plain_row_is_a_job(tmp_path: Path) -> None:
    """Seconds become milliseconds; what a row does not say is not made up."""
    trace = read_trace(file_of(tmp_path, "j1,vision,1.5,8,3600,COMPLETED"))

    assert trace.jobs == (
        TraceJob(
            job="j1",
            team="vision",
            submit_ms=1_500,
            gpus=8,
            duration_ms=3_600_000,
            status="COMPLETED",
        ),
    )
    assert trace.left_out == {}


def test_optional_columns_are_understood(tmp_path: Path) -> None:
    """Class, checkpoint, limit, shape and topology come from the row."""
    header = HEADER + ",priority,checkpoint_s,limit_s,gpus_per_node,topology"
    job = read_trace(
        file_of(tmp_path, "j,t,0,16,60,ok,high,0,7200,8,required:block", header=header)
    ).jobs[0]

    assert job.job_class is JobClass.HIGH
    assert (job.checkpoint_ms, job.limit_ms, job.gpus_per_node) == (0, 7_200_000, 8)
    assert job.topology == Topology(kind=TopologyKind.REQUIRED, level="block")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("j,t,0,0,60,ok", "no_gpus"),
        ("j,t,0,,60,ok", "no_gpus"),
        ("j,t,0,-1,60,ok", "no_gpus"),
        ("j,t,0,1,0,ok", "no_duration"),
        ("j,t,0,1,,ok", "no_duration"),
        ("j,t,0,1,-5,ok", "negative_duration"),
        ("j,t,0,1.5,60,ok", "unreadable"),
        ("j,t,soon,1,60,ok", "unreadable"),
        ("j,t,-1,1,60,ok", "unreadable"),
        ("j,t,0,1,inf,ok", "unreadable"),
        ("j,t,0,1e999999999,60,ok", "unreadable"),
        (",t,0,1,60,ok", "bad_name"),
        ("j,two words,0,1,60,ok", "bad_name"),
        ("j,t", "unreadable"),
    ],
)
def test_a_row_that_is_no_job_is_counted_with_its_reason(
    tmp_path: Path, row: str, reason: str
) -> None:
    """It is neither simulated nor silently dropped."""
    trace = read_trace(file_of(tmp_path, "good,t,0,1,60,ok", row))

    assert [job.job for job in trace.jobs] == ["good"]
    assert trace.left_out == {reason: 1}
    assert trace.left_out_lines() == (f"left out 1 rows: {reason} (the first is line 3)",)


def test_the_same_id_twice_counts_once(tmp_path: Path) -> None:
    """A submission's id is its key, so that a second row could only be a duplicate."""
    trace = read_trace(file_of(tmp_path, "j,t,0,1,60,ok", "j,t,9,1,60,ok"))

    assert len(trace.jobs) == 1
    assert trace.left_out == {"repeated_id": 1}


def test_jobs_come_in_order_of_submission(tmp_path: Path) -> None:
    """Rows of the same instant keep the order of the file."""
    trace = read_trace(file_of(tmp_path, "b,t,5,1,1,", "a,t,5,1,1,", "c,u,1,1,1,"))

    assert [job.job for job in trace.jobs] == ["c", "b", "a"]
    assert teams_of(trace.jobs) == ("u", "t")


def test_a_limit_of_jobs_takes_the_earliest(tmp_path: Path) -> None:
    """`limit_jobs` is a prefix of the history, not of the file."""
    path = file_of(tmp_path, "late,t,5,1,1,", "early,t,1,1,1,")

    assert [job.job for job in read_trace(path, limit_jobs=1).jobs] == ["early"]


def test_a_wrong_header_is_refused(tmp_path: Path) -> None:
    """The message names the file, the line and what would be right."""
    path = file_of(tmp_path, header="job,team")

    with pytest.raises(BadInputError, match=r"trace\.csv:1: expected the header job_id,.*lacks"):
        read_trace(path)


def test_a_broken_gzip_is_refused(tmp_path: Path) -> None:
    """Bytes that are no gzip end in one line, not in a traceback."""
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(b"not gzip")

    with pytest.raises(BadInputError, match=r"trace\.csv\.gz:1: not CSV text"):
        read_trace(path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Also through gzip, whose bytes are the same each time."""
    job = TraceJob(
        job="j,1",
        team="t",
        submit_ms=1_250,
        gpus=16,
        duration_ms=90_000,
        status="failed",
        job_class=JobClass.LOW,
        checkpoint_ms=0,
        limit_ms=120_000,
        gpus_per_node=8,
        topology=Topology(kind=TopologyKind.PREFERRED, level="block"),
    )
    paths = [tmp_path / "a.csv", tmp_path / "b.csv.gz", tmp_path / "c.csv.gz"]
    for path in paths:
        write_trace(path, [job])

    assert all(read_trace(path).jobs == (job,) for path in paths)
    assert paths[1].read_bytes() == paths[2].read_bytes()
    assert gzip.decompress(paths[1].read_bytes()) == paths[0].read_bytes()
