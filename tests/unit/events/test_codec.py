"""Bytes to events and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import fastavro
import pytest
from fastavro.schema import to_parsing_canonical_form
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline import schemas
from gangline.events import batch, codec
from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.codec import UndecodableError
from gangline.events.envelope import Envelope, Event
from gangline.events.spec import JobClass, Private, Spec
from gangline.schemas import SchemaId
from tests.unit.events.instances import instances, of

ALONE = [codec.CLASSES[kind] for kind in sorted(codec.ENVELOPED)]


def event_of(body: Any, **fields: Any) -> Event:
    """A body in its envelope."""
    envelope = codec.envelope_for(body, id="i", actor="user:ann")
    return Event(envelope=dataclasses.replace(envelope, **fields), body=body)


CORDONED = codec.encode(event_of(f.NodeCordoned(node="n0", why="fan")))


# --- there and back -------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ALONE, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_what_is_written_is_read(cls: type, data: st.DataObject) -> None:
    """Every class that stands alone, with its envelope."""
    body = data.draw(instances(cls))
    signed = data.draw(st.fixed_dictionaries({"key_id": of(str), "signature": of(bytes)}))
    event = event_of(body, **signed)

    assert codec.decode(codec.encode(event)) == event


@pytest.mark.parametrize("cls", codec.DECISIONS, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_packed_decision_is_unpacked(cls: type, data: st.DataObject) -> None:
    """Every decision, as bytes with kind and version."""
    decision = data.draw(instances(cls))

    packed = codec.pack(decision)

    assert (packed.kind, packed.version) == (cls.__name__, schemas.latest_version(cls.__name__))
    assert codec.unpack(packed) == decision


@given(instances(Spec))
@settings(max_examples=30, deadline=None)
def test_a_spec_alone_is_read_again(spec: Spec) -> None:
    """As it stands in the state."""
    assert codec.spec_of_body(codec.body_of_spec(spec)) == spec


@given(instances(f.JobSubmitted))
@settings(max_examples=30, deadline=None)
def test_equal_events_are_equal_bytes(body: f.JobSubmitted) -> None:
    """Maps are written in the order of their keys, however they were filled."""
    turned = dict(reversed(list(body.spec.labels.items())))
    same = dataclasses.replace(body, spec=dataclasses.replace(body.spec, labels=turned))

    assert codec.encode(event_of(same)) == codec.encode(event_of(body))


# --- the record -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ALONE, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_the_body_is_the_tail_of_the_record(cls: type, data: st.DataObject) -> None:
    """What a signature covers stands in the log byte for byte."""
    body = data.draw(instances(cls))

    assert codec.encode(event_of(body)).endswith(codec.body_bytes(body))


def rabin(data: bytes) -> bytes:
    """CRC-64-AVRO as Avro's specification writes it, little-endian."""
    empty = 0xC15D213AA4D7A795
    table = []
    for value in range(256):
        print_ = value
        for _ in range(8):
            print_ = (print_ >> 1) ^ (empty & -(print_ & 1))
        table.append(print_)
    print_ = empty
    for byte in data:
        print_ = (print_ >> 8) ^ table[(print_ ^ byte) & 0xFF]
    return print_.to_bytes(8, "little")


@pytest.mark.parametrize("kind", sorted(codec.CLASSES))
def test_the_header_names_the_schema(kind: str) -> None:
    """Avro's single-object encoding: any Avro library finds the schema by it."""
    newest = SchemaId(kind, schemas.latest_version(kind))
    canonical = to_parsing_canonical_form(fastavro.parse_schema(schemas.load(newest)))

    assert schemas.fingerprint(newest) == rabin(canonical.encode())


def test_a_value_begins_with_the_two_marks_and_the_fingerprint() -> None:
    """Ten bytes, then the record; digests cover the record only."""
    newest = SchemaId("NodeCordoned", schemas.latest_version("NodeCordoned"))

    assert CORDONED[:2] == b"\xc3\x01"
    assert CORDONED[2:10] == schemas.fingerprint(newest)
    assert codec.avro_bytes(CORDONED) == CORDONED[10:]
    assert codec.avro_bytes(b"\x00\x00\x00\x00\x07" + CORDONED[10:]) == CORDONED[10:]
    assert codec.avro_bytes(b"garbage") == b"garbage"


# --- what is not to be read -----------------------------------------------------------------------

