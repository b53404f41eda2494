"""The values of scenario files: durations, counts, names, and what is said of wrong ones.

Each reader takes the text of one value and gives it back typed; `ValueError` says what would be
right, as a noun that fits after "expected".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gangline.events.spec import MAX_NAME_CHARACTERS, UNLIMITED, JobClass, Topology, TopologyKind

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_MS: Final = 10 * 365 * 86_400_000
MOST_COUNT: Final = 1_000_000_000
LEVELS: Final = ("node", "block", "spine")
STATES: Final = (
    "queued",
    "starting",
    "running",
    "preempting",
    "succeeded",
    "failed",
    "cancelled",
    "rejected",
)

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PARTS: Final = re.compile(
    r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,9})s)?(?:(\d{1,12})ms)?", re.ASCII
)
_COUNT: Final = re.compile(r"\d{1,10}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]*", re.ASCII)


def duration(text: str) -> int:
    """Milliseconds of `500ms`, `30s`, `10m`, `2h`, `3d`, or several, largest first: `1h30m`."""
    match = _PARTS.fullmatch(text)
    if match is None or not text:
        raise ValueError("a duration like 500ms, 30s, 10m, 2h, 3d or 1h30m")
    parts = zip(match.groups(), _UNITS_MS.values(), strict=True)
    milliseconds = sum(int(count) * unit for count, unit in parts if count)
    if milliseconds > MOST_MS:
        raise ValueError("a duration of at most 3650d")
    return milliseconds


def positive_duration(text: str) -> int:
    """A duration above 0."""
    milliseconds = duration(text)
    if not milliseconds:
        raise ValueError("a duration above 0")
    return milliseconds


def show_ms(milliseconds: int) -> str:
    """A duration as files write it."""
    left, words = milliseconds, []
    for unit, size in _UNITS_MS.items():
        count, left = divmod(left, size)
        words += [f"{count}{unit}"] if count else []
    return "".join(words) or "0s"


def count(text: str) -> int:
    """A whole number from 0."""
    if not _COUNT.fullmatch(text) or int(text) > MOST_COUNT:
        raise ValueError("a whole number from 0 to 1000000000")
    return int(text)


def count_from(least: int, most: int = MOST_COUNT) -> Callable[[str], int]:
    """A reader of whole numbers in a range."""

    def read(text: str) -> int:
        if not _COUNT.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return read


def policy_number(text: str) -> int:
    """A whole number that may be negative: which are allowed, the policy's key says."""
    if not _COUNT.fullmatch(text.removeprefix("-")):
        raise ValueError("a whole number")
    return int(text)


def borrow(text: str) -> int:
    """A limit in GPUs: a number, `none` or `unlimited`."""
    words = {"none": 0, "unlimited": UNLIMITED}
    if text in words:
        return words[text]
    if not _COUNT.fullmatch(text):
        raise ValueError("a number of GPUs, none or unlimited")
    return count(text)


def name(text: str) -> str:
    """The name of a job, a team or a model."""
    if not _NAME.fullmatch(text) or len(text) > MAX_NAME_CHARACTERS:
        raise ValueError(
            f"a name of letters, digits and _ . : / @ -, at most {MAX_NAME_CHARACTERS} characters"
        )
    return text


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name(part) for part in text.split(","))


def one_of(*words: str) -> Callable[[str], str]:
    """A reader of a word from a list."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text

    return read


def yes_or_no(text: str) -> bool:
    """`yes` or `no`."""
    return one_of("yes", "no")(text) == "yes"


def job_class(text: str) -> JobClass:
    """A priority class."""
    return JobClass[one_of("low", "normal", "high", "urgent")(text).upper()]


def topology(text: str) -> Topology:
    """`any`, `preferred:LEVEL` or `required:LEVEL`."""
    kind, colon, level = text.partition(":")
    if text == "any":
        return Topology()
    if not colon or kind not in {"preferred", "required"} or level not in LEVELS:
        raise ValueError(
            f"any, preferred:LEVEL or required:LEVEL, LEVEL one of {', '.join(LEVELS)}"
        )
    return Topology(kind=TopologyKind(kind), level=level)


def ready(text: str) -> int | None:
    """How late a node is ready; None for `never`."""
    if text == "never":
        return None
    try:
        return duration(text)
    except ValueError as error:
        raise ValueError(f"never, or {error}") from error
