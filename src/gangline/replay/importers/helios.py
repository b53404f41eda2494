"""SenseTime Helios: `cluster_log.csv` of a cluster.

Format: github.com/S-Lab-System-Group/HeliosData, README. The virtual cluster is the team. CPU jobs
have no GPUs and are left out.
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

_NEED = ("job_id", "vc", "gpu_num", "state", "submit_time", "duration")


def read(files: Sequence[Path]) -> Iterator[TraceJob | Left]:
    """The GPU jobs of `cluster_log.csv` files."""
    for path in files:
        yield from jobs_of(table(path, need=_NEED), _job)


def _job(row: Row) -> TraceJob:
    return TraceJob(
        job=row["job_id"],
        team=team_name(row, "vc", "user"),
        submit_ms=epoch_ms(row["submit_time"]),
        gpus=whole(row["gpu_num"]),
        duration_ms=seconds_ms(row["duration"]),
        status=row["state"],
    )
