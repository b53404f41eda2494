"""Wall time and processor time of this process together with a Postgres backend of this machine.

Where other work shares the machine, processor time says more: the projector and its backend take
turns, so that each turn waits for a processor, while a COPY streams.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Spent(NamedTuple):
    """Seconds. cpu_s: None where the server is another machine's."""

    wall_s: float
    cpu_s: float | None

    def since(self, before: Spent) -> Spent:
        """What was spent between two readings."""
        both = self.cpu_s is not None and before.cpu_s is not None
        cpu_s = self.cpu_s - before.cpu_s if both else None  # type: ignore[operator]
        return Spent(self.wall_s - before.wall_s, cpu_s)

    def plus(self, other: Spent) -> Spent:
        """Both together."""
        both = self.cpu_s is not None and other.cpu_s is not None
        cpu_s = self.cpu_s + other.cpu_s if both else None  # type: ignore[operator]
        return Spent(self.wall_s + other.wall_s, cpu_s)


@dataclass(frozen=True, slots=True)
class Clock:
    """For one backend, by its process id as the server says it."""

    pid: int

    def read(self) -> Spent:
        """Both times now."""
        backend_s = self._backend_s()
        cpu_s = None if backend_s is None else time.process_time() + backend_s
        return Spent(time.perf_counter(), cpu_s)

    def _backend_s(self) -> float | None:
        """By the kernel's scheduler; None where there is no such process of Postgres here."""
        place = Path("/proc") / str(self.pid)
        try:
            if b"postgres" not in (place / "cmdline").read_bytes():
                return None
            return int((place / "schedstat").read_text().split()[0]) / 1e9
        except (OSError, IndexError, ValueError):
            return None
