"""What time it is for the scheduler.

`now_ms` never goes back. At a takeover it starts from the wall clock, but no earlier than the last
batch and at most `MAX_AHEAD_MS` past the newest append time in the log: the log's own clock is the
better witness when a machine's is wrong. From then on it follows the monotonic clock, so a step of
the wall clock changes nothing; it is an alarm (`WallWatch`), not an input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gangline.scheduler.ports import Machine

MAX_AHEAD_MS: Final = 5_000
WALL_STEP_MS: Final = 1_000


def takeover_ms(*, wall_ms: int, last_batch_ms: int, newest_append_ms: int) -> int:
    """Where a new leader's time starts."""
    return max(min(wall_ms, newest_append_ms + MAX_AHEAD_MS), last_batch_ms)


class TermClock:
    """The time of one leader's term."""

    def __init__(self, machine: Machine, *, last_batch_ms: int, newest_append_ms: int) -> None:
        self._machine = machine
        self._start_ms = takeover_ms(
            wall_ms=machine.wall_ms(),
            last_batch_ms=last_batch_ms,
            newest_append_ms=newest_append_ms,
        )
        self._started_at = machine.monotonic_ms()
        self._newest_ms = self._start_ms

    def now_ms(self) -> int:
        """Milliseconds since the epoch, never earlier than what was answered before."""
        now = self._start_ms + self._machine.monotonic_ms() - self._started_at
        self._newest_ms = max(self._newest_ms, now)
        return self._newest_ms


class WallWatch:
    """Notices when the wall clock moved otherwise than the monotonic clock."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._offset = machine.wall_ms() - machine.monotonic_ms()

    def step_ms(self) -> int:
        """By how much the wall clock stepped since the last call; 0 for less than a second."""
        offset = self._machine.wall_ms() - self._machine.monotonic_ms()
        step = offset - self._offset
        if abs(step) < WALL_STEP_MS:
            return 0
        self._offset = offset
        return step
