"""Any CSV with one job a row and columns by the usual names.

Each of our columns is taken from the first of its names that the file has. Times may be seconds or
dates (`2025-01-31 10:00:00`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gangline.replay.bad_input import BadInputError
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
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "job_id": ("job_id", "jobid", "id", "job", "job_name"),
    "team": ("team", "vc", "account", "group", "project", "user"),
    "submit": ("submit_s", "submit_time", "submitted_at", "submit", "arrival_time", "time"),
    "gpus": ("gpus", "gpu_num", "num_gpus", "num_gpu", "gpu", "gpu_count"),
    "duration": ("duration_s", "duration", "run_time", "runtime", "elapsed"),
    "status": ("status", "state"),
    "limit": ("limit_s", "time_limit_s", "limit"),
}
_NEED: Final = ("job_id", "submit", "gpus", "duration")


def read(files: Sequence[Path]) -> Iterator[TraceJob | Left]:
    """The jobs of plain tables."""
    for path in files:
        yield from jobs_of(((where, _named(path, row)) for where, row in table(path)), _job)


def _named(path: Path, row: Row) -> Row:
    """The row under our names."""
    named = {
        ours: next((row[name] for name in names if name in row), "")
        for ours, names in NAMES.items()
    }
    for ours in _NEED:
        if not any(name in row for name in NAMES[ours]):
            raise BadInputError(f"{path}:1", f"expected a column {' or '.join(NAMES[ours])}")
    return named


def _job(row: Row) -> TraceJob:
    return TraceJob(
        job=row["job_id"],
        team=team_name(row, "team"),
        submit_ms=_time_ms(row["submit"]),
        gpus=whole(row["gpus"]),
        duration_ms=seconds_ms(row["duration"]),
        status=row["status"],
        limit_ms=seconds_ms(row["limit"]) or None,
    )


def _time_ms(text: str) -> int:
    return epoch_ms(text) if ":" in text or text.count("-") >= 2 else seconds_ms(text)
