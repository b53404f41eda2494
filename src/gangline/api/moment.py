"""Moments as people write them: one grammar for every route and every command."""

from __future__ import annotations

import re
from typing import Final

from gangline.api.durations import is_duration, parse_ms
from gangline.replay.timetravel import When, parse_when

_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DAY_MS: Final = 86_400_000


def parse_moment(text: str, *, now_ms: int) -> When:
    """A time (ISO 8601), `03:00` for the last one, `10m` for so long ago, milliseconds, `seq:N`.

    Or `now`. ValueError for what is none of these. Times are UTC.
    """
    if is_duration(text):
        return When(at_ms=now_ms - parse_ms(text))
    of_day_ms = _of_day(text)
    if of_day_ms is not None:
        at_ms = now_ms // _DAY_MS * _DAY_MS + of_day_ms
        return When(at_ms=at_ms if at_ms <= now_ms else at_ms - _DAY_MS)
    return parse_when(text)


def _of_day(text: str) -> int | None:
    """Milliseconds since midnight of a time of the day; None for what is none."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000
