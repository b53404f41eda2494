"""What the importers share: reading tables and times, and saying what is left out."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gangline.replay.bad_input import BadInputError
from gangline.replay.traces import NO_TEAM, UNREADABLE, TraceJob, open_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Left:
    """A row that is no job of ours. where: file and line, or the source's id."""

    reason: str
    where: str


class LeaveOut(Exception):  # noqa: N818 (control flow inside one importer, not an error)
    """A row is left out; the message is the reason."""


def table(
    path: Path, *, need: Sequence[str] = (), delimiter: str = ",", header: Sequence[str] = ()
) -> Iterator[tuple[str, Row]]:
    """The rows of a table with where they stand; `header` where the file has none of its own."""
    with open_text(path) as file:
        reader = csv.DictReader(
            file, fieldnames=list(header) or None, delimiter=delimiter, restkey="", restval=""
        )
        try:
            lacking = [name for name in need if name not in (reader.fieldnames or ())]
            if lacking:
                raise BadInputError(f"{path}:1", f"expected a column {lacking[0]}")
            for row in reader:
                texts = {key: (value or "").strip() for key, value in row.items() if key}
                yield f"{path.name}:{reader.line_num}", texts
        except UNREADABLE as error:
            raise BadInputError(f"{path}:{reader.line_num + 1}", f"not a table: {error}") from error


def jobs_of(
    rows: Iterator[tuple[str, Row]], job: Callable[[Row], TraceJob]
) -> Iterator[TraceJob | Left]:
    """Each row's job, or why there is none."""
    for where, row in rows:
        try:
            yield checked(job(row))
        except LeaveOut as reason:
            yield Left(str(reason), where)
        except (ValueError, ArithmeticError):
            yield Left("unreadable", where)


def checked(job: TraceJob) -> TraceJob:
    """The job if it can be simulated; raises LeaveOut."""
    if not job.job:
        raise LeaveOut("no_id")
    if job.gpus <= 0:
        raise LeaveOut("no_gpus")
    if job.duration_ms < 0:
        raise LeaveOut("negative_duration")
    if job.duration_ms == 0:
        raise LeaveOut("no_duration")
    return job


def epoch_ms(text: str) -> int:
    """Milliseconds of a time as the sources write it; without a zone it counts as UTC."""
    if not text:
        raise LeaveOut("no_time")
    moment = datetime.fromisoformat(text)
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def whole(text: str) -> int:
    """A whole number; `8.0` is one, an empty text is 0."""
    return int(number(text))


def number(text: str) -> Decimal:
    """A finite number of a size that makes sense; an empty text is 0."""
    value = Decimal(text or "0")
    if not value.is_finite() or abs(value) > 10**12:
        raise ValueError(text)
    return value


def seconds_ms(text: str) -> int:
    """Milliseconds of a text of seconds."""
    return int(number(text) * 1000)


def team_name(row: Mapping[str, str], *columns: str) -> str:
    """The first of these columns that says something, as a name: without spaces."""
    return "-".join(next((row[name] for name in columns if row.get(name)), NO_TEAM).split())
