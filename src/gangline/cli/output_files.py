"""The files that a job's ranks write to, and their lines on our stdout."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.client import Client

LONGEST: Final = 1 << 20
"""Bytes after which a line without an end is shown as it is, and goes on in a line of its own."""


class Wanted(NamedTuple):
    """What is to be shown of a job. rank: only this one. tail: only so many bytes from the end."""

    job: str
    attempt: int
    rank: int | None = None
    tail: int | None = None


@dataclass(slots=True)
class File:
    """A file of an attempt, and how much of it was read.

    prefixed: whether its lines begin with its rank.
    """

    node: str
    name: str
    offset: int = 0
    prefixed: bool = False
    rest: bytes = field(default=b"", repr=False)

    @property
    def rank(self) -> int:
        """Of `rank-3.out`: 3."""
        return int(self.name.partition(".")[0].partition("-")[2])


def listing(client: Client, wanted: Wanted, *, node: str | None = None) -> dict[str, Any]:
    """The files of an attempt, and which nodes do not answer."""
    params = {"attempt": wanted.attempt or None, "node": node}
    path = client.route("jobs", wanted.job, "logs")
    found: dict[str, Any] = client.request("GET", path, params=params)
    return found


def outputs(found: dict[str, Any], rank: int | None) -> list[tuple[File, int]]:
    """The files to show and their sizes, in order of rank; rotated ones are read as parts of them.

    Lines begin with their rank where there are several.
    """
    shown = []
    for each in found["files"]:
        file = File(each["node"], each["file"])
        if each["file"].partition(".")[2] in ("out", "err") and rank in (None, file.rank):
            shown.append((file, int(each["size"])))
    shown.sort(key=lambda one: (one[0].rank, one[0].name.endswith("err")))
    several = len({file.rank for file, _ in shown}) > 1
    for file, _ in shown:
        file.prefixed = several
    return shown


def parts(client: Client, wanted: Wanted, file: File) -> Iterator[tuple[bytes, int]]:
    """What is new of a file, part by part, each with how many bytes before it are not kept."""
    job, attempt = quote(wanted.job, safe=""), wanted.attempt
    path = f"/v1/jobs/{job}/logs/{quote(file.node, safe='')}/{quote(file.name, safe='')}"
    while True:
        data, following = client.read_part(path, attempt=attempt, offset=file.offset)
        gone = following - len(data) - file.offset
        file.offset = following
        if not data:
            return
        yield data, max(0, gone)


def write(file: File, data: bytes = b"", *, last: bool = False) -> None:
    """Whole lines to stdout; a line that is not whole yet waits for its end, up to a length."""
    *lines, file.rest = (file.rest + data).split(b"\n")
    if file.rest and (last or len(file.rest) >= LONGEST):
        lines.append(file.rest)
        file.rest = b""
    prefix = f"{file.rank}| ".encode() if file.prefixed else b""
    for line in lines:
        sys.stdout.buffer.write(prefix + line + b"\n")
    sys.stdout.buffer.flush()


def not_kept(file: File, gone: int) -> str:
    """That rotation was faster than we."""
    return f"{gone:,} bytes of {file.name} on {file.node} are not kept any more"
