"""Progress of long work on stderr: a line that is written over on a terminal, else a few lines."""

from __future__ import annotations

import sys
import time
from typing import Final

_TERMINAL_S: Final = 0.1
_PLAIN_S: Final = 10.0


class Progress:
    """Tells how far something is, not too often. unit: what is counted."""

    def __init__(self, title: str, unit: str, *, total: int | None = None) -> None:
        self._title = title
        self._unit = unit
        self._total = total
        self._terminal = sys.stderr.isatty()
        self._began = self._last = time.monotonic()
        self._shown = False

    def __call__(self, done: int) -> None:
        """So much is done."""
        now = time.monotonic()
        if now - self._last < (_TERMINAL_S if self._terminal else _PLAIN_S):
            return
        self._last = now
        rate = done / max(now - self._began, 1e-9)
        of = f" of {self._total:,}" if self._total else ""
        line = f"{self._title}: {self._bar(done)}{done:,}{of} {self._unit}, {rate:,.0f}/s"
        line += self._left(done, rate)
        self._shown = True
        sys.stderr.write(f"\r\x1b[2K{line}" if self._terminal else f"{line}\n")
        sys.stderr.flush()

    def _left(self, done: int, rate: float) -> str:
        """About how long it will still take, where the end is known."""
        if not self._total or not rate:
            return ""
        minutes, seconds = divmod(round((self._total - done) / rate), 60)
        return f", {minutes}m{seconds:02}s left" if minutes else f", {seconds}s left"

    def _bar(self, done: int) -> str:
        if not (self._terminal and self._total):
            return ""
        full = min(24, 24 * done // self._total)
        return f"[{'█' * full}{'·' * (24 - full)}] "

    def end(self) -> None:
        """Take the line away."""
        if self._terminal and self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
