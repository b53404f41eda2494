"""What the log really holds, as the auditor remembers it: honest facts, by what they support.

The auditor reads every record the moment it lands. It believes a fact only if the one who states it
may state it, by the rules of the topics and its own knowledge of who lies.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gangline.events import codec, facts
from gangline.events.envelope import Event
from gangline.events.log import Record, Topic, TopicPartition
from gangline.replay.vopr.people import LIE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.events.batch import InputRange

Member = tuple[str, int, str]
"""Job, attempt, node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A record of an input topic, and when it really landed. event: None for garbage.

    copy: whether it tells of a fault or its end as one before did, perhaps long ago.
    """

    record: Record
    event: Event | None
    at_ms: int
    honest: bool
    copy: bool = False


class FactBook:
    """All inputs of a cell, with an index of what they support."""

    def __init__(self) -> None:
        self.inputs: defaultdict[TopicPartition, list[Landed]] = defaultdict(list)
        self.consumed: defaultdict[TopicPartition, int] = defaultdict(lambda: -1)
        self.submissions: dict[str, facts.JobSubmitted] = {}
        self.asked: defaultdict[type, set[str]] = defaultdict(set)
        self.ready: set[Member] = set()
        self.exits: defaultdict[Member, list[facts.MemberExited]] = defaultdict(list)
        self.saves: dict[str, facts.CheckpointSaved] = {}
        self.boots: defaultdict[str, set[str]] = defaultdict(set)
        self.broken: set[tuple[str, int]] = set()
        self.faults: set[str] = set()
        self.mended: set[tuple[str, int]] = set()
        self.beats: defaultdict[str, list[int]] = defaultdict(list)
        self.teams: set[str] = set()
        self.policies: set[tuple[str, int]] = set()

    def take(self, record: Record, at_ms: int) -> None:
        """A record has landed."""
        try:
            event = codec.decode(record.value)
        except codec.UndecodableError:
            event = None
        honest = event is not None and _is_honest(record, event)
        copy = honest and event is not None and event.envelope.id in self.faults
        landed = Landed(record=record, event=event, at_ms=at_ms, honest=honest, copy=copy)
        self.inputs[TopicPartition(record.topic, record.partition)].append(landed)
        if honest and event is not None:
            remember = _INDEX.get(type(event.body))
            if remember is not None:
                remember(self, event.body)
            if isinstance(event.body, facts.FaultDetected | facts.FaultCleared):
                self.faults.add(event.envelope.id)
            if isinstance(event.body, facts.NodeHeartbeat):
                self.beats[event.body.node].append(at_ms)

    def problem_of(self, consumed: InputRange) -> str:
        """What is wrong with what a batch says that it has read; empty for nothing. Moves on."""
        partition = TopicPartition(consumed.topic, consumed.partition)
        expected = self.consumed[partition] + 1
        gap = consumed.first != expected
        if consumed.first < expected or (gap and consumed.topic != Topic.HEARTBEATS):
            return f"{partition} is read from {consumed.first}, not {expected}"
        self.consumed[partition] = consumed.last
        read = self.inputs[partition][consumed.first : consumed.last + 1]
        if consumed.count != len(read) or consumed.count != consumed.last - consumed.first + 1:
            return f"{partition} has {len(read)} records there, not {consumed.count}"
        digest = hashlib.blake2b(digest_size=32)
        for landed in read:
            digest.update(codec.avro_bytes(landed.record.value))
        return "" if digest.digest() == consumed.digest else f"{partition} holds other bytes"

    def heard_ms(self, node: str, before_ms: int) -> int:
        """When the newest honest heartbeat before a moment really landed."""
        return max((at for at in self.beats[node] if at <= before_ms), default=0)

    def range(self, topic: str, partition: int, first: int, last: int) -> list[Landed]:
        """The records of a range of offsets."""
        return self.inputs[TopicPartition(topic, partition)][first : last + 1]

    def unread(self) -> list[str]:
        """Partitions with facts that no batch has consumed, heartbeats left aside."""
        return [
            f"{partition.topic}-{partition.partition}"
            for partition, landed in self.inputs.items()
            if partition.topic != Topic.HEARTBEATS and self.consumed[partition] < len(landed) - 1
        ]


def _is_honest(record: Record, event: Event) -> bool:
    """Whether anybody may believe it."""
    if event.envelope.id.startswith(LIE):
        return False
    if record.topic in (Topic.NODES, Topic.HEARTBEATS):
        return event.envelope.actor == f"node:{event.body.node}"
    return True


# --- the index ------------------------------------------------------------------------------------


def _submitted(book: FactBook, body: facts.JobSubmitted) -> None:
    book.submissions.setdefault(body.job, body)


def _asked(book: FactBook, body: Any) -> None:  # noqa: ANN401 - any request about a job
    book.asked[type(body)].add(body.job)


def _of_node(book: FactBook, body: Any) -> None:  # noqa: ANN401 - any order about a node
    book.asked[type(body)].add(body.node)


def _ready(book: FactBook, body: facts.MemberReady) -> None:
    book.ready.add((body.job, body.attempt, body.node))


def _exited(book: FactBook, body: facts.MemberExited) -> None:
    book.exits[body.job, body.attempt, body.node].append(body)


def _saved(book: FactBook, body: facts.CheckpointSaved) -> None:
    book.saves[f"{body.node} {body.path}"] = body


def _registered(book: FactBook, body: facts.NodeRegistered) -> None:
    book.boots[body.node].add(body.boot_id)


def _broken(book: FactBook, body: facts.FaultDetected) -> None:
    book.broken.add((body.node, body.gpu))


def _mended(book: FactBook, body: facts.FaultCleared) -> None:
    book.mended.add((body.node, body.gpu))


def _team(book: FactBook, body: facts.TeamSet) -> None:
    book.teams.add(body.team)


def _policy(book: FactBook, body: facts.PolicySet) -> None:
    book.policies.update(body.values.items())


_INDEX: Final[Mapping[type, Callable[[FactBook, Any], None]]] = {
    facts.JobSubmitted: _submitted,
    facts.JobCancelRequested: _asked,
    facts.JobHoldRequested: _asked,
    facts.JobHoldReleased: _asked,
    facts.JobPriorityChangeRequested: _asked,
    facts.NodeAdmitted: _of_node,
    facts.NodeCordoned: _of_node,
    facts.NodeUncordoned: _of_node,
    facts.DrainRequested: _of_node,
    facts.MaintenanceScheduled: _of_node,
    facts.MemberReady: _ready,
    facts.MemberExited: _exited,
    facts.CheckpointSaved: _saved,
    facts.NodeRegistered: _registered,
    facts.FaultDetected: _broken,
    facts.FaultCleared: _mended,
    facts.TeamSet: _team,
    facts.PolicySet: _policy,
}
