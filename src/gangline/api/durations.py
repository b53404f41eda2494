"""Durations as people write them (`500ms`, `30s`, `10m`, `1h30m`, `3d`) and as the log does."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")
MAX_MS: Final = 10 * 365 * 86_400_000
_MAX_TEXT: Final = 40


def parse_ms(value: object) -> int:
    """Milliseconds of a text like `10m` or a number of seconds; `ValueError` says what is right."""
    if isinstance(value, str):
        milliseconds = _parse_text(value)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        milliseconds = _parse_seconds(value)
    else:
        raise ValueError("a duration is a text like 10m, or a number of seconds")  # noqa: TRY004
    if milliseconds > MAX_MS:
        raise ValueError("a duration is at most 10 years")
    return milliseconds


def _parse_text(text: str) -> int:
    if len(text) > _MAX_TEXT or not text.isascii() or not _WHOLE.fullmatch(text):
        raise ValueError(f"a duration is a text like 500ms, 30s, 10m, 2h or 3d, not {text[:40]!r}")
    return round(sum(float(n) * _UNITS_MS[unit] for n, unit in _PART.findall(text)))


def _parse_seconds(seconds: float) -> int:
    if not math.isfinite(seconds):
        raise ValueError("a duration is a finite number of seconds")
    if seconds < 0:
        raise ValueError(f"a duration is not negative, like {seconds}")
    return round(min(seconds, MAX_MS) * 1_000)


def is_milliseconds(text: str) -> bool:
    """Whether a text is written as milliseconds since the epoch."""
    return _MILLISECONDS.fullmatch(text) is not None


def is_duration(text: str) -> bool:
    """Whether a text is written as a duration."""
    return len(text) <= _MAX_TEXT and _WHOLE.fullmatch(text) is not None


def parse_at_ms(text: str, *, now_ms: int) -> int:
    """Milliseconds since the epoch of a time; ValueError.

    ISO 8601, `10m` for so long ago, milliseconds since the epoch, or `now`.
    """
    if text == "now":
        return now_ms
    if _WHOLE.fullmatch(text):
        return now_ms - parse_ms(text)
    if is_milliseconds(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"a time is like 2026-11-30T12:00:00Z, or 10m for so long ago, not {text[:40]!r}"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


def show_ms(milliseconds: int) -> str:
    """The two largest units of a duration, `1h30m`; `0s` for nothing."""
    left = milliseconds
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
