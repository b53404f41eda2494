"""Reading what a job's own user may have put there: anything at all.

A link that leads elsewhere, a pipe that nobody writes to, a file without end, JSON that breaks its
reader: nothing of that may hold up the agent, end it, or show it more than the user could see.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 64 * 1024
MAX_NUMBER: Final = 1 << 53
"""As far as all readers of JSON agree; the log's own numbers go farther."""


def read_object(path: Path) -> tuple[dict[str, Any], float] | None:
    """The JSON object in a small plain file, and when it was written; None for anything else."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                return None
            plain = json.loads(file.read(MAX_BYTES))
        return (plain, found.st_mtime) if isinstance(plain, dict) else None
    return None


def count_of(value: object) -> int | None:
    """A whole number from 0 on that everybody can write down, else None."""
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_NUMBER
    return int(value) if right else None  # type: ignore[call-overload]


def seconds_of(value: object) -> float | None:
    """A length of time, else None. JSON as Python reads it has infinity, and no number."""
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 0 <= value < MAX_NUMBER:  # type: ignore[operator]
        return None
    return float(value)  # type: ignore[arg-type]


def is_there(path: Path) -> bool:
    """Whether there is such a file, with a name that can be told to others."""
    try:
        str(path).encode()
        path.stat()
    except (OSError, ValueError):
        return False
    return True
