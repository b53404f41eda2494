"""Facts and heartbeats on their way out: one thread, so that nothing else waits for the log.

Facts come from the spool in order and leave it when the log has them. A heartbeat is made when it
is due and the log is there, and never kept: a late one says nothing.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

from gangline.agents import procfs
from gangline.agents.threads import guarded
from gangline.events.facts import NodeHeartbeat
from gangline.events.log import LogError, Message, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangline.agents.node_key import Voice
    from gangline.agents.spool import Spool
    from gangline.events.log import Log

_BATCH: Final = 200
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 10.0

_log = structlog.get_logger(__name__)


class Sender:
    """Delivers what the spool holds, and heartbeats.

    delivered: told after each success, with when it was sent.
    """

    def __init__(
        self,
        log: Log,
        spool: Spool,
        *,
        voice: Voice,
        interval_s: float,
        delivered: Callable[[Sequence[bytes], int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._spool = spool
        self._voice = voice
        self._interval_s = interval_s
        self._delivered = delivered
        self._sequence = 0
        # Agents that come up together do not all beat together.
        self._next_beat_s = time.monotonic() + random.uniform(0, interval_s / 4)  # noqa: S311
        self._more = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=guarded(self._run, failed), name="sender", daemon=True
        )

    def start(self) -> None:
        """Begin; not before the first facts are in the spool."""
        self._thread.start()

    def notify(self) -> None:
        """There are new facts."""
        self._more.set()

    def close(self, *, within_s: float) -> None:
        """Deliver what waits if the log takes it within this time; the rest stays on the disk."""
        self._closing.set()
        self._more.set()
        self._thread.join(within_s)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not (self._closing.is_set() and len(self._spool) == 0):
            self._more.clear()
            try:
                self._deliver()
            except LogError as error:
                _log.warning("log_unreachable", error=str(error), waiting=len(self._spool))
                if self._closing.is_set():
                    return
                self._closing.wait(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            if len(self._spool) == 0 and not self._closing.is_set():
                self._more.wait(max(0.0, self._next_beat_s - time.monotonic()))

    def _deliver(self) -> None:
        """Send a batch of facts and the heartbeat that is due, if any."""
        facts = self._spool.take(_BATCH)
        key = self._voice.record_key
        messages = [Message(topic=Topic.NODES, key=key, value=value) for value in facts]
        if time.monotonic() >= self._next_beat_s:
            messages.append(Message(topic=Topic.HEARTBEATS, key=key, value=self._beat()))
        if not messages:
            return
        # Before the log was asked: between its answer and the next line we may stand still.
        sent_ms = procfs.boot_ms()
        self._log.append(messages)
        self._spool.done(len(facts))
        self._delivered(facts, sent_ms)

    def _beat(self) -> bytes:
        self._next_beat_s = time.monotonic() + self._interval_s
        self._sequence += 1
        body = NodeHeartbeat(
            node=self._voice.node, boot_id=self._voice.boot_id, sequence=self._sequence
        )
        name = f"{self._voice.node}/{self._voice.boot_id[:8]}/beat-{time.time_ns()}"
        return self._voice.say(body, id=name, topic=Topic.HEARTBEATS)
