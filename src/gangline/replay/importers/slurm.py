"""Slurm: `sacct --parsable2` (or `--parsable`) output, with its header.

Needed fields: JobID, State, Submit and either Elapsed or ElapsedRaw; GPUs come from AllocTRES or
ReqTRES (`gres/gpu=8`). Account is the team (else User), Timelimit or TimelimitRaw the limit. Job
steps (`123.batch`) are part of their job and are skipped; jobs that still run are left out.

    sacct -a -P -X -S 2025-01-01 -o JobID,Account,State,Submit,ElapsedRaw,AllocTRES,TimelimitRaw
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gangline.replay.bad_input import BadInputError
from gangline.replay.importers.rows import (
    LeaveOut,
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

_NEED: Final = ("JobID", "State", "Submit")
_GPUS: Final = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_MODEL_GPUS: Final = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d+)")
_CLOCK: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", re.ASCII)
_LIVE: Final = ("RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING")


def read(files: Sequence[Path]) -> Iterator[TraceJob | Left]:
    """The GPU jobs of `sacct` outputs."""
    for path in files:
        rows = table(path, need=_NEED, delimiter="|")
        yield from jobs_of((pair for pair in rows if "." not in pair[1]["JobID"]), _job)


def _job(row: Row) -> TraceJob:
    state = row["State"].split(" ")[0]
    if state in _LIVE:
        raise LeaveOut("not_ended")
    return TraceJob(
        job=row["JobID"],
        team=team_name(row, "Account", "User"),
        submit_ms=epoch_ms(row["Submit"]),
        gpus=_gpus(row.get("AllocTRES", "")) or _gpus(row.get("ReqTRES", "")),
        duration_ms=_elapsed_ms(row),
        status=state,
        limit_ms=_limit_ms(row),
    )


def _gpus(tres: str) -> int:
    """All GPUs of a TRES text; models are listed beside the total, and alone by some versions."""
    total = _GPUS.search(tres)
    return int(total[1]) if total else sum(int(count) for count in _MODEL_GPUS.findall(tres))


def _elapsed_ms(row: Row) -> int:
    if "ElapsedRaw" in row:
        return seconds_ms(row["ElapsedRaw"])
    if "Elapsed" in row:
        return _clock_ms(row["Elapsed"])
    raise BadInputError("sacct", "expected a column ElapsedRaw or Elapsed")


def _limit_ms(row: Row) -> int | None:
    raw, text = row.get("TimelimitRaw", ""), row.get("Timelimit", "")
    if raw.isdigit():
        return whole(raw) * 60_000 or None
    return _clock_ms(text) if _CLOCK.fullmatch(text) else None


def _clock_ms(text: str) -> int:
    """Milliseconds of `D-HH:MM:SS`, `HH:MM:SS` or `MM:SS`."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
