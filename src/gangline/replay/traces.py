"""Traces of jobs: the CSV files that a simulation runs.

One job a row, header `job_id,team,submit_s,gpus,duration_s,status`, optionally with `priority`,
`checkpoint_s`, `limit_s`, `gpus_per_node` and `topology`. A file whose header is wrong is refused;
a row that cannot be a job is left out, counted by reason, and the first of each reason is named by
its line, so that nothing disappears silently.

Jobs come back in order of submission; rows of the same instant keep the order of the file.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Final

from gangline.events.spec import JobClass, Topology, TopologyKind
from gangline.replay.bad_input import BadInputError
from gangline.scheduler.core.names import is_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

REQUIRED: Final = ("job_id", "team", "submit_s", "gpus", "duration_s", "status")
OPTIONAL: Final = ("priority", "checkpoint_s", "limit_s", "gpus_per_node", "topology")
NO_TEAM: Final = "unnamed"
_LARGEST: Final = 10**12
_MOST_DIGITS: Final = 12
_EMPTY: Final = dict.fromkeys((*REQUIRED, *OPTIONAL), "")
_ANYWHERE: Final = Topology()


class LeftOut(StrEnum):
    """Why a row is not simulated; the first that holds."""

    UNREADABLE = "unreadable"
    BAD_NAME = "bad_name"
    NO_GPUS = "no_gpus"
    NO_DURATION = "no_duration"
    NEGATIVE_DURATION = "negative_duration"
    REPEATED_ID = "repeated_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job of a trace. Times are milliseconds; submit_ms counts from the trace's own zero.

    duration_ms: how long it really works. checkpoint_ms: 0 when it cannot checkpoint, None when the
    row says nothing. limit_ms: the declared maximum, None for none. status: what the source says.
    """

    job: str
    team: str
    submit_ms: int
    gpus: int
    duration_ms: int
    status: str
    job_class: JobClass = JobClass.NORMAL
    checkpoint_ms: int | None = None
    limit_ms: int | None = None
    gpus_per_node: int | None = None
    topology: Topology = field(default_factory=Topology)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The jobs of a file. left_out: rows by reason; first_line: where the first of each stands."""

    jobs: tuple[TraceJob, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    first_line: Mapping[str, int] = field(default_factory=dict)

    def left_out_lines(self) -> tuple[str, ...]:
        """The rows left out, told for people, one line a reason."""
        return tuple(
            f"left out {count} rows: {reason} (the first is line {self.first_line[reason]})"
            for reason, count in sorted(self.left_out.items())
        )


def read_trace(path: Path, *, limit_jobs: int | None = None) -> Trace:
    """The jobs of a CSV file, plain or gzip, at most `limit_jobs`; raises BadInputError."""
    jobs: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    first_line: dict[str, int] = {}
    seen: set[str] = set()
    for line, row in _rows(path):
        job = _job(row)
        if isinstance(job, TraceJob) and job.job in seen:
            job = LeftOut.REPEATED_ID
        if isinstance(job, LeftOut):
            left_out[job.value] += 1
            first_line.setdefault(job.value, line)
            continue
        seen.add(job.job)
        jobs.append(job)
    jobs.sort(key=lambda job: job.submit_ms)
    return Trace(jobs=tuple(jobs[:limit_jobs]), left_out=left_out, first_line=first_line)


def write_trace(path: Path, jobs: Iterable[TraceJob]) -> None:
    """Write jobs as CSV (gzip when the name ends in `.gz`), with only the optional columns used."""
    rows = list(jobs)
    columns = (*REQUIRED, *(name for name in OPTIONAL if any(_text(job, name) for job in rows)))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(job, name) for name in columns] for job in rows)
    data = text.getvalue().encode()
    # No time in the gzip header: the same jobs give the same bytes.
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


UNREADABLE: Final = (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error, RecursionError)
"""What files that are cut off, damaged or of another kind raise while they are read."""


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """A text file for reading, through gzip when its name ends in `.gz`.

    Raises BadInputError, also for what turns out to be wrong while it is read.
    """
    with _opened(path) as file:
        try:
            yield file
        except UNREADABLE as error:
            raise BadInputError(path, f"cannot be read as text: {error}") from error


def _opened(path: Path) -> IO[str]:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        return path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise BadInputError(path, f"cannot be opened: {error.strerror}") from error


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Each row's line and its texts by column; what a row lacks is empty."""
    with open_text(path) as file:
        reader = csv.reader(file)
        try:
            header = next(reader, [])
            missing = [name for name in REQUIRED if name not in header]
            if missing:
                wanted = ",".join(REQUIRED)
                raise BadInputError(
                    f"{path}:1", f"expected the header {wanted}, lacks {missing[0]}"
                )
            for row in reader:
                if row:
                    texts = zip(header, map(str.strip, row), strict=False)
                    yield reader.line_num, _EMPTY | dict(texts)
        except UNREADABLE as error:
            raise BadInputError(
                f"{path}:{reader.line_num + 1}", f"not CSV text: {error}"
            ) from error


