"""The decisions as the views read them: whole steps of the scheduler, with their chain checked.

Every record of `decisions` names the record before it: term, seq and digest. A reader that finds
another chain than the one it knows (a record altered, missing, or written by a fenced leader) must
stop: all views after it would be wrong, and none would say so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gangline.events import codec
from gangline.events.batch import DecisionBatch
from gangline.events.log import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gangline.events.batch import PackedDecision
    from gangline.events.decisions import Decision


class ChainBrokenError(Exception):
    """The decisions do not follow from one another; the message says where, expected and found."""


class Item:
    """One decision and where it stands. at_ms: when it was decided."""

    __slots__ = ("_decision", "_packed", "at_ms", "index", "kind", "offset")

    def __init__(self, packed: PackedDecision, *, offset: int, index: int, at_ms: int) -> None:
        self._packed = packed
        self._decision: Decision | None = None
        self.kind = packed.kind
        self.offset = offset
        self.index = index
        self.at_ms = at_ms

    def decision(self) -> Decision | None:
        """The decision, decoded once; None for a kind or version of a newer program."""
        if self._decision is None:
            self._decision = codec.unpack(self._packed)
        return self._decision


class Link(NamedTuple):
    """Where a chain stands: after this record. seq 0: before the first."""

    genesis: str = ""
    term: int = 0
    seq: int = 0
    digest: bytes = b""


class Step(NamedTuple):
    """One whole step: the records of one transaction.

    last: offset of its last record. appended_ms: the log's time of it. link: the chain after it.
    inputs: the highest fact consumed, by `topic-partition`.
    """

    last: int
    appended_ms: int
    now_ms: int
    link: Link
    inputs: dict[str, int]
    items: list[Item]


class Steps:
    """Steps that are folded together.

    items: their decisions in order. kinds: which there are. inputs: the highest facts consumed.
    """

    __slots__ = ("inputs", "items", "kinds", "steps")

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.items = [item for step in steps for item in step.items]
        self.kinds = {item.kind for item in self.items}
        self.inputs: dict[str, int] = {}
        for step in steps:
            self.inputs |= step.inputs

    def beyond(self, next_offset: int) -> Steps:
        """Those that a view which stands here lacks: all of them, but for a lane's first run."""
        if not self.steps or self.steps[0].last >= next_offset:
            return self
        return Steps([step for step in self.steps if step.last >= next_offset])


@dataclass(slots=True)
class Chain:
    """Checks records one after another, and gathers them into steps."""

    link: Link = field(default_factory=Link)
    _parts: list[tuple[Record, DecisionBatch]] = field(default_factory=list)

    def steps(self, records: Iterable[Record]) -> Iterator[Step]:
        """The steps that these records complete; ChainBrokenError where one does not follow."""
        for record in records:
            batch = self._checked(record)
            self._parts.append((record, batch))
            if not batch.more:
                yield self._step()

    def _checked(self, record: Record) -> DecisionBatch:
        """The batch of a record that follows from the one before it."""
        batch, digest = _batch(record)
        before = self.link
        if batch.seq != before.seq + 1:
            raise _broken(record, f"seq {before.seq + 1}", batch.seq)
        if batch.term < before.term:
            raise _broken(record, f"term {before.term} or later", batch.term)
        if before.seq and batch.genesis != before.genesis:
            raise _broken(record, f"genesis {before.genesis}", batch.genesis)
        if batch.previous_digest != before.digest:
            raise _broken(record, f"after {before.digest.hex()}", batch.previous_digest.hex())
        self.link = Link(
            genesis=batch.genesis,
            term=batch.term,
            seq=batch.seq,
            digest=digest,
        )
        return batch

    def _step(self) -> Step:
        parts, self._parts = self._parts, []
        record, batch = parts[-1]
        items = [
            Item(packed, offset=part.offset, index=index, at_ms=body.now_ms)
            for part, body in parts
            for index, packed in enumerate(body.decisions)
        ]
        inputs = {f"{i.topic}-{i.partition}": i.last for _, body in parts for i in body.inputs}
        return Step(
            last=record.offset,
            appended_ms=record.appended_ms,
            now_ms=batch.now_ms,
            link=self.link,
            inputs=inputs,
            items=items,
        )


def _batch(record: Record) -> tuple[DecisionBatch, bytes]:
    """The batch of a record, and its digest."""
    try:
        body, digest = codec.body_with_digest(record.value)
    except codec.UndecodableError as error:
        raise ChainBrokenError(f"{record.position}: {error}") from error
    if not isinstance(body, DecisionBatch):
        raise ChainBrokenError(f"{record.position}: a {type(body).__name__}, no DecisionBatch")
    return body, digest


def _broken(record: Record, expected: str, got: object) -> ChainBrokenError:
    return ChainBrokenError(f"{record.position}: expected {expected}, got {got}")
