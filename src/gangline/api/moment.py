"""Moments as people write them: one grammar for every route and every command."""

from __future__ import annotations

from gangline.api.durations import is_duration, parse_ms
from gangline.replay.timetravel import When, parse_when


def parse_moment(text: str, *, now_ms: int) -> When:
    """A time (ISO 8601), `10m` for so long ago, milliseconds, `seq:N`, or `now`; ValueError."""
    if is_duration(text):
        return When(at_ms=now_ms - parse_ms(text))
    return parse_when(text)
