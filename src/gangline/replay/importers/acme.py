"""Shanghai AI Lab Acme: `trace_seren.csv` and `trace_kalos.csv`.

Format: github.com/InternLM/AcmeTrace, README. The files name users but no teams; the workload type
(Pretrain, Evaluation, …) stands for the team. CPU jobs have no GPUs and are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.replay.importers.rows import (
    Left,
    Row,
    epoch_ms,
    jobs_of,
    seconds_ms,
    table,
    team_name,
    whole,
)
from gangline.replay.traces import TraceJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_NEED = ("job_id", "gpu_num", "type", "state", "submit_time", "duration")


def read(files: Sequence[Path]) -> Iterator[TraceJob | Left]:
    """The GPU jobs of Acme job traces."""
    for path in files:
        yield from jobs_of(table(path, need=_NEED), _job)


def _job(row: Row) -> TraceJob:
    return TraceJob(
        job=row["job_id"],
        team=team_name(row, "type", "user"),
        submit_ms=epoch_ms(row["submit_time"]),
        gpus=whole(row["gpu_num"]),
        duration_ms=seconds_ms(row["duration"]),
        status=row["state"],
    )
