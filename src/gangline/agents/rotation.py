"""Rotating the output of programs that keep their file open: copy, then cut.

The programs write with O_APPEND, so that after the cut they go on at the beginning. What they
write between the copy and the cut is lost; that is some microseconds once in a log's length.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def rotate(path: Path, *, above: int, keep: int) -> bool:
    """Move the content to `path.1` (that to `.2`, …) if it is longer than `above` bytes."""
    try:
        if path.stat().st_size <= above:
            return False
    except OSError:
        return False
    with contextlib.suppress(OSError):  # a full disk: cutting is what helps
        for number in range(keep, 1, -1):
            older = path.with_name(f"{path.name}.{number - 1}")
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{number}"))
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)
    return True
