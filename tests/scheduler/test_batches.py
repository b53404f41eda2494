"""Steps become records, and a reader notices when a record is not the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.envelope import Event
from gangline.events.log import Record, Topic
from gangline.scheduler.batches import (
    BatchRecord,
    BrokenChainError,
    Chain,
    Link,
    StepHeader,
    StepReader,
    build,
)

if TYPE_CHECKING:
    from gangline.events.batch import DecisionBatch, PackedDecision

FIRST = Link("genesis", 0, 0, b"", 0)


def held(job: str, why: str = "") -> PackedDecision:
    """Some decision."""
    return codec.pack(d.JobHeld(job=job, by="ops", why=why))


def step(link: Link, *decisions: PackedDecision, max_bytes: int = 900_000) -> list[BatchRecord]:
    """A step after that link."""
    header = StepHeader(
        link=link,
        leader="one",
        term=1,
        now_ms=link.now_ms + 10,
        caught_up=True,
        logic_version=1,
        inputs=(),
        edges=(),
        state_digest=b"s" * 32,
    )
    return build(header, decisions, max_bytes=max_bytes)


def record(value: bytes, offset: int = 0) -> Record:
    """As it would be read."""
    return Record(
        topic=Topic.DECISIONS, partition=0, offset=offset, appended_ms=0, key=b"", value=value
    )


def forged(batch: DecisionBatch, **changes: object) -> bytes:
    """The batch with other fields."""
    body = replace(batch, **changes)  # type: ignore[arg-type]
    envelope = codec.envelope_for(body, id="x", actor="scheduler:one")
    return codec.encode(Event(envelope=envelope, body=body))


def test_a_step_reads_back_as_it_was_written() -> None:
    """In one record if it fits, with the chain's end after it."""
    (made,) = step(FIRST, held("a"), held("b"))

    read = StepReader().feed(record(made.value))

    assert read is not None
    assert read.batch == made.batch
    assert read.link == made.link


def test_a_large_step_is_cut_and_put_together_again() -> None:
    """Parts carry `more`, and nobody sees a step before its last part."""
    decisions = [held(f"job-{index}", "w" * 300) for index in range(10)]
    parts = step(FIRST, *decisions, max_bytes=1_000)
    reader = StepReader()

    read = [reader.feed(record(part.value, index)) for index, part in enumerate(parts)]

    assert len(parts) == 5
    assert [part.batch.seq for part in parts] == [1, 2, 3, 4, 5]
    assert read[:-1] == [None] * 4
    assert read[-1] is not None
    assert read[-1].batch.decisions == tuple(decisions)
    assert read[-1].batch.state_digest == b"s" * 32
    assert read[-1].next_offset == 5


def test_a_step_without_decisions_still_has_a_record() -> None:
    """The driver writes one only to consume facts that nobody answers."""
    (made,) = step(FIRST)

    assert made.batch.decisions == ()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"seq": 3}, "seq"),
        ({"genesis": "another cell"}, "genesis"),
        ({"previous_digest": b"?" * 32}, "previous digest"),
        ({"term": 0}, "term"),
        ({"now_ms": 9}, "now_ms"),
    ],
)
def test_a_record_that_does_not_follow_breaks_the_chain(
    changes: dict[str, object], what: str
) -> None:
    """The exception says where, what, and both values."""
    (first,) = step(FIRST, held("a"))
    (second,) = step(first.link, held("b"))
    chain = Chain()
    chain.follow(record(first.value, 7))

    with pytest.raises(BrokenChainError, match=f"decisions-0-8: {what}: expected") as caught:
        chain.follow(record(forged(second.batch, **changes), 8))

    assert caught.value.what == what
    assert caught.value.expected != caught.value.got


def test_what_is_no_batch_breaks_the_chain() -> None:
    """Nobody but a scheduler writes there."""
    with pytest.raises(BrokenChainError, match="expected a DecisionBatch"):
        Chain().follow(record(b"garbage"))


def test_a_part_of_another_step_breaks_the_chain() -> None:
    """The parts of one step agree in everything but their decisions."""
    parts = step(FIRST, held("a", "w" * 300), held("b", "w" * 300), max_bytes=400)
    reader = StepReader()
    reader.feed(record(parts[0].value))

    with pytest.raises(BrokenChainError, match="part of a step"):
        reader.feed(record(forged(parts[1].batch, caught_up=False), 1))


def test_an_altered_body_breaks_the_chain_at_the_next_record() -> None:
    """The digest covers the bytes as they stand in the log."""
    (first,) = step(FIRST, held("a"))
    (second,) = step(first.link, held("b"))
    chain = Chain()
    chain.follow(record(forged(first.batch, now_ms=11)))

    with pytest.raises(BrokenChainError, match="previous digest"):
        chain.follow(record(second.value, 1))
