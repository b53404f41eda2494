"""Rotating the output of programs that keep their file open: copy, then cut.

The programs write with O_APPEND, so that after the cut they go on at the beginning. What they
write between the copy and the cut is lost; that is some microseconds once in a log's length.
How many bytes were cut away in all stands in `FILE.cut`: with it a reader counts from the first
byte that was ever written, and no rotation makes it read a line twice or none (`kept`).
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DIGITS: Final = 20


class Part(NamedTuple):
    """One kept file of an output. begins: of all bytes ever written, which is its first one."""

    path: Path
    begins: int
    size: int


def rotate(path: Path, *, above: int, keep: int) -> bool:
    """Move the content to `path.1` (that to `.2`, …) if it is longer than `above` bytes."""
    try:
        size = path.stat().st_size
    except OSError:
        return False
    if size <= above:
        return False
    before = cut_bytes(path)
    _note(path, before or 0)  # whoever reads between the cut and its note is not to begin anew
    try:
        _shift(path, keep)
        size = _move(path)
    except OSError:  # a full disk: cutting is what helps
        path.with_name(f"{path.name}.1").unlink(missing_ok=True)
        os.truncate(path, 0)
    _note(path, (before or 0) + size)
    return True


def cut_bytes(path: Path) -> int | None:
    """How many bytes were cut away of an output so far; None where nobody has noted that."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.with_name(f"{path.name}.cut").read_bytes())
    return None


def kept(path: Path) -> Iterator[Part]:
    """What there is of an output, the newest first. OSError where there is no such file."""
    cut = cut_bytes(path)
    size = path.stat().st_size
    begins = cut or 0
    yield Part(path, begins, size)
    number = 1
    while begins > 0:
        older = path.with_name(f"{path.name}.{number}")
        if not older.exists():
            return
        size = older.stat().st_size
        begins -= size
        yield Part(older, begins, size)
        number += 1


def _shift(path: Path, keep: int) -> None:
    for number in range(keep, 1, -1):
        older, newer = (path.with_name(f"{path.name}.{each}") for each in (number, number - 1))
        if newer.exists():
            newer.replace(older)
        else:
            older.unlink(missing_ok=True)


def _move(path: Path) -> int:
    """Copy everything to `path.1` and cut at once; how many bytes."""
    with path.open("r+b") as source, path.with_name(f"{path.name}.1").open("wb") as copy:
        shutil.copyfileobj(source, copy)
        copied = source.tell()
        os.ftruncate(source.fileno(), 0)
    return copied


def _note(path: Path, cut: int) -> None:
    """Always so many digits, in place: that needs no room on a full disk, but for the first."""
    with contextlib.suppress(OSError):
        note = path.with_name(f"{path.name}.cut")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(note, flags, 0o644)
        try:
            os.pwrite(handle, b"%0*d" % (_DIGITS, cut), 0)
        finally:
            os.close(handle)