NO_EVENT: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "no single-object header"),
    ("text", b'{"job": 1}', "no single-object header"),
    ("another header", b"\x00\x00\x00\x00\x07" + CORDONED[10:], "no single-object header"),
    ("a header cut short", CORDONED[:6], "unknown schema"),
    ("another schema", CORDONED[:2] + bytes(8) + CORDONED[10:], "unknown schema"),
    ("nothing after the header", CORDONED[:10], "not a NodeCordoned: EOFError"),
    ("a record cut short", CORDONED[:-1], "not a NodeCordoned: EOFError"),
    ("bytes left over", CORDONED + b"\x00", "bytes left over"),
    (
        "another kind's envelope",
        codec.encode(event_of(f.NodeCordoned(node="n0"), kind="NodeUncordoned")),
        "the envelope says NodeUncordoned, the schema NodeCordoned",
    ),
    (
        "a decision alone",
        b"\xc3\x01" + schemas.fingerprint(SchemaId("JobHeld", 1)) + b"\x00\x00\x00",
        "unknown schema",
    ),
]


@pytest.mark.parametrize(("value", "why"), [r[1:] for r in NO_EVENT], ids=[r[0] for r in NO_EVENT])
def test_what_cannot_be_read_says_why(value: bytes, why: str) -> None:
    """In a few words, which then stand in the refusal."""
    with pytest.raises(UndecodableError) as caught:
        codec.decode(value)

    assert str(caught.value) == why


def test_a_class_that_does_not_exist_cannot_be_read() -> None:
    """An enum's value of a future program."""
    body = f.JobPriorityChangeRequested(job="j", job_class=JobClass.HIGH)
    value = codec.encode(event_of(body))

    with pytest.raises(UndecodableError, match="ValueError"):
        codec.decode(value[:-1] + b"\x7e")


@given(st.sampled_from(ALONE), st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_garbage_behind_a_true_header_is_only_undecodable(cls: type, garbage: bytes) -> None:
    """Whatever the reader trips over, nobody else does."""
    newest = SchemaId(cls.__name__, schemas.latest_version(cls.__name__))

    try:
        event = codec.decode(codec.SINGLE_OBJECT + schemas.fingerprint(newest) + garbage)
    except UndecodableError:
        return
    assert isinstance(event.body, cls)


@given(st.sampled_from(codec.DECISIONS), st.binary(max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_damaged_decision_is_only_undecodable(cls: type, garbage: bytes) -> None:
    """Its batch's digest would have told before."""
    packed = batch.PackedDecision(kind=cls.__name__, version=1, body=garbage)

    try:
        decision = codec.unpack(packed)
    except UndecodableError:
        return
    assert isinstance(decision, cls)


def test_a_decision_with_bytes_left_over_is_undecodable() -> None:
    """Bytes that nobody reads would be a place to hide things in."""
    packed = codec.pack(d.JobHeld(job="j", by="b", why="w"))
    longer = dataclasses.replace(packed, body=packed.body + b"\x00")

    with pytest.raises(UndecodableError, match="bytes left over"):
        codec.unpack(longer)


@pytest.mark.parametrize(
    ("kind", "version"), [("NodePainted", 1), ("JobHeld", 99), ("JobHeld", 0), ("JobHeld", -1)]
)
def test_a_decision_of_a_newer_program_is_none(kind: str, version: int) -> None:
    """An old view skips it, or stops, by a declared rule."""
    body = codec.pack(d.JobHeld(job="j", by="b", why="w")).body

    assert codec.unpack(batch.PackedDecision(kind=kind, version=version, body=body)) is None


# --- what stands there from the first version -----------------------------------------------------


def names(cls: type) -> set[str]:
    """The fields of a class."""
    return {field.name for field in dataclasses.fields(cls)}


def test_the_envelope_is_whole_from_the_first_version() -> None:
    """Who says it, of what kind and version, and a signature."""
    assert names(Envelope) == {"id", "kind", "version", "actor", "key_id", "signature"}


def test_a_batch_is_whole_from_the_first_version() -> None:
    """What was read, what was decided, and the digests that chain it."""
    assert names(batch.DecisionBatch) >= {
        "term",
        "seq",
        "now_ms",
        "caught_up",
        "inputs",
        "edges",
        "decisions",
        "state_digest",
        "previous_digest",
        "logic_version",
    }
    assert names(batch.InputRange) == {"topic", "partition", "first", "last", "count", "digest"}


def test_a_spec_is_whole_from_the_first_version() -> None:
    """So that nothing has to break later."""
    assert names(Spec) >= {
        "team",
        "gpus",
        "gpus_per_node",
        "job_class",
        "limit_ms",
        "checkpoint",
        "topology",
        "retries",
        "after",
        "count",
        "selector",
        "labels",
        "private",
    }
    assert names(Private) == {"key_id", "nonce", "ciphertext"}
