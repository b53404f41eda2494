"""Which process is which: what /proc says, and signals that cannot hit a stranger.

A pid alone names nobody: it is used again after its process is gone. A process is named by the
machine's boot id, its pid and its start time; what belongs to an attempt is found by the token in
its environment, which children inherit, and by descent from the attempt's supervisor, which is
their reaper. Signals go through a pidfd that is checked again after it was opened. Standard
library only: the supervisor imports this too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TOKEN_VARIABLE: Final = "GANGLINE_ATTEMPT_TOKEN"  # noqa: S105 - the name of it, not one
_PR_SET_CHILD_SUBREAPER: Final = 36
_WHOLE_GROUP: Final = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP
_PROC: Final = Path("/proc")
DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a disk says that will take more when somebody has made room."""


def ready(handles: Iterable[int], timeout_s: float) -> bool:
    """Whether one of these can be read, or has ended, within the time.

    By `poll`: `select` refuses numbers from 1,024 on, and a node that many people watch has those.
    """
    poller = select.poll()
    for handle in handles:
        poller.register(handle, select.POLLIN)
    return bool(poller.poll(math.ceil(timeout_s * 1000)))


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for good.

    Boot_id: of the machine. start_ticks: since boot, as /proc states it.
    """

    boot_id: str
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class Stat:
    """What matters of /proc/PID/stat. state: a letter, `Z` for a zombie."""

    pid: int
    state: str
    parent: int
    start_ticks: int


def boot_id() -> str:
    """The machine's boot: another one means that every process of before is gone."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def boot_ms() -> int:
    """Milliseconds since the machine's boot, sleep included: the clock that outlives the agent."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def stat(pid: int) -> Stat | None:
    """What /proc says of a process, None when there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name may hold blanks and brackets; the fields go on after its last closing bracket.
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(pid, fields[0].decode(), int(fields[1]), int(fields[19]))


def identity(pid: int) -> Identity | None:
    """Who has this pid now, None for nobody (a zombie is nobody)."""
    found = stat(pid)
    if found is None or found.state in "ZX":
        return None
    return Identity(boot_id(), pid, found.start_ticks)


def myself() -> Identity:
    """Who we are."""
    found = stat(os.getpid())
    if found is None:
        raise OSError("/proc does not show this process")
    return Identity(boot_id(), found.pid, found.start_ticks)


def pids() -> Iterator[int]:
    """All processes of the machine that we can see, lowest pid first."""
    return iter(sorted(int(name) for name in os.listdir(_PROC) if name.isdecimal()))  # noqa: PTH208


def has_token(pid: int, token: str) -> bool:
    """Whether a process carries this token in its environment; False where we may not look."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"{TOKEN_VARIABLE}={token}".encode() in environment.split(b"\0")


def token_of(pid: int) -> str:
    """The token that a process carries, empty for none."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return ""
    prefix = f"{TOKEN_VARIABLE}=".encode()
    found = (part for part in environment.split(b"\0") if part.startswith(prefix))
    return next(found, prefix)[len(prefix) :].decode(errors="replace")


def command(pid: int) -> list[str]:
    """The words of its command line, empty for nobody."""
    try:
        text = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode(errors="replace") for word in text.split(b"\0")[:-1]]


def with_token(token: str) -> list[int]:
    """Everybody who carries this token, but ourselves. Zombies carry nothing any more."""
    return [pid for pid in pids() if pid != os.getpid() and has_token(pid, token)]


def tokens() -> dict[str, list[int]]:
    """All tokens that processes of this machine carry, with who carries each."""
    found: dict[str, list[int]] = {}
    for pid in pids():
        token = token_of(pid)
        if token and pid != os.getpid():
            found.setdefault(token, []).append(pid)
    return found


def descendants(root: int) -> list[int]:
    """Everybody below a process, its own unreaped children included."""
    children: dict[int, list[int]] = {}
    for found in filter(None, map(stat, pids())):
        if found.state not in "ZX" or found.parent == root:
            children.setdefault(found.parent, []).append(found.pid)
    below: list[int] = []
    waiting = [root]
    while waiting:
        mine = children.get(waiting.pop(), [])
        below += mine
        waiting += mine
    return sorted(below)


def send(pid: int, number: int, *, still: Callable[[int], bool]) -> bool:
    """Signal a process through a pidfd, if it is `still` who we mean once that is open.

    True if it was sent.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not still(pid):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def send_all(targets: Iterable[int], number: int, *, still: Callable[[int], bool]) -> int:
    """Signal many; how many it was sent to."""
    return sum(send(pid, number, still=still) for pid in targets)


def kill_groups(leaders: Iterable[int]) -> None:
    """Kill process groups whole, whoever is just being forked too. leaders: pidfds of theirs.

    A pidfd names its group for good, also when the leader is gone; kernels before 6.9 refuse.
    """
    for handle in leaders:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL, None, _WHOLE_GROUP)


def open_identity(who: Identity) -> int | None:
    """A pidfd of exactly this process, None when it is gone; the caller closes it."""
    if who.boot_id != boot_id():
        return None
    try:
        handle = os.pidfd_open(who.pid)
    except OSError:
        return None
    if identity(who.pid) != who:
        os.close(handle)
        return None
    return handle


def become_subreaper() -> None:
    """Orphans below this process become its children instead of init's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def write_whole(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put a file there whole or not at all, and for good.

    Temporary file, fsync, rename, fsync of the folder.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    # Others may write into the folder of a job: what they left under this name is not followed.
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(handle, mode)
        file.write(data)
        file.flush()
        os.fsync(handle)
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
