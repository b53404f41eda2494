"""Steps as records of `decisions`, and back. Pure.

One step is one DecisionBatch, or several in one transaction when it is large: the parts before the
last carry `more`, only the first says what was consumed, only the last what came out. Every record
carries the digest of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from gangline.events import codec
from gangline.events.batch import DecisionBatch, Edge, InputRange, PackedDecision
from gangline.events.envelope import Envelope, Event
from gangline.events.log import Position, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_PART_BYTES: Final = 900_000
"""Of a record's decisions; with the rest it stays below the log's largest message."""

_RANGE_BYTES: Final = 90
_EDGE_BYTES: Final = 200


class Link(NamedTuple):
    """The end of the chain: what the next record must follow."""

    genesis: str
    term: int
    seq: int
    digest: bytes
    now_ms: int


class LogDifferenceError(Exception):
    """A record is not what it must be: where, what, and both values. diff: in lines, if long."""

    diff: str = ""

    def __init__(self, position: Position, *, what: str, expected: object, got: object) -> None:
        super().__init__(f"{position}: {what}: expected {expected}, got {got}")
        self.position = position
        self.what = what
        self.expected = expected
        self.got = got


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHeader:
    """What a step says beside its decisions. leader: the scheduler's name."""

    link: Link
    leader: str
    term: int
    now_ms: int
    caught_up: bool
    logic_version: int
    inputs: tuple[InputRange, ...]
    edges: tuple[Edge, ...]
    state_digest: bytes


class BatchRecord(NamedTuple):
    """One record to be written, and the end of the chain after it."""

    batch: DecisionBatch
    value: bytes
    link: Link


def build(
    header: StepHeader, decisions: Sequence[PackedDecision], *, max_bytes: int = MAX_PART_BYTES
) -> list[BatchRecord]:
    """The records of one step; equal arguments give equal bytes."""
    first_bytes = len(header.inputs) * _RANGE_BYTES + len(header.edges) * _EDGE_BYTES
    parts = list(_split(decisions, first_bytes=first_bytes, max_bytes=max_bytes))
    records = []
    link = header.link
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        batch = DecisionBatch(
            genesis=link.genesis,
            term=header.term,
            seq=link.seq + 1,
            more=not last,
            now_ms=header.now_ms,
            caught_up=header.caught_up,
            logic_version=header.logic_version,
            inputs=header.inputs if index == 0 else (),
            edges=header.edges if index == 0 else (),
            decisions=part,
            state_digest=header.state_digest if last else b"",
            previous_digest=link.digest,
        )
        value = codec.encode(Event(envelope=envelope_of(batch, header.leader), body=batch))
        link = Link(link.genesis, header.term, batch.seq, codec.body_digest(value), header.now_ms)
        records.append(BatchRecord(batch, value, link))
    return records


def envelope_of(batch: DecisionBatch, leader: str) -> Envelope:
    """The envelope of a batch: it follows from batch and leader, so verify knows every byte."""
    return codec.envelope_for(batch, id=f"{batch.genesis}-{batch.seq}", actor=f"scheduler:{leader}")


def _split(
    decisions: Sequence[PackedDecision], *, first_bytes: int, max_bytes: int
) -> Iterator[tuple[PackedDecision, ...]]:
    part: list[PackedDecision] = []
    size = first_bytes
    for packed in decisions:
        own = len(packed.body) + len(packed.kind) + 16
        if part and size + own > max_bytes:
            yield tuple(part)
            part, size = [], 0
        part.append(packed)
        size += own
    yield tuple(part)


class BrokenChainError(LogDifferenceError):
    """A record of `decisions` does not follow the one before it."""


class Chain:
    """Checks term, seq and previous digest of each record; every reader of `decisions` has one."""

    def __init__(self, link: Link | None = None) -> None:
        self.link = link

    def end(self) -> Link:
        """The end of the chain after at least one record."""
        if self.link is None:
            raise ValueError("nothing was decided yet")
        return self.link

    def follow(self, record: Record) -> DecisionBatch:
        """The batch of the next record; BrokenChainError says what does not fit."""
        batch = _decoded(record)
        link = self.link or Link(batch.genesis, 0, 0, b"", 0)
        for what, expected, got in (
            ("seq", link.seq + 1, batch.seq),
            ("genesis", link.genesis, batch.genesis),
            ("previous digest", link.digest.hex(), batch.previous_digest.hex()),
        ):
            if expected != got:
                raise BrokenChainError(record.position, what=what, expected=expected, got=got)
        for what, least, got in (
            ("term", link.term, batch.term),
            ("now_ms", link.now_ms, batch.now_ms),
        ):
            if got < least:
                expected = f"at least {least}"
                raise BrokenChainError(record.position, what=what, expected=expected, got=got)
        digest = codec.body_digest(record.value)
        self.link = Link(batch.genesis, batch.term, batch.seq, digest, batch.now_ms)
        return batch


def _decoded(record: Record) -> DecisionBatch:
    """The batch in a record."""
    try:
        body = codec.decode(record.value).body
    except codec.UndecodableError as error:
        problem: object = error
    else:
        if isinstance(body, DecisionBatch):
            return body
        problem = type(body).__name__
    raise BrokenChainError(record.position, what="record", expected="a DecisionBatch", got=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """A whole step of the log. batch: all its parts as one. records: as they were read."""

    batch: DecisionBatch
    link: Link
    records: tuple[Record, ...]

    @property
    def next_offset(self) -> int:
        """Where the next step begins."""
        return self.records[-1].offset + 1

    @property
    def led_by(self) -> str | None:
        """The scheduler whose term begins here."""
        return led_by(self.batch)


def led_by(batch: DecisionBatch) -> str | None:
    """The scheduler whose term begins with a batch."""
    for edge in batch.edges:
        if edge.kind == "led" and edge.why != "gap":
            return edge.node
    return None


@dataclass(slots=True)
class StepReader:
    """Puts the parts of steps together, with the chain checked."""

    chain: Chain = field(default_factory=Chain)
    _parts: list[DecisionBatch] = field(default_factory=list)
    _records: list[Record] = field(default_factory=list)

    def feed(self, record: Record) -> RecordedStep | None:
        """The step that this record completes; None while more of its parts are to come."""
        batch = self.chain.follow(record)
        self._check_part(batch, record)
        self._parts.append(batch)
        self._records.append(record)
        if batch.more:
            return None
        parts, records = self._parts, tuple(self._records)
        self._parts, self._records = [], []
        whole = replace(
            parts[0],
            more=False,
            decisions=tuple(d for part in parts for d in part.decisions),
            state_digest=batch.state_digest,
        )
        return RecordedStep(batch=whole, link=self.chain.end(), records=records)

    @property
    def unfinished(self) -> bool:
        """Whether a step's last part has not been read."""
        return bool(self._parts)

    def _check_part(self, batch: DecisionBatch, record: Record) -> None:
        if not self._parts:
            return
        first = self._parts[0]
        expected = (first.term, first.now_ms, first.caught_up, first.logic_version, (), ())
        got = (
            batch.term,
            batch.now_ms,
            batch.caught_up,
            batch.logic_version,
            batch.inputs,
            batch.edges,
        )
        if expected != got:
            what = "part of a step"
            raise BrokenChainError(record.position, what=what, expected=expected, got=got)
