"""What broke a tie, in words. Certificates hold the very keys that were compared, as tuples."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gangline.events.spec import JobClass

if TYPE_CHECKING:
    from collections.abc import Callable

_ORDER: Final = 6
_COSTS: Final = 3


def order_in_words(text: str) -> str:
    """A job's place in the order of the queue; a text of another form stays as it is."""
    key = _numbers(text)
    if len(key) != _ORDER or not isinstance(key[3], tuple):
        return text
    rank, past_bound, inside, shares, submitted_ms, number = key
    try:
        word = JobClass(-rank).word
        at = datetime.fromtimestamp(submitted_ms / 1_000, UTC)
    except (TypeError, ValueError, OverflowError):
        return text
    parts = [
        f"class {word}",
        "a large gang past its bound" if past_bound == 0 else "",
        f"its team {'below' if inside == 0 else 'not below'} its guarantee",
        f"{'below' if not any(shares) else 'not below'} its share",
        f"submitted {at:%Y-%m-%d %H:%M:%S}",
        f"number {number}",
    ]
    return ", ".join(part for part in parts if part)


def cost_in_words(text: str, *, duration: Callable[[int], str]) -> str:
    """What victims cost, the highest class first; a text of another form stays as it is."""
    found = _numbers(text)
    classes = sorted(JobClass, reverse=True)
    if len(found) != _COSTS * len(classes) + 1 or not all(isinstance(n, int) for n in found):
        return text
    parts = []
    for index, each in enumerate(classes):
        lost_ms, gpus, jobs = found[_COSTS * index : _COSTS * (index + 1)]
        if jobs:
            gangs = f"{jobs} gang{'' if jobs == 1 else 's'}"
            parts.append(
                f"{gangs} of class {each.word} with {gpus} GPUs, "
                f"{duration(lost_ms)} of GPU time lost"
            )
    return "; ".join(parts) or "nobody has to leave for it"


def _numbers(text: str) -> tuple[Any, ...]:
    """The tuple that a text shows; an empty one where it shows none."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    return found if isinstance(found, tuple) else ()
