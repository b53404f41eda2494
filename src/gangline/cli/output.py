"""Data on stdout in the form asked for: a table for people, JSON, CSV or ids for programs."""

from __future__ import annotations

import csv
import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

FORMATS: Final = ("table", "wide", "json", "jsonl", "csv", "id")
Row = Mapping[str, Any]
_FEW: Final = 3
_GAP: Final = "  "
_SENTENCE: Final = 24
"""So narrow may a column of sentences become on a terminal."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. show: how a value is written; wide: only with `-o wide`."""

    name: str
    title: str
    show: Callable[[Any], str] = lambda value: "" if value is None else str(value)
    right: bool = False
    wide: bool = False


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`-o FORMAT` and `--json`, as the argument `output`."""
    function = click.option(
        "--json", "output", flag_value="json", default=None, help="The same as -o json."
    )(function)
    return click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice(FORMATS),
        default=None,
        help="How to write the data. [default: table]",
    )(function)


def pairs(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Values of an option `KEY=VALUE` as a mapping."""
    pairs = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{value!r} is not KEY=VALUE", param=parameter)
        pairs[name] = rest
    return pairs


def styled(text: str, **how: Any) -> str:  # noqa: ANN401 - as click.style takes it
    """A text in colour or bold where nobody has asked for none; a pipe gets it plain anyway."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **how)


def say(words: str) -> None:
    """Words for people, on stderr."""
    click.echo(words, err=True)


def for_people(output: str | None) -> bool:
    """Whether `-o` asks for a table, or nobody asks for anything."""
    return output in (None, "table", "wide")


def put(
    rows: Iterable[Row],
    *,
    output: str | None,
    columns: Sequence[Column],
    key: str,
    headed: bool = True,
) -> None:
    """Rows on stdout. key: the column that `-o id` writes. headed: whether CSV begins here."""
    chosen = output or "table"
    if chosen == "jsonl":
        for row in rows:
            click.echo(_json(row))
        return
    listed = list(rows)
    if chosen == "json":
        click.echo(_json(listed, indent=1))
    elif chosen == "id":
        for row in listed:
            click.echo(str(row[key]))
    elif chosen == "csv":
        _csv(listed, columns, headed=headed)
    else:
        _table(listed, [c for c in columns if chosen == "wide" or not c.wide])


def put_one(
    row: Row, *, output: str | None, key: str, text: Callable[[Row], Iterable[str]]
) -> None:
    """One thing on stdout. text: the lines for people."""
    if output in ("json", "jsonl"):
        click.echo(_json(row, indent=1 if output == "json" else None))
    elif output == "id":
        click.echo(str(row[key]))
    elif output == "csv":
        _csv([row], [Column(name, name) for name in row])
    else:
        for line in text(row):
            click.echo(line)


def nodes_in_words(names: Sequence[str]) -> str:
    """A few nodes by their names; many as Slurm writes them, `n[0-7,9]`, in their order."""
    if len(names) <= _FEW:
        return ", ".join(names)
    from gangline.agents import hostlist  # noqa: PLC0415 - large gangs only

    return f"{len(names)} nodes: {hostlist.compress(names)}"


def _json(value: Any, *, indent: int | None = None) -> str:  # noqa: ANN401
    return json.dumps(value, indent=indent, default=str, ensure_ascii=False)


def _csv(rows: Sequence[Row], columns: Sequence[Column], *, headed: bool = True) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if headed:
        writer.writerow([column.name for column in columns])
    for row in rows:
        values = (row.get(column.name) for column in columns)
        writer.writerow([_json(v) if isinstance(v, (dict, list)) else v for v in values])


def _table(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    cells = [[column.show(row.get(column.name)) for column in columns] for row in rows]
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        _rich_table(cells, columns)
    else:
        _plain_table(cells, columns)


def _plain_table(cells: Sequence[Sequence[str]], columns: Sequence[Column]) -> None:
    """Aligned columns, for pipes and files; the last column is as long as it is."""
    titles = [column.title for column in columns]
    widths = [max(map(places, column)) for column in zip(titles, *cells, strict=True)]
    for line in (titles, *cells):
        shown = (
            padded(text, width, right=column.right)
            for text, width, column in zip(line, widths, columns, strict=True)
        )
        click.echo(_GAP.join(shown).rstrip())


def places(text: str) -> int:
    """How many places of a terminal a text takes: signs of the East take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def padded(text: str, width: int, *, right: bool = False) -> str:
    """A text with blanks to so many places; what is too long for them is cut."""
    while places(text) > width:
        text = text[:-1]
    blanks = " " * (width - places(text))
    return blanks + text if right else text + blanks


def _rich_table(cells: Sequence[Sequence[str]], columns: Sequence[Column]) -> None:
    """The same for a terminal: sentences are fitted to its width; a name in pieces is no name."""
    from rich.cells import cell_len  # noqa: PLC0415 - costs 20 ms, and only terminals need it
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    least = -len(_GAP)
    for place, column in enumerate(columns):
        texts = [column.title, *(line[place] for line in cells)]
        width = max(map(cell_len, texts))
        folds = width > _SENTENCE and any(" " in text for text in texts)
        least += len(_GAP) + (_SENTENCE if folds else width)
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=not folds,
            min_width=_SENTENCE if folds else width,
        )
    for line in cells:
        table.add_row(*(Text(text, style=_STYLES.get(text, "")) for text in line))
    console = Console()
    if least > console.width:
        _plain_table(cells, columns)  # the terminal breaks its lines
    else:
        console.print(table)


_STYLES: Final = {
    "running": "green",
    "succeeded": "green",
    "well": "green",
    "failed": "red",
    "rejected": "red",
    "lost": "red",
    "quarantined": "red",
    "suspected": "yellow",
    "preempting": "yellow",
    "cordoned": "yellow",
    "draining": "yellow",
    "maintenance": "yellow",
}


def seconds(value: float | None) -> str:
    """A stretch of time, `1h30m`; empty for none."""
    if value is None:
        return ""
    left, parts = max(0, round(value)), []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"


def ago(moment: str | None) -> str:
    """How long ago a time was, or how far ahead it is; empty for none."""
    if not moment:
        return ""
    passed = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    return f"in {seconds(-passed)}" if passed < -1 else seconds(passed)


def ahead(moment: str | None) -> str:
    """How far ahead a time is, `now` where it is over; empty for none."""
    words = ago(moment)
    return words if words.startswith("in ") or not words else "now"
