"""What a machine needs for any member: room on its disk, memory, and a clock that is right.

The clock is compared with that of the disk that all nodes share: a file is touched there, and the
disk's own clock says when that was. Where the disk is a local one, they are the same.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.agents.settings import AgentSettings

_MEMORY: Final = Path("/proc/meminfo")


def troubles(settings: AgentSettings) -> Iterator[tuple[str, str]]:
    """Kind and detail of each."""
    free = shutil.disk_usage(settings.folder).free
    if free < settings.min_free_bytes:
        yield "disk", f"{free} bytes free under {settings.folder}"
    available = available_bytes(_MEMORY)
    if available is not None and available < settings.min_free_memory_bytes:
        yield "memory", f"{available} bytes of memory are available"
    ahead_s = _ahead_s(settings)
    if abs(ahead_s) > settings.max_skew_s:
        where = "ahead of" if ahead_s > 0 else "behind"
        yield (
            "clock",
            (f"this clock is {abs(ahead_s):.0f} s {where} that of {settings.checkpoint_root}"),
        )


def available_bytes(meminfo: Path) -> int | None:
    """What programs could take without swapping, None where the kernel does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _ahead_s(settings: AgentSettings) -> float:
    """How far this clock is ahead of the shared disk's; 0 where nothing can be written there."""
    probe = settings.checkpoint_root / f".clock-{settings.node}"
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        before_s = time.time()
        touch(probe)
        after_s, there_s = time.time(), probe.stat().st_mtime
    except OSError:
        return 0.0
    # Whatever lies between asking and the answer may be the way, not the clock.
    if before_s <= there_s <= after_s:
        return 0.0
    return before_s - there_s if there_s < before_s else after_s - there_s


def touch(probe: Path) -> None:
    """Let the disk's clock say that it is now."""
    probe.touch()
