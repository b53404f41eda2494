"""Public traces, as their owners publish them, to trace CSV: one file a format.

Each importer yields jobs and the rows it leaves out, with the reason; `import_trace` sorts, shifts
the first submission to zero, writes, and tells what was left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gangline.replay.bad_input import BadInputError
from gangline.replay.importers import acme, helios, pai, philly, plain_csv, slurm
from gangline.replay.importers.rows import Left
from gangline.replay.traces import TraceJob, write_trace

Importer = Callable[[Sequence[Path]], Iterator[TraceJob | Left]]

FORMATS: Final[Mapping[str, Importer]] = {
    "philly": philly.read,
    "helios": helios.read,
    "acme": acme.read,
    "pai": pai.read,
    "slurm": slurm.read,
    "csv": plain_csv.read,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of a source. kept: jobs written; left_out: rows by reason; first: where."""

    kept: int
    left_out: Mapping[str, int]
    first: Mapping[str, str]

    def lines(self) -> tuple[str, ...]:
        """The outcome for people."""
        rows = sorted(self.left_out.items())
        told = (f"left out {n}: {reason} (the first is {self.first[reason]})" for reason, n in rows)
        return (f"wrote {self.kept} jobs", *told)


def import_trace(source_format: str, files: Sequence[Path], out: Path) -> Imported:
    """Write the jobs of `files` to `out` as trace CSV; raises BadInputError."""
    if source_format not in FORMATS:
        known = ", ".join(FORMATS)
        raise BadInputError(source_format, f"no such format; expected one of {known}")
    if not files:
        raise BadInputError(source_format, "expected at least one file")
    jobs: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in FORMATS[source_format](files):
        if isinstance(row, Left):
            left_out[row.reason] += 1
            first.setdefault(row.reason, row.where)
        else:
            jobs.append(row)
    if not jobs:
        raise BadInputError(files[0], f"no job found that could be written as {source_format}")
    jobs.sort(key=lambda job: job.submit_ms)
    zero = jobs[0].submit_ms
    write_trace(out, (replace(job, submit_ms=job.submit_ms - zero) for job in jobs))
    return Imported(kept=len(jobs), left_out=left_out, first=first)
