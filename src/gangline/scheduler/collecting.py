"""Python's cycle collector, kept out of decisions.

A pass over everything that lives takes a tenth of a second with the state of a thousand nodes, and
comes whenever enough objects were made: in the middle of a step. Deciding makes hardly a cycle, so
such passes are made when there is nothing to do, and the short ones over young objects stay as they
are.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.scheduler.ports import Machine

EVERY_MS: Final = 3_600_000
_NEVER: Final = 1_000_000_000


@contextmanager
def only_short_passes() -> Iterator[None]:
    """No pass over everything by itself, as the scheduler's process has it."""
    before = gc.get_threshold()
    gc.set_threshold(before[0], before[1], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class IdleCollector:
    """A pass over everything in an idle moment, at most once an hour."""

    def __init__(self, machine: Machine) -> None:
        """By the machine's monotonic clock."""
        self._machine = machine
        self._next_ms = machine.monotonic_ms() + EVERY_MS

    def idle(self) -> bool:
        """There is nothing to do now; whether a pass was made."""
        now_ms = self._machine.monotonic_ms()
        if now_ms < self._next_ms:
            return False
        gc.collect()
        self._next_ms = now_ms + EVERY_MS
        return True
