"""Levels over time, as spans: pure, in integers.

A meter is told what levels hold from a moment on, and gives out spans `(key, from, to, level)` in
which a level was constant. It cuts all spans at multiples of five minutes, so that a span lies in
one bucket of time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

BUCKET_MS: Final = 300_000

K = TypeVar("K", bound=Hashable)
L = TypeVar("L")


class Span(NamedTuple, Generic[K, L]):
    """A level that was constant from a moment to a later one, in milliseconds."""

    key: K
    from_ms: int
    to_ms: int
    level: L


class Meter(Generic[K, L]):
    """Levels by key. `open`: level and since when; levels of 0 are not kept."""

    def __init__(self) -> None:
        self.open: dict[K, tuple[L, int]] = {}
        self.spans: list[Span[K, L]] = []

    def set(self, levels: Mapping[K, L], at_ms: int) -> None:
        """From now on these levels hold, and no others."""
        for key in [key for key in self.open if not levels.get(key)]:
            self._close(key, at_ms)
        for key, level in levels.items():
            known = self.open.get(key)
            if level and (known is None or known[0] != level):
                self._close(key, at_ms)
                self.open[key] = (level, at_ms)

    def cut(self, at_ms: int) -> None:
        """End all spans here and go on with the same levels."""
        for key, (level, since) in self.open.items():
            if at_ms > since:
                self.spans.append(Span(key, since, at_ms, level))
                self.open[key] = (level, at_ms)

    def advance(self, from_ms: int, to_ms: int) -> None:
        """Let time pass: cut at each boundary on the way."""
        for boundary in boundaries(from_ms, to_ms):
            self.cut(boundary)

    def take(self) -> list[Span[K, L]]:
        """The spans since the last call."""
        spans, self.spans = self.spans, []
        return spans

    def _close(self, key: K, at_ms: int) -> None:
        known = self.open.pop(key, None)
        if known is not None and at_ms > known[1]:
            self.spans.append(Span(key, known[1], at_ms, known[0]))


def boundaries(from_ms: int, to_ms: int) -> Iterator[int]:
    """The multiples of five minutes after one moment, up to another."""
    yield from range((from_ms // BUCKET_MS + 1) * BUCKET_MS, to_ms + 1, BUCKET_MS)


def bucket_of(at_ms: int) -> int:
    """The beginning of the five minutes of a moment."""
    return at_ms // BUCKET_MS * BUCKET_MS


def spread(amount: int, from_ms: int, to_ms: int) -> list[tuple[int, int]]:
    """An amount over the buckets of an interval, by time; the parts add up to the amount.

    What is negative is spread like its positive, so that the two sides of a transfer cancel in
    every bucket.
    """
    last = bucket_of(to_ms - 1)
    if from_ms >= last:
        return [(last, amount)]
    sign, size = (1, amount) if amount >= 0 else (-1, -amount)
    given, parts = 0, []
    for edge in (*range(bucket_of(from_ms) + BUCKET_MS, to_ms, BUCKET_MS), to_ms):
        until = size * (edge - from_ms) // (to_ms - from_ms)
        parts.append((bucket_of(edge - 1), sign * (until - given)))
        given = until
    return parts
