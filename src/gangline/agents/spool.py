"""Facts on their way to the log, in order, on the disk until the log has them.

A file of records, each with its length and CRC-32; a torn last one (a crash while writing) was
never stated and is cut off. What was delivered is counted in a second file, written after the
delivery: a crash between the two delivers again, under the same ids. No fact is dropped but one
that a newer one replaces (an older checkpoint of the same attempt), and those only when there are
many: so a long outage fills no disk, whatever the programs announce. Heartbeats do not come here
at all.
"""

from __future__ import annotations

import os
import threading
import zlib
from typing import TYPE_CHECKING, Final

from gangline.agents import procfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

_HEADER_BYTES: Final = 8
_COMPACT_BYTES: Final = 1024 * 1024
MOST_BYTES: Final = 16 * 1024 * 1024
"""Beyond this, what newer facts replace is dropped."""


def _by_none(_: bytes) -> str:
    return ""


class Spool:
    """Values in order. `put` and `take`/`done` may be called from two threads.

    about: what a value is the newest word on, empty for one that stands for itself.
    """

    def __init__(
        self,
        folder: Path,
        *,
        about: Callable[[bytes], str] = _by_none,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = folder / "facts"
        self._cursor_path = folder / "delivered"
        self._lock = threading.Lock()
        self._about = about
        self._thin_at_bytes = self._most_bytes = most_bytes
        self._taken = 0
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        records, end = _records(self._path.read_bytes())
        os.ftruncate(self._handle, end)
        os.lseek(self._handle, end, os.SEEK_SET)
        self._end = end
        self._delivered = min(self._read_cursor(), end)
        self._waiting = [(at, value) for at, value in records if at > self._delivered]

    def __len__(self) -> int:
        """How many wait."""
        with self._lock:
            return len(self._waiting)

    def put(self, values: Sequence[bytes]) -> None:
        """Add them at the end; they are on the disk when this returns."""
        if not values:
            return
        with self._lock:
            data, added = _packed(values, after=self._end)
            self._write(data)
            self._end += len(data)
            self._waiting += added
            if self._end - self._delivered > self._thin_at_bytes:
                self._thin()

    def _thin(self) -> None:
        """Drop what newer values replace; what is being delivered now stays.

        The count first, as in `done`: a crash between the two delivers again what is there.
        """
        values = [value for _, value in self._waiting]
        fixed, later = values[: self._taken], values[self._taken :]
        data, kept = _packed([*fixed, *_newest(later, self._about)], after=0)
        self._thin_at_bytes = self._end + self._most_bytes  # a full disk: once more after a while
        if not self._write_cursor(0):
            return
        try:
            procfs.write_whole(self._path, data)
        except OSError:
            return
        os.close(self._handle)
        self._handle = os.open(self._path, os.O_RDWR)
        os.lseek(self._handle, 0, os.SEEK_END)
        self._waiting, self._end, self._delivered = kept, len(data), 0
        self._thin_at_bytes = max(self._most_bytes, 2 * len(data))

    def _write(self, data: bytes) -> None:
        """All of it, or nothing: what a full disk took half of is cut off again."""
        try:
            _write_all(self._handle, data)
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, self._end)
            os.lseek(self._handle, self._end, os.SEEK_SET)
            raise

    def take(self, limit: int) -> list[bytes]:
        """The oldest that wait; they stay until `done`."""
        with self._lock:
            self._taken = min(limit, len(self._waiting))
            return [value for _, value in self._waiting[:limit]]

    def done(self, count: int) -> None:
        """So many of the oldest are in the log."""
        with self._lock:
            self._delivered = self._waiting[count - 1][0] if count else self._delivered
            del self._waiting[:count]
            self._taken = 0
            begin_anew = not self._waiting and self._end > _COMPACT_BYTES
            # The count first: a crash between the two delivers again, which loses nothing.
            if self._write_cursor(0 if begin_anew else self._delivered) and begin_anew:
                os.ftruncate(self._handle, 0)
                os.lseek(self._handle, 0, os.SEEK_SET)
                self._end = self._delivered = 0

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)

    def _read_cursor(self) -> int:
        try:
            return int(self._cursor_path.read_bytes())
        except (OSError, ValueError):
            return 0

    def _write_cursor(self, value: int) -> bool:
        """Whether it could be written; if not, what was delivered is delivered again one day."""
        temporary = self._cursor_path.with_suffix(".new")
        try:
            if (
                value == 0
            ):  # for good: an older, larger count would hide what is written from now on
                procfs.write_whole(self._cursor_path, b"0")
            else:
                temporary.write_bytes(str(value).encode())
                temporary.replace(self._cursor_path)
        except OSError:
            return False
        return True


def _packed(values: Iterable[bytes], *, after: int) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Records of values, and each value with the position after its own."""
    data = bytearray()
    added = []
    for value in values:
        data += len(value).to_bytes(4, "big") + zlib.crc32(value).to_bytes(4, "big")
        data += value
        added.append((after + len(data), value))
    return bytes(data), added


def _newest(values: Sequence[bytes], about: Callable[[bytes], str]) -> list[bytes]:
    """All but those that a later one replaces, in order."""
    seen: set[str] = set()
    kept = []
    for value in reversed(values):
        what = about(value)
        if what not in seen:
            kept.append(value)
        if what:
            seen.add(what)
    return kept[::-1]


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _records(data: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """All whole records with the position after each, and the end of the last."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at + _HEADER_BYTES <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        value = data[at + _HEADER_BYTES : at + _HEADER_BYTES + length]
        checksum = int.from_bytes(data[at + 4 : at + _HEADER_BYTES], "big")
        if len(value) < length or zlib.crc32(value) != checksum:
            break
        at += _HEADER_BYTES + length
        found.append((at, value))
    return found, at
