"""Asking the leader to let a standby lead, and waiting until one does.

The request is a fact like any other. The leader answers it, closes its writer and says so with its
last beat; a standby that hears this leads at once.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gangline.events import codec
from gangline.events.batch import DecisionBatch
from gangline.events.facts import HandOverRequested
from gangline.events.log import LogError, Message, Topic, TopicPartition
from gangline.scheduler.batches import led_by
from gangline.scheduler.follower import DECISIONS

if TYPE_CHECKING:
    from gangline.events.log import Log, Position, Record

CONTROL: Final = TopicPartition(Topic.CONTROL, 0)
PATIENCE_S: Final = 20.0


class HandOverError(LogError):
    """Nobody took the lead; the message says for how long that was waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """Who leads now. gap_ms: from the request to the new term's first batch, by the log's clock."""

    leader: str
    term: int
    gap_ms: int


def hand_over(
    log: Log, *, actor: str, why: str = "asked for", patience_s: float = PATIENCE_S
) -> HandedOver:
    """Ask, and wait for the next term; HandOverError when none begins in time."""
    ends = log.ends([Topic.DECISIONS, Topic.CONTROL])
    reader = log.reader({DECISIONS: ends[DECISIONS], CONTROL: ends[CONTROL]})
    try:
        asked = _ask(log, actor=actor, why=why)
        asked_ms: int | None = None
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            for record in reader.poll(0.1):
                if record.position == asked:
                    asked_ms = record.appended_ms
                term = begun(record)
                if term is not None and asked_ms is not None:
                    gap_ms = max(0, record.appended_ms - asked_ms)
                    return HandedOver(leader=term[0], term=term[1], gap_ms=gap_ms)
    finally:
        reader.close()
    raise HandOverError(
        f"the hand-over was asked for at {asked}, and nobody took the lead within {patience_s:g} s"
    )


def _ask(log: Log, *, actor: str, why: str) -> Position:
    body = HandOverRequested(why=why)
    value = codec.stated(body, id=uuid.uuid4().hex, actor=actor)
    (position,) = log.append([Message(topic=Topic.CONTROL, value=value, key=b"hand-over")])
    return position


def begun(record: Record) -> tuple[str, int] | None:
    """The leader and the term that begins with this record; None for any other record."""
    if record.topic != Topic.DECISIONS:
        return None
    batch = codec.decode(record.value).body
    leader = led_by(batch) if isinstance(batch, DecisionBatch) else None
    return None if leader is None else (leader, batch.term)
