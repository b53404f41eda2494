"""`gangline events`: the life of a job, or decisions as they are made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from gangline.cli.completing import job_names
from gangline.cli.connection import connect
from gangline.cli.output import Column, Row, for_people, nodes_in_words, output_options, put

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gangline.client import Client

_EVENTS: Final = tuple(
    Column(name, name.upper()) for name in ("at", "position", "kind", "job", "node", "detail")
)
_SINCE_1970: Final = 10**12
"""Milliseconds beyond this are a time, below it a stretch of time."""


@click.command("events")
@click.argument("job", required=False, shell_complete=job_names)
@click.option("-f", "--follow", is_flag=True, help="Go on as decisions are made.")
@output_options
def command_events(*, job: str | None, follow: bool, output: str | None) -> None:
    """What happened to a job; with -f, decisions (of a job or of all) as they are made.

    Followed, `-o json` writes one object a line: there is no end at which to close a list.
    """
    if job is None and not follow:
        raise click.UsageError("name a job, or follow all decisions with -f")
    with connect() as client:
        rows = _life(client, job, follow=follow)
        if for_people(output):
            for row in rows:
                click.echo(_event_line(row))
        elif follow:
            _put_each(rows, "jsonl" if output == "json" else output)
        else:
            _put(rows, output)


def _put(rows: Iterable[Row], output: str | None) -> None:
    """All rows as data; changes of a reason to wait have no position of their own."""
    shown = (row for row in rows if output != "id" or row["position"])
    put(shown, output=output, columns=_EVENTS, key="position")


def _put_each(rows: Iterable[Row], output: str | None) -> None:
    """Rows as data, each as it comes."""
    if output == "csv":
        _put([], output)
    for row in rows:
        put([row], output=output, columns=_EVENTS, key="position", headed=False)


def _life(client: Client, job: str | None, *, follow: bool) -> Iterator[Row]:
    """Decisions of a job so far, and then as they come."""
    if job is not None and not follow:
        yield from client.pages(client.route("jobs", job, "events"))
        return
    for happening in client.events(job=job or "", after="" if job else "end"):
        if happening is not None:
            yield happening.row


def _event_line(row: Row) -> str:
    """One decision for people."""
    at = str(row["at"])[11:19]
    about = " ".join(str(row[name]) for name in ("job", "node", "team") if row.get(name))
    detail = row.get("detail") or {}
    shown = [
        _said(name, value)
        for name, value in detail.items()
        if isinstance(value, (str, int))
        and (value or name == "code")
        and value != about
        and name not in ("job", "node")
    ]
    if seats := detail.get("seats"):
        shown.append(f"on {nodes_in_words([seat['node'] for seat in seats])}")
    return f"{at} {row['kind']:<22} {about} {' '.join(shown)}".rstrip()


def _said(name: str, value: str | int) -> str:
    """A detail: times as a clock shows them, stretches of time as people write them."""
    from gangline.api.durations import show_ms  # noqa: PLC0415 - standard library only

    if not name.endswith("_ms") or not isinstance(value, int):
        return f"{name}={value}"
    if value > _SINCE_1970:
        value_s = datetime.fromtimestamp(value / 1_000, UTC)
        return f"{name[:-3]}={value_s:%H:%M:%S}"
    return f"{name[:-3]}={show_ms(value)}"