def _job(text: Mapping[str, str]) -> TraceJob | LeftOut:
    """The job of a row, or why there is none."""
    try:
        gpus = _whole(text["gpus"] or "0")
        duration_ms = _milliseconds(text["duration_s"] or "0")
        job = TraceJob(
            job=text["job_id"],
            team=text["team"] or NO_TEAM,
            submit_ms=_at_least(_milliseconds(text["submit_s"]), 0),
            gpus=gpus,
            duration_ms=duration_ms,
            status=text["status"],
            job_class=JobClass[(text["priority"] or "normal").upper()],
            checkpoint_ms=_optional_ms(text["checkpoint_s"]),
            limit_ms=_optional_ms(text["limit_s"]) or None,
            gpus_per_node=_whole(text["gpus_per_node"]) if text["gpus_per_node"] else None,
            topology=parse_topology(text["topology"]),
        )
    except (ValueError, KeyError, ArithmeticError):
        return LeftOut.UNREADABLE
    if not is_name(job.job) or not is_name(job.team):
        return LeftOut.BAD_NAME
    if gpus <= 0:
        return LeftOut.NO_GPUS
    if duration_ms < 0:
        return LeftOut.NEGATIVE_DURATION
    return job if duration_ms else LeftOut.NO_DURATION


def parse_topology(text: str) -> Topology:
    """`any`, `preferred:LEVEL` or `required:LEVEL`; raises ValueError."""
    if not text:
        return _ANYWHERE
    kind, _, level = text.partition(":")
    if (kind == "any") == bool(level):
        raise ValueError(text)
    return Topology(kind=TopologyKind(kind), level=level)


def _whole(text: str) -> int:
    """A whole number; `8.0` is one too, as spreadsheets write it."""
    if text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS:
        return int(text)
    number = _decimal(text)
    if number != int(number):
        raise ValueError(text)
    return int(number)


def _milliseconds(text: str) -> int:
    if text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS:
        return int(text) * 1000
    return int((_decimal(text) * 1000).to_integral_value())


def _decimal(text: str) -> Decimal:
    """A number of a size that makes sense; `1e999999999` would fill the memory as an integer."""
    number = Decimal(text)
    if not number.is_finite() or abs(number) > _LARGEST:
        raise ValueError(text)
    return number


def _optional_ms(text: str) -> int | None:
    return _at_least(_milliseconds(text), 0) if text else None


def _at_least(number: int, least: int) -> int:
    if number < least:
        raise ValueError(number)
    return number


def _text(job: TraceJob, column: str) -> str:
    """What stands in a column of a job's row; empty for what is usual."""
    values: dict[str, str] = {
        "job_id": job.job,
        "team": job.team,
        "submit_s": _seconds(job.submit_ms),
        "gpus": str(job.gpus),
        "duration_s": _seconds(job.duration_ms),
        "status": job.status,
        "priority": "" if job.job_class is JobClass.NORMAL else job.job_class.word,
        "checkpoint_s": _seconds(job.checkpoint_ms),
        "limit_s": _seconds(job.limit_ms),
        "gpus_per_node": "" if job.gpus_per_node is None else str(job.gpus_per_node),
        "topology": _topology_text(job.topology),
    }
    return values[column]


def _topology_text(topology: Topology) -> str:
    if topology.kind is TopologyKind.ANY:
        return ""
    return f"{topology.kind.value}:{topology.level}"


def _seconds(milliseconds: int | None) -> str:
    """Seconds as short as they can be written exactly."""
    if milliseconds is None:
        return ""
    whole, rest = divmod(milliseconds, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def teams_of(jobs: Sequence[TraceJob]) -> tuple[str, ...]:
    """The teams that submit, in the order of their first submission."""
    return tuple(dict.fromkeys(job.team for job in jobs))
