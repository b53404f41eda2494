"""Reading the inputs of a cell from the cursors of its last batch.

A step is *caught up* when all inputs were read to the ends seen just before its time was taken. If
the log cannot say where its ends are, nothing is caught up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gangline.events.log import Log, LogUnreachableError, Topic, TopicPartition
from gangline.events.reading import behind
from gangline.scheduler.intake import INPUT_TOPICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangline.events.batch import InputRange
    from gangline.scheduler.intake import Intake

MAX_WAITING: Final = 20_000
"""So many records are read ahead of the core at most; more would only fill memory."""

POLL_RECORDS: Final = 2_000

PATIENCE: Final = 25
"""Reads of 20 ms each, to reach the ends before a step goes on without having read all."""


def start_cursors(
    log: Log, inputs: Mapping[TopicPartition, InputRange]
) -> dict[TopicPartition, int]:
    """Where a new leader reads on: after the last batch's inputs.

    Heartbeats start at their present ends: at a takeover every node counts as heard just now, so
    older ones say nothing, however many there are.
    """
    cursors = dict(log.ends(INPUT_TOPICS))
    for partition in cursors:
        if partition.topic != Topic.HEARTBEATS:
            consumed = inputs.get(partition)
            cursors[partition] = 0 if consumed is None else consumed.last + 1
    return cursors


class Gatherer:
    """One reader of all inputs, filling an intake."""

    def __init__(self, log: Log, intake: Intake, cursors: Mapping[TopicPartition, int]) -> None:
        self._log = log
        self._intake = intake
        self._reader = log.reader(cursors)

    def poll(self, timeout_s: float) -> None:
        """Read what is there, waiting for something at most so long."""
        if self._intake.waiting < MAX_WAITING:
            self._intake.add(self._reader.poll(timeout_s, limit=POLL_RECORDS))

    def unread(self) -> list[TopicPartition] | None:
        """Read up to the present ends; where that took too long, or None if nobody knows.

        Stops early when much is waiting: the core then works through it first.
        """
        try:
            ends = self._log.ends(INPUT_TOPICS)
        except LogUnreachableError:
            return None
        missing = behind(self._reader.positions(), ends)
        tries = 0
        while missing and tries < PATIENCE and self._may_read(missing):
            self._intake.add(self._reader.poll(0.02, limit=POLL_RECORDS))
            missing = behind(self._reader.positions(), ends)
            tries += 1
        return missing

    def _may_read(self, missing: list[TopicPartition]) -> bool:
        """Whether there is room, or nothing can be taken before more is read."""
        return self._intake.waiting < MAX_WAITING or self._intake.is_blocked(missing)

    def close(self) -> None:
        """Let go of the reader."""
        self._reader.close()
