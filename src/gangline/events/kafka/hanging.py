"""Noticing a transaction that hangs: it stops all readers of a partition without any error.

A reader of committed records stands at the last stable offset while the partition's end lies
beyond. That is so for a moment in each commit; where the reader has not moved for longer than a
broker lets a transaction take, somebody must end it by hand.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from gangline.events.kafka.settings import TRANSACTION_TIMEOUT_MS

if TYPE_CHECKING:
    from gangline.events.log import TopicPartition

LIMIT_S: Final = TRANSACTION_TIMEOUT_MS / 1000 + 10
"""A scheduler's transaction times out, and brokers look for such ones every ten seconds."""
REPEAT_S: Final = 60.0

_log = logging.getLogger(__name__)


class _Stuck(NamedTuple):
    """Where a reader stands, since when, and when that was said last (-inf: never)."""

    at: int
    since_s: float
    said_s: float


class HangingWatch:
    """Says loudly which partition hangs and what to do, once a minute as long as it does."""

    def __init__(self, bootstrap: str, *, limit_s: float = LIMIT_S) -> None:
        self._bootstrap = bootstrap
        self._limit_s = limit_s
        self._stuck: dict[TopicPartition, _Stuck] = {}

    def look(
        self, partition: TopicPartition, name: str, *, at: int, end: int, now_s: float
    ) -> None:
        """A reader has read everything that it may, up to `at`; the partition ends at `end`."""
        known = self._stuck.get(partition)
        if at >= end:
            self._stuck.pop(partition, None)
        elif known is None or known.at != at:
            self._stuck[partition] = _Stuck(at, now_s, -math.inf)
        elif now_s - known.since_s >= self._limit_s and now_s - known.said_s >= REPEAT_S:
            self._stuck[partition] = known._replace(said_s=now_s)
            self._say(partition, name, known, now_s)

    def _say(self, partition: TopicPartition, name: str, stuck: _Stuck, now_s: float) -> None:
        tool = f"kafka-transactions.sh --bootstrap-server {self._bootstrap}"
        where = f"--topic {name} --partition {partition.partition}"
        _log.warning(
            "a transaction hangs in %s partition %d: for %.0f s nobody could read beyond offset "
            "%d; `%s find-hanging %s` shows it, `%s abort %s --start-offset %d` ends it",
            name, partition.partition, now_s - stuck.since_s, stuck.at,
            tool, where, tool, where, stuck.at,
        )  # fmt: skip
