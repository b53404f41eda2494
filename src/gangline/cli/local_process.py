"""Servers that this machine runs for us: how they are started, found again, and ended.

Theory of operation. A server belongs to a folder. Whoever knows the folder can find, use and stop
the server; nobody has to be its parent. Three things make that safe:

- a lock file in the folder, so that two starters do not start two servers;
- the identity of a process is its number *and* a word of its command line that names the folder,
  as numbers are used again;
- `Lifetime`: a server outlives its starter (`gangline up`), or a guard process ends it when the
  starter is gone, however that happened (demo and tests).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import secrets
import signal
import socket
import subprocess
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_POLL_S = 0.02
_PORTS = range(20_000, 32_000)
# What the lines of a log that say why a server ended have in them: Postgres, Java.
_COMPLAINTS = ("FATAL:", "initdb: error:", "Caused by:", " ERROR ", "Exception")
_GUARD = """
import os, sys
sys.stdin.buffer.read()
try: os.kill(int(sys.argv[1]), int(sys.argv[2]))
except ProcessLookupError: pass
"""


class LocalServerError(Exception):
    """A server could not be started or stopped; the message says which, and what would help."""


class Lifetime(StrEnum):
    """How long a server runs: until it is stopped, or at most as long as its starter."""

    UNTIL_STOPPED = "until-stopped"
    WITH_STARTER = "with-starter"


def free_port() -> int:
    """Find a TCP port of the loopback address that nobody listens on at the moment.

    It lies below the ports that the system hands to clients. On one of those, a server's client
    that knocks before the server listens may be given that very port, be connected to itself, and
    keep the server from ever listening there.
    """
    while True:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        if port_is_free(port):
            return port


def port_is_free(port: int) -> bool:
    """Tell whether a server could listen on this port of the loopback address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def folder_lock(directory: Path) -> Iterator[None]:
    """Hold the folder against other starters and stoppers, in this process or another."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_ours(pid: int, word: str) -> bool:
    """Tell whether process `pid` runs and has `word` in its command line.

    A child of this process needs no such word: its number is its own until we have reaped it, and
    its command line is empty for an instant after it was started. Where the system has no /proc, a
    running process of that number is taken for ours.
    """
    child = _children.get(pid)
    if child is not None and child.poll() is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs, as somebody else
    if not Path("/proc/self/cmdline").exists():
        return True
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return word.encode() in command  # empty for a zombie: it has ended


def wait_until(condition: Callable[[], bool], *, within_s: float) -> bool:
    """Poll until the condition holds; False when it did not within so many seconds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def end(pid: int, word: str, *, with_signal: signal.Signals, within_s: float) -> None:
    """Ask a process to end, and kill it when it does not within so many seconds."""
    for number, patience_s in ((with_signal, within_s), (signal.SIGKILL, 10.0)):
        if not is_ours(pid, word):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if wait_until(lambda: not is_ours(pid, word), within_s=patience_s):
            return
    raise LocalServerError(f"process {pid} ({word}) does not end, not even by SIGKILL")


def spawn(
    command: Sequence[str], *, log: Path, env: Mapping[str, str], user: int | None = None
) -> int:
    """Start a server in a session of its own, its output going to the end of `log`.

    user: the number of the account it runs as, if not ours. Returns its process id.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env=dict(env),
            user=user,
            group=group_of(user),
            extra_groups=None if user is None else [],
        )
    _children[child.pid] = child
    return child.pid


def group_of(user: int | None) -> int | None:
    """Find the main group of an account; None for our own account."""
    return None if user is None else int(pwd.getpwuid(user).pw_gid)


def guard(pid: int, *, with_signal: signal.Signals) -> None:
    """See to it that `pid` gets the signal as soon as this process has ended, even by SIGKILL.

    The guard is a process that waits for the end of a pipe whose other end only this process
    holds. `dismiss_guard` ends it when the server is stopped in the ordinary way.
    """
    _guards[pid] = subprocess.Popen(
        [sys.executable, "-I", "-c", _GUARD, str(pid), str(int(with_signal))],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss_guard(pid: int) -> None:
    """End the guard of a process that has been stopped, if there is one."""
    watcher = _guards.pop(pid, None)
    if watcher is None:
        return
    watcher.kill()
    watcher.wait()
    if watcher.stdin is not None:
        watcher.stdin.close()


# Kept, also when they have ended: a Popen that is dropped while its process runs complains.
_children: dict[int, subprocess.Popen[bytes]] = {}
_guards: dict[int, subprocess.Popen[bytes]] = {}


def complaint(log: Path) -> str:
    """Find the line of a server's log that says why it ended, for an error's message."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "no log"
    said = [line.strip() for line in lines if line.strip()]
    causes = [line for line in said if any(word in line for word in _COMPLAINTS)]
    return (causes or said or ["empty log"])[-1]
