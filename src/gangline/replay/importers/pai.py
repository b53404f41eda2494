"""Alibaba PAI 2020: `pai_job_table.csv` and `pai_task_table.csv`, both needed, without headers.

Format: github.com/alibaba/clusterdata, cluster-trace-gpu-v2020/README. A job's GPUs are the sum
over its tasks of instances times `plan_gpu` per cent, rounded up to whole GPUs, as a gang cannot
hold a part of one. It runs from its first task's start to its last task's end. The user is the
team. Jobs that had not ended are left out.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from gangline.replay.bad_input import BadInputError
from gangline.replay.importers.rows import (
    LeaveOut,
    Left,
    Row,
    jobs_of,
    number,
    seconds_ms,
    table,
    team_name,
)
from gangline.replay.traces import TraceJob, open_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_JOB: Final = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
_TASK: Final = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)


class _Tasks:
    """What the tasks of one job add up to."""

    __slots__ = ("end", "gpu_percent", "start")

    def __init__(self) -> None:
        self.gpu_percent = Decimal(0)
        self.start: int | None = None
        self.end: int | None = None

    def add(self, row: Row) -> None:
        """Count one more task."""
        self.gpu_percent += number(row["inst_num"]) * number(row["plan_gpu"])
        if row["start_time"]:
            start = seconds_ms(row["start_time"])
            self.start = start if self.start is None else min(self.start, start)
        if row["end_time"]:
            end = seconds_ms(row["end_time"])
            self.end = end if self.end is None else max(self.end, end)


def read(files: Sequence[Path]) -> Iterator[TraceJob | Left]:
    """The GPU jobs of a job table with its task table."""
    job_files = [path for path in files if _columns(path) == len(_JOB)]
    task_files = [path for path in files if _columns(path) == len(_TASK)]
    strange = [path for path in files if path not in job_files and path not in task_files]
    if strange:
        raise BadInputError(strange[0], "expected the job table (6 columns) or task table (10)")
    if not job_files or not task_files:
        missing = "pai_task_table.csv" if job_files else "pai_job_table.csv"
        raise BadInputError(files[0], f"expected {missing} beside it")
    tasks: dict[str, _Tasks] = {}
    for path in task_files:
        yield from _add_tasks(path, tasks)
    for path in job_files:
        yield from jobs_of(_body(path, _JOB), lambda row: _job(row, tasks.get(row["job_name"])))


def _add_tasks(path: Path, tasks: dict[str, _Tasks]) -> Iterator[Left]:
    for where, row in _body(path, _TASK):
        try:
            tasks.setdefault(row["job_name"], _Tasks()).add(row)
        except (ValueError, ArithmeticError):
            yield Left("unreadable_task", where)


def _job(row: Row, tasks: _Tasks | None) -> TraceJob:
    if tasks is None:
        raise LeaveOut("no_task")
    if tasks.start is None or tasks.end is None or row["status"] in ("Running", "Waiting"):
        raise LeaveOut("not_ended")
    return TraceJob(
        job=row["job_name"],
        team=team_name(row, "user"),
        submit_ms=seconds_ms(row["start_time"]),
        gpus=math.ceil(tasks.gpu_percent / 100),
        duration_ms=tasks.end - tasks.start,
        status=row["status"],
    )


def _body(path: Path, header: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """The rows without the header that some copies have."""
    return (
        (where, row) for where, row in table(path, header=header) if row["job_name"] != "job_name"
    )


def _columns(path: Path) -> int:
    with open_text(path) as file:
        return file.readline().count(",") + 1
