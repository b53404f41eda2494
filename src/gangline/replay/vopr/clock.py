"""One virtual clock for a whole cell, and the wrong clocks of its machines."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

START_MS: Final = 1_767_225_600_000
"""Where virtual time begins: the first second of 2026."""

PARTS: Final = 1_000_000


class Timeline:
    """What happens, in order of time; of one instant, in order of planning.

    `run` may be called from inside an event: others live on while one of them stands still.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Plan something."""
        self._planned += 1
        heappush(self._queue, (self.now_ms + max(0, delay_ms), self._planned, action))

    def run(self, until_ms: int) -> None:
        """Let everything happen that is planned up to then."""
        while self._queue and self._queue[0][0] <= until_ms:
            at_ms, _, action = heappop(self._queue)
            self.now_ms = max(self.now_ms, at_ms)
            self.events += 1
            action()
        self.now_ms = max(self.now_ms, until_ms)


class Clocks:
    """The clocks of one machine, as `scheduler.ports.Machine`.

    drift: how many millionths too fast the monotonic clock runs. wall_error_ms: how far the wall
    clock is off; it may be changed at any time.
    """

    def __init__(self, timeline: Timeline, *, drift: int = 0) -> None:
        self._timeline = timeline
        self._drift = drift
        self.wall_error_ms = 0

    def wall_ms(self) -> int:
        """What the machine believes that the time is."""
        return START_MS + self._timeline.now_ms + self.wall_error_ms

    def monotonic_ms(self) -> int:
        """Time since the simulation began, a little too fast or too slow."""
        now_ms = self._timeline.now_ms
        return now_ms + now_ms * self._drift // PARTS
