"""The rules of time."""

from __future__ import annotations

import pytest

from gangline.scheduler.clock import TermClock, WallWatch, takeover_ms
from tests.scheduler.cell import START_MS, Clocks

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("wall", "last_batch", "newest_append", "expected"),
    [
        (1_000_000, 900_000, 999_900, 1_000_000),
        (1_000_000 + DAY_MS, 900_000, 1_000_000, 1_005_000),
        (1_000_000 - DAY_MS, 900_000, 1_000_000, 900_000),
        (1_000_000, 1_200_000, 1_000_000, 1_200_000),
    ],
    ids=["all is well", "a day ahead", "a day behind", "the last batch was later"],
)
def test_a_takeover_takes_the_wall_clock_within_bounds(
    wall: int, last_batch: int, newest_append: int, expected: int
) -> None:
    """No earlier than the last batch, at most five seconds past the newest append."""
    at = takeover_ms(wall_ms=wall, last_batch_ms=last_batch, newest_append_ms=newest_append)

    assert at == expected


def test_a_term_follows_the_monotonic_clock() -> None:
    """A step of the wall clock is an alarm, not an input."""
    clocks = Clocks()
    clock = TermClock(clocks, last_batch_ms=0, newest_append_ms=START_MS)
    watch = WallWatch(clocks)

    clocks.passed_ms += 1_000
    clocks.wall_error_ms = -DAY_MS

    assert clock.now_ms() == START_MS + 1_000
    assert watch.step_ms() == -DAY_MS
    assert watch.step_ms() == 0


def test_time_never_goes_back() -> None:
    """Not even if the machine's monotonic clock did."""
    clocks = Clocks()
    clock = TermClock(clocks, last_batch_ms=0, newest_append_ms=START_MS)
    clocks.passed_ms += 1_000
    before = clock.now_ms()

    clocks.passed_ms -= 500

    assert clock.now_ms() == before
