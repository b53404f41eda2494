"""How often a client may ask: a bucket of tokens for each."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.api.settings import RateLimit

_MAX_CLIENTS: Final = 10_000


class RateLimiter:
    """Buckets by client; the least recently seen are forgotten beyond 10,000."""

    def __init__(self, limit: RateLimit, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str) -> int:
        """0 when the client may go on, else the whole seconds after which it may try again."""
        with self._lock:
            now = self._clock()
            level, seen = self._buckets.pop(client, (float(self._limit.burst), now))
            level = min(self._limit.burst, level + (now - seen) * self._limit.per_second)
            if level < 1:
                self._buckets[client] = (level, now)
                return max(1, math.ceil((1 - level) / self._limit.per_second))
            self._buckets[client] = (level - 1, now)
            if len(self._buckets) > _MAX_CLIENTS:
                self._buckets.popitem(last=False)
            return 0
