"""The processes of a stack: started in the background, found again by number and start time."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gangline.cli.local_process import spawn, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STOP_WITHIN_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process for good: numbers are used again, a number and a start time are not.

    started: ticks since the machine's boot, as /proc states it. boot: the machine's boot id.
    """

    name: str
    pid: int
    started: int
    boot: str

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self.boot == boot() and _start_of(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.alive:
            os.kill(self.pid, number)


def start(name: str, words: Sequence[str], *, log: Path, env: Mapping[str, str]) -> Process:
    """Run `gangline WORDS…` in the background, its output going to the end of `log`."""
    command = [sys.executable, "-m", "gangline.cli.main", *words]
    pid = spawn(command, log=log, env={**os.environ, **env})
    return Process(name=name, pid=pid, started=_start_of(pid), boot=boot())


def stop_all(processes: Sequence[Process], *, within_s: float = _STOP_WITHIN_S) -> None:
    """Ask all of them to end, and kill those that do not in time."""
    for process in processes:
        process.send(signal.SIGTERM)
    wait_until(lambda: not any(p.alive for p in processes), within_s=within_s)
    for process in processes:
        process.send(signal.SIGKILL)
    wait_until(lambda: not any(p.alive for p in processes), within_s=within_s)


def last_words(log: Path) -> str:
    """The last line that a process said."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _start_of(pid: int) -> int:
    """When a process started; 0 for none, and for one that has ended and waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    # The name may hold blanks and brackets; the fields go on after its last closing bracket.
    fields = text[text.rindex(b")") + 2 :].split()
    return 0 if fields[0] in b"ZX" else int(fields[19])


def boot() -> str:
    """The machine's boot id; empty where the system has no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
