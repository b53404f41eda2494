"""Our own output, where nobody takes it: a full disk, a closed pipe."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def let_go_of_output() -> None:
    """What cannot be written is given up: Python would complain at the end, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):  # a test's stream has no number
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
