"""An attempt's own cgroup (v2), where there is one: nobody leaves it, and one write kills it all.

`PARENT/NAME/ranks` holds the ranks and whatever they start; `PARENT/NAME/supervisor` their
supervisor, which must survive that write. Where there is no cgroup, descent and token do the same
work. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def make(parent: Path, name: str, *, most_processes: int) -> Path | None:
    """The two groups of an attempt; None where we may not make them.

    most_processes: its fork bombs hit this before they hit the machine; 0 for no limit.
    """
    group = parent / name
    try:
        for part in ("ranks", "supervisor"):
            (group / part).mkdir(parents=True, exist_ok=True)
            if not os.access(group / part / "cgroup.procs", os.W_OK):
                return None
    except OSError:
        return None
    if most_processes:
        _limit(group, most_processes)
    return group


def is_limited(group: Path) -> bool:
    """Whether the kernel counts its processes: not where it has `pids` elsewhere, or keeps it."""
    try:
        return (group / "ranks/pids.max").read_text().strip().isdecimal()
    except OSError:
        return False


def _limit(group: Path, most_processes: int) -> None:
    with contextlib.suppress(OSError):
        for folder in (group.parent, group):
            (folder / "cgroup.subtree_control").write_text("+pids")
        (group / "ranks/pids.max").write_text(str(most_processes))


def enter(group: str, part: str) -> None:
    """Move this process into a part; children that it starts from now on begin there."""
    if group:
        with contextlib.suppress(OSError):
            Path(group, part, "cgroup.procs").write_text(str(os.getpid()))


def pids(group: str) -> list[int]:
    """Who is in the part of the ranks."""
    if not group:
        return []
    try:
        return [int(word) for word in Path(group, "ranks/cgroup.procs").read_text().split()]
    except OSError:
        return []


def kill(group: str) -> None:
    """Kill everybody in the part of the ranks, whoever is just being forked included."""
    if group:
        with contextlib.suppress(OSError):
            Path(group, "ranks/cgroup.kill").write_text("1")


def remove(group: Path) -> None:
    """Remove the groups of an attempt that is over."""
    for path in (group / "ranks", group / "supervisor", group):
        with contextlib.suppress(OSError):
            path.rmdir()
