"""`gangline logs`: what a job prints."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from gangline.cli.completing import job_names
from gangline.cli.connection import connect
from gangline.cli.output import say

if TYPE_CHECKING:
    from gangline.client import Client

_POLL_S: Final = 0.5
LONGEST: Final = 1 << 20
"""Bytes after which a line without an end is shown as it is, and goes on in a line of its own."""


@dataclass(slots=True)
class _File:
    """A file of an attempt, and how much of it was shown. prefix: where there are several."""

    path: str
    prefix: bytes
    offset: int = 0
    rest: bytes = b""


@click.command("logs")
@click.argument("job", shell_complete=job_names)
@click.option("--attempt", type=click.IntRange(min=1), help="[default: the last one]")
@click.option("--rank", type=click.IntRange(min=0), help="Only this rank's output.")
@click.option("--tail", type=click.IntRange(min=0), help="Only so many bytes from the end.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the attempt has ended.")
def command_logs(
    *, job: str, attempt: int | None, rank: int | None, tail: int | None, follow: bool
) -> None:
    """What a job prints; each line begins with its rank where there are several."""
    with connect() as client:
        _show_all(client, job, attempt, rank=rank, tail=tail, to_the_end=follow)


def follow(client: Client, job: str, *, attempt: int) -> None:
    """Show what an attempt prints until it has ended."""
    _show_all(client, job, attempt, to_the_end=True)


def _show_all(
    client: Client,
    job: str,
    attempt: int | None,
    *,
    rank: int | None = None,
    tail: int | None = None,
    to_the_end: bool,
) -> None:
    listing = _listing(client, job, attempt)
    files = _files(listing, rank, tail)
    if not files and not to_the_end:
        say(_nothing(listing, rank))
    while True:
        ended = listing["state"] in ("ended", "aborted")
        for file in files:
            _show(client, file, listing["attempt"])
        if ended or not to_the_end:
            break
        time.sleep(_POLL_S)
        listing = _listing(client, job, listing["attempt"])
        known = {file.path for file in files}
        files += [file for file in _files(listing, rank, None) if file.path not in known]
    for file in files:
        _write(file, b"", last=True)


def _nothing(listing: dict[str, Any], rank: int | None) -> str:
    """Why there is nothing to show."""
    if rank is not None and listing["files"]:
        return f"attempt {listing['attempt']} of {listing['job']} has no output of a rank {rank}"
    return f"{listing['job']} has printed nothing yet"


def _listing(client: Client, job: str, attempt: int | None) -> dict[str, Any]:
    found: dict[str, Any] = client.request(
        "GET", client.route("jobs", job, "logs"), params={"attempt": attempt}
    )
    return found


def _files(listing: dict[str, Any], rank: int | None, tail: int | None) -> list[_File]:
    """The files to show, in order of rank; rotated ones are left alone."""
    job = quote(listing["job"], safe="")
    shown = []
    for each in listing["files"]:
        name, _, stream = each["file"].partition(".")
        number = int(name.partition("-")[2])
        if stream in ("out", "err") and rank in (None, number):
            start = max(0, each["size"] - tail) if tail is not None else 0
            path = f"/v1/jobs/{job}/logs/{each['node']}/{each['file']}"
            shown.append((number, stream, _File(path, f"{number}| ".encode(), start)))
    shown.sort(key=lambda one: one[:2])
    if len({number for number, _, _ in shown}) <= 1:
        for _, _, file in shown:
            file.prefix = b""
    return [file for _, _, file in shown]


def _show(client: Client, file: _File, attempt: int) -> None:
    """What is new of a file."""
    while True:
        data, following = client.read_part(file.path, attempt=attempt, offset=file.offset)
        file.offset = following
        _write(file, data, last=False)
        if not data:
            return


def _write(file: _File, data: bytes, *, last: bool) -> None:
    """Whole lines to stdout; a line that is not whole yet waits for its end, up to a length."""
    *lines, file.rest = (file.rest + data).split(b"\n")
    if file.rest and (last or len(file.rest) >= LONGEST):
        lines.append(file.rest)
        file.rest = b""
    for line in lines:
        sys.stdout.buffer.write(file.prefix + line + b"\n")
    sys.stdout.buffer.flush()
