"""Looking at checkpoint folders from threads of its own: a disk that hangs holds up nobody.

The agent goes on to beat, to start and to stop other members; what hangs is looked at again when
it answers.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from gangline.agents import procfs
from gangline.agents.core import Cue, Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.agents.watch import Marker, Watch

_log = structlog.get_logger(__name__)

_WORKERS: Final = 8
PATIENCE_S: Final = 10.0
"""How long the end of a member waits for the last look at its checkpoints."""


@dataclass(frozen=True, slots=True)
class _Look:
    future: Future[list[Cue]]
    began_s: float
    after_end: bool


class Lookout:
    """At most one look at a time for each attempt. For one thread; `wake` is called from others."""

    def __init__(self, *, interval_s: float, wake: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._wake = wake
        self._pool = ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="look")
        self._looks: dict[Key, _Look] = {}
        self._next_s: dict[Key, float] = {}
        self._kept: dict[Key, list[Cue]] = {}

    def new(self, watch: Watch) -> list[Cue]:
        """What the last look saw; the next one begins when it is time."""
        look = self._looks.get(watch.key)
        if look is None:
            if time.monotonic() >= self._next_s.get(watch.key, 0.0):
                self._begin(watch, after_end=False)
            return []
        return self._take(look, watch.key) if look.future.done() else []

    def last(self, watch: Watch) -> list[Cue] | None:
        """What a look that began after the end saw, None while it goes on; nothing if it hangs."""
        kept = self._kept.setdefault(watch.key, [])
        look = self._looks.get(watch.key)
        if look is not None and not look.after_end and look.future.done():
            kept += self._take(look, watch.key)
            look = None
        if look is None:
            look = self._begin(watch, after_end=True)
        if look.after_end and look.future.done():
            return kept + self._take(look, watch.key)
        return kept if time.monotonic() - look.began_s > PATIENCE_S else None

    def newest(self, look: Callable[[], Marker | None]) -> Marker | None:
        """A look that is waited for, but not for long."""
        try:
            return self._pool.submit(look).result(timeout=PATIENCE_S)
        except TimeoutError:
            return None

    def run(self, work: Callable[[], None]) -> None:
        """Something small to do on such a disk, by and by; for any thread."""
        self._pool.submit(work)

    def forget(self, key: Key) -> None:
        """It is over."""
        self._looks.pop(key, None)
        self._next_s.pop(key, None)
        self._kept.pop(key, None)

    def close(self) -> None:
        """Look no more; a look that hangs is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, watch: Watch, *, after_end: bool) -> _Look:
        future = self._pool.submit(watch.look, now_ms=procfs.boot_ms())
        look = self._looks[watch.key] = _Look(future, time.monotonic(), after_end)
        future.add_done_callback(lambda _: self._wake())
        return look

    def _take(self, look: _Look, key: Key) -> list[Cue]:
        del self._looks[key]
        self._next_s[key] = look.began_s + self._interval_s
        try:
            return look.future.result()
        except Exception as error:  # noqa: BLE001 - whatever a job has put there is its own affair
            _log.error("look_failed", job=key.job, attempt=key.attempt, error=repr(error))
            return []
