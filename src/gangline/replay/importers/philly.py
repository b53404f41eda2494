"""Microsoft Philly: `cluster_job_log`, a JSON list of jobs with their attempts.

Format: github.com/msr-fiddle/philly-traces, README. The duration is the sum of the attempts, as
each of them held the GPUs; the GPUs are those of the widest attempt. The virtual cluster is the
team. Jobs without an attempt, and those that still ran at the snapshot, are left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gangline.replay.bad_input import BadInputError
from gangline.replay.importers.rows import LeaveOut, Left, checked, epoch_ms
from gangline.replay.traces import NO_TEAM, UNREADABLE, TraceJob, open_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def read(files: Sequence[Path]) -> Iterator[TraceJob | Left]:
    """The jobs of `cluster_job_log` files."""
    for path in files:
        for index, entry in enumerate(_entries(path), start=1):
            try:
                yield checked(_job(entry))
            except LeaveOut as reason:
                yield Left(str(reason), f"{path.name}, job {index}")
            except (ValueError, KeyError, TypeError, AttributeError):
                yield Left("unreadable", f"{path.name}, job {index}")


def _entries(path: Path) -> list[Any]:
    with open_text(path) as file:
        try:
            entries = json.load(file)
        except (*UNREADABLE, ValueError) as error:
            raise BadInputError(path, f"expected a JSON list of jobs: {error}") from error
    if not isinstance(entries, list):
        raise BadInputError(path, "expected a JSON list of jobs")
    return entries


def _job(entry: dict[str, Any]) -> TraceJob:
    attempts = entry["attempts"]
    if not attempts:
        raise LeaveOut("no_attempt")
    if _time(attempts[-1]["end_time"]) is None:
        raise LeaveOut("still_running")
    return TraceJob(
        job=entry["jobid"],
        team=entry["vc"] or NO_TEAM,
        submit_ms=epoch_ms(entry["submitted_time"]),
        gpus=max(sum(len(part["gpus"]) for part in attempt["detail"]) for attempt in attempts),
        duration_ms=sum(_ran_ms(attempt) for attempt in attempts),
        status=entry["status"],
    )


def _ran_ms(attempt: dict[str, Any]) -> int:
    """How long an attempt ran; 0 where the log lost one of its times."""
    start, end = _time(attempt["start_time"]), _time(attempt["end_time"])
    return 0 if start is None or end is None else end - start


def _time(text: str | None) -> int | None:
    return None if text in (None, "", "None") else epoch_ms(text)
