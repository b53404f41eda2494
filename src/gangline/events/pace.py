"""Which ranks are slower than others: one rule for agents, who see a node, and whoever sees all."""

from __future__ import annotations

from statistics import median_low
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOWER: Final = 1.25
"""A rank that needs so many times what is usual is slow."""


def usual(said: Sequence[float | None]) -> float | None:
    """The median of seconds, the lower of two; None while fewer than half of the ranks say it."""
    known = [seconds for seconds in said if seconds is not None]
    return median_low(known) if known and 2 * len(known) >= len(said) else None


def is_slower(seconds: float | None, than: float | None) -> bool:
    """Whether a rank needs clearly more than is usual; not where either is unknown."""
    return seconds is not None and than is not None and seconds > SLOWER * than
