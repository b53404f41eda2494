"""Public traces become ours, and what is left out is told."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gangline.replay.bad_input import BadInputError
from gangline.replay.importers import FORMATS, Imported, import_trace
from gangline.replay.traces import TraceJob, read_trace

SAMPLES = Path(__file__).parent / "samples"


def imported(
    source_format: str, folder: Path, *names: str
) -> tuple[tuple[TraceJob, ...], Imported]:
    """The jobs that come out of samples, through a file, and what was said."""
    out = folder / "out.csv"
    told = import_trace(source_format, [SAMPLES / name for name in names], out)
    return read_trace(out).jobs, told


def brief(jobs: tuple[TraceJob, ...]) -> list[tuple[str, str, int, int, int]]:
    """Id, team, submission, GPUs and duration of each job, in seconds."""
    return [
        (job.job, job.team, job.submit_ms // 1000, job.gpus, job.duration_ms // 1000)
        for job in jobs
    ]


def test_philly(tmp_path: Path) -> None:
    """Attempts add up, the widest gives the GPUs; what never ran or still runs is left out."""
    jobs, told = imported("philly", tmp_path, "philly_cluster_job_log.json")

    assert brief(jobs) == [
        ("application_1_6", "vc2", 0, 1, 10),
        ("application_1_1", "vc1", 60, 4, 3660),
    ]
    assert told.left_out == {
        "no_attempt": 1,
        "still_running": 1,
        "no_duration": 1,
        "unreadable": 1,
    }
    assert told.lines()[0] == "wrote 2 jobs"
    assert (
        "left out 1: no_attempt (the first is philly_cluster_job_log.json, job 2)" in told.lines()
    )


def test_helios(tmp_path: Path) -> None:
    """Virtual clusters are the teams; CPU jobs are left out."""
    jobs, told = imported("helios", tmp_path, "helios_cluster_log.csv")

    assert brief(jobs) == [("11", "vcX", 0, 1, 60), ("12", "vcY", 26, 16, 249)]
    assert told.left_out == {"no_gpus": 1, "no_duration": 1}
    assert told.first["no_gpus"] == "helios_cluster_log.csv:4"


def test_acme(tmp_path: Path) -> None:
    """Times have zones; the type of work is the team."""
    jobs, told = imported("acme", tmp_path, "acme_trace_kalos.csv")

    assert brief(jobs) == [("dlc3", "Evaluation", 0, 8, 30), ("dlc1", "Pretrain", 8, 64, 18)]
    assert told.left_out == {"no_gpus": 1}


def test_pai(tmp_path: Path) -> None:
    """Shares of GPUs are rounded up to whole ones; tasks make the duration."""
    jobs, told = imported("pai", tmp_path, "pai_task_table.csv", "pai_job_table.csv")

    assert brief(jobs) == [("job2", "user2", 0, 8, 50), ("job1", "user1", 100, 2, 550)]
    assert told.left_out == {"not_ended": 1, "no_gpus": 1, "no_task": 1}


def test_pai_needs_both_tables(tmp_path: Path) -> None:
    """The message names what is missing."""
    with pytest.raises(BadInputError, match=r"expected pai_task_table\.csv"):
        imported("pai", tmp_path, "pai_job_table.csv")


def test_slurm(tmp_path: Path) -> None:
    """Steps belong to their jobs; GPUs of several models are not counted twice."""
    jobs, told = imported("slurm", tmp_path, "slurm_sacct.txt")

    assert brief(jobs) == [("101", "speech", 0, 4, 600), ("100", "vision", 60, 16, 90_001)]
    assert [job.limit_ms for job in jobs] == [None, 172_800_000]
    assert told.left_out == {"no_gpus": 1, "not_ended": 1, "unreadable": 1}


def test_plain_csv(tmp_path: Path) -> None:
    """Columns may have the usual names, and times may be dates."""
    jobs, told = imported("csv", tmp_path, "plain.csv")

    assert brief(jobs) == [("b", "bob", 0, 2, 30), ("a", "ann", 10, 4, 60)]
    assert told.left_out == {"unreadable": 1}


@pytest.mark.parametrize("source_format", [name for name in FORMATS if name != "philly"])
def test_another_format_is_refused(tmp_path: Path, source_format: str) -> None:
    """A file of another kind ends in one line that names it."""
    with pytest.raises(BadInputError, match=r"philly_cluster_job_log\.json.*expected"):
        imported(source_format, tmp_path, "philly_cluster_job_log.json")


@pytest.mark.parametrize("source_format", list(FORMATS))
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("binary.csv", b"\xff\xfe\x00"),
        ("cut.csv.gz", gzip.compress(b"job_id,team,submit_s\n" * 50, mtime=0)[:20]),
        ("damaged.csv.gz", gzip.compress(b"job_id,team\n", mtime=0)[:10] + b"\xff" * 30),
        ("deep.csv", b"[" * 200_000),
    ],
)
def test_a_damaged_file_is_refused(
    tmp_path: Path, source_format: str, name: str, content: bytes
) -> None:
    """Whatever is wrong with its bytes, the error names the file."""
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(BadInputError, match=name):
        import_trace(source_format, [path], tmp_path / "out.csv")


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """The message lists those that exist."""
    with pytest.raises(BadInputError, match="expected one of philly, helios"):
        import_trace("swf", [tmp_path], tmp_path / "out.csv")
