"""Amounts over time in buckets of equal length, in integers.

An interval with a constant height costs the same however long it is: what it fills wholly is kept
as differences, what it fills partly at its ends as GPU-milliseconds (or whatever the height is).
"""

from __future__ import annotations


class Series:
    """Height times milliseconds in each bucket, counted from `origin_ms`."""

    __slots__ = ("_partial", "_steps", "bucket_ms", "origin_ms")

    def __init__(self, origin_ms: int, bucket_ms: int) -> None:
        self.origin_ms = origin_ms
        self.bucket_ms = bucket_ms
        self._partial: list[int] = []
        self._steps: list[int] = []

    def add(self, from_ms: int, to_ms: int, height: int) -> None:
        """Put a height on an interval; what lies before the origin is cut off."""
        start = max(0, from_ms - self.origin_ms)
        end = to_ms - self.origin_ms
        if end <= start or not height:
            return
        first, into_first = divmod(start, self.bucket_ms)
        last, into_last = divmod(end, self.bucket_ms)
        self._reach(last)
        if first == last:
            self._partial[first] += (end - start) * height
            return
        self._partial[first] += (self.bucket_ms - into_first) * height
        self._partial[last] += into_last * height
        self._steps[first + 1] += height
        self._steps[last] -= height

    def values(self, buckets: int) -> list[int]:
        """The amounts of the first so many buckets."""
        self._reach(buckets)
        values, height = [], 0
        for partial, step in zip(self._partial[:buckets], self._steps[:buckets], strict=True):
            height += step
            values.append(partial + height * self.bucket_ms)
        return values

    def _reach(self, bucket: int) -> None:
        missing = bucket + 1 - len(self._partial)
        if missing > 0:
            self._partial.extend([0] * missing)
            self._steps.extend([0] * missing)


class Level:
    """A height that changes from time to time, put on a series as it goes."""

    __slots__ = ("_since_ms", "height", "series")

    def __init__(self, series: Series, since_ms: int) -> None:
        self.series = series
        self._since_ms = since_ms
        self.height = 0

    def change(self, now_ms: int, by: int) -> None:
        """From now on the height differs by this."""
        self.settle(now_ms)
        self.height += by

    def settle(self, now_ms: int) -> None:
        """Put the height up to now on the series."""
        if self.height:
            self.series.add(self._since_ms, now_ms, self.height)
        self._since_ms = now_ms
