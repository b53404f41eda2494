"""Questions that the log answers, one at a time: a state is folded for them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gangline.api.problems import ProblemError
from gangline.events.log import LogError

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator


@contextmanager
def one_at_a_time(lock: threading.Lock, *, wait_s: float, busy: str) -> Iterator[None]:
    """Hold the lock; an `unavailable` problem after a while, or where the log cannot be read."""
    if not lock.acquire(timeout=wait_s):
        raise ProblemError("unavailable", busy, headers={"Retry-After": "5"})
    try:
        yield
    except LogError as error:
        raise ProblemError("unavailable", f"the log cannot be read: {error}") from error
    finally:
        lock.release()
