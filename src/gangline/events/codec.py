"""Bytes to events and back: pure, and the only place that knows the wire format.

A value is a header and an Avro record. The record is the envelope's fields followed by the body's,
so its tail is exactly the body's bytes. The header is Avro's single-object encoding (C3 01 and the
schema's CRC-64-AVRO fingerprint), or Confluent's (00 and the registry's id, 4 bytes) where a
`Registry` is given. Digests cover the Avro record (`avro_bytes`), never the header.

Decisions stand in a batch as bare bodies with kind and version (`pack`, `unpack`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from typing import Any, Final, get_args

import fastavro

from gangline import schemas
from gangline.events import batch, decisions, facts
from gangline.events.avro import NAMESPACE, from_plain, schema_of, to_plain, whole_schema_of
from gangline.events.envelope import Envelope, Event
from gangline.events.spec import Spec
from gangline.schemas import SchemaId

SINGLE_OBJECT: Final = b"\xc3\x01"
CONFLUENT: Final = b"\x00"
SINGLE_HEADER_BYTES: Final = 10
_CONFLUENT_HEADER_BYTES: Final = 5

FACTS: Final[tuple[type, ...]] = (*get_args(facts.FactBody), facts.NodeHeartbeat)
DECISIONS: Final[tuple[type, ...]] = get_args(decisions.Decision)
RECORDS: Final[tuple[type, ...]] = (
    batch.DecisionBatch,
    batch.NodeAssignment,
    batch.LeaderBeat,
    batch.SnapshotChunk,
    batch.SnapshotPointer,
)
CLASSES: Final[Mapping[str, type]] = {c.__name__: c for c in (*FACTS, *DECISIONS, *RECORDS)}
"""Every body that may stand in the log, by kind. Decisions stand inside batches only."""

ENVELOPED: Final[frozenset[str]] = frozenset(c.__name__ for c in (*FACTS, *RECORDS))


class UndecodableError(ValueError):
    """The bytes are no record of this vocabulary; the message says why, in a few words."""


def record_schema(cls: type) -> dict[str, Any]:
    """The Avro schema of a body's subject.

    Envelope and body for what stands alone, the bare body for decisions.
    """
    if cls.__name__ not in ENVELOPED:
        return whole_schema_of(cls)
    named: set[str] = set()
    return {
        "type": "record",
        "name": f"{cls.__name__}Event",
        "namespace": NAMESPACE,
        "fields": [
            {"name": "envelope", "type": schema_of(Envelope, named=named)},
            {"name": "body", "type": schema_of(cls, named=named)},
        ],
    }


@cache
def _parsed(schema_id: SchemaId) -> Any:  # noqa: ANN401 - fastavro's own
    return fastavro.parse_schema(schemas.load(schema_id))


@cache
def _reader(schema_id: SchemaId) -> tuple[Any, Any]:
    """The writer's schema, and the reader's where that is a newer one (else None)."""
    newest = schemas.latest_version(schema_id.subject)
    current = None
    if newest != schema_id.version:
        current = _parsed(SchemaId(schema_id.subject, newest))
    return _parsed(schema_id), current


@cache
def _writer(kind: str) -> tuple[bytes, Any, Any]:
    """Single-object header, parsed schema, and converter of the newest version of a kind."""
    schema_id = SchemaId(kind, schemas.latest_version(kind))
    header = SINGLE_OBJECT + schemas.fingerprint(schema_id)
    return header, _parsed(schema_id), to_plain(CLASSES[kind])


_envelope_plain = to_plain(Envelope)
_envelope_object = from_plain(Envelope)


def envelope_for(body: Any, *, id: str, actor: str) -> Envelope:  # noqa: A002, ANN401
    """An unsigned envelope for a body, of the newest version of its kind."""
    kind = type(body).__name__
    return Envelope(id=id, kind=kind, version=schemas.latest_version(kind), actor=actor)


def stated(body: Any, *, id: str, actor: str) -> bytes:  # noqa: A002, ANN401
    """The value of a record in which somebody states a body, unsigned."""
    return encode(Event(envelope=envelope_for(body, id=id, actor=actor), body=body))


def encode(event: Event) -> bytes:
    """The value of a record, with the single-object header."""
    header, schema, convert = _writer(type(event.body).__name__)
    out = BytesIO()
    out.write(header)
    plain = {"envelope": _envelope_plain(event.envelope), "body": convert(event.body)}
    fastavro.schemaless_writer(out, schema, plain)
    return out.getvalue()


def decode(value: bytes) -> Event:
    """The event of a value; UndecodableError says what is wrong with it."""
    if value[:2] != SINGLE_OBJECT:
        message = "no single-object header"
        raise UndecodableError(message)
    schema_id = schemas.by_fingerprint().get(value[2:SINGLE_HEADER_BYTES])
    if schema_id is None or schema_id.subject not in ENVELOPED:
        message = "unknown schema"
        raise UndecodableError(message)
    return decode_avro(value[SINGLE_HEADER_BYTES:], schema_id)


def decode_avro(avro: bytes, schema_id: SchemaId) -> Event:
    """The event of bare Avro bytes written with this schema.

    UndecodableError says what is wrong with them.
    """
    writer, reader = _reader(schema_id)
    source = BytesIO(avro)
    try:
        plain: Any = fastavro.schemaless_reader(source, writer, reader)
        envelope = _envelope_object(plain["envelope"])
        body = from_plain(CLASSES[schema_id.subject])(plain["body"])
    except Exception as error:  # fastavro raises whatever it trips over
        message = f"not a {schema_id.subject}: {type(error).__name__}"
        raise UndecodableError(message) from error
    if source.tell() != len(avro):
        message = "bytes left over"
        raise UndecodableError(message)
    if envelope.kind != schema_id.subject:
        message = f"the envelope says {envelope.kind}, the schema {schema_id.subject}"
        raise UndecodableError(message)
    return Event(envelope=envelope, body=body)


def avro_bytes(value: bytes) -> bytes:
    """What digests cover: the value without its wire header.

    All of it where there is no known header.
    """
    if value[:2] == SINGLE_OBJECT:
        return value[SINGLE_HEADER_BYTES:]
    if value[:1] == CONFLUENT and len(value) > _CONFLUENT_HEADER_BYTES:
        return value[_CONFLUENT_HEADER_BYTES:]
    return value


def body_bytes(body: Any) -> bytes:  # noqa: ANN401 - any class of the vocabulary
    """The Avro bytes of a bare body, as they stand at the tail of its record.

    What signatures cover.
    """
    kind = type(body).__name__
    _, schema, convert = _writer(kind)
    bare = _bare_schema(kind) if kind in ENVELOPED else schema
    out = BytesIO()
    fastavro.schemaless_writer(out, bare, convert(body))
    return out.getvalue()


def body_of_spec(spec: Spec) -> bytes:
    """The Avro bytes of a spec alone."""
    out = BytesIO()
    fastavro.schemaless_writer(out, _spec_schema(), _spec_plain(spec))
    return out.getvalue()


def spec_of_body(body: bytes) -> Spec:
    """The spec of its Avro bytes, as `body_of_spec` of this program wrote them."""
    plain: Any = fastavro.schemaless_reader(BytesIO(body), _spec_schema(), None)
    spec: Spec = from_plain(Spec)(plain)
    return spec


_spec_plain = to_plain(Spec)


@cache
def _spec_schema() -> Any:  # noqa: ANN401
    return fastavro.parse_schema(schema_of(Spec))


@cache
def _bare_schema(kind: str) -> Any:  # noqa: ANN401
    return fastavro.parse_schema(schema_of(CLASSES[kind]))


def pack(decision: decisions.Decision) -> batch.PackedDecision:
    """A decision as it stands in a batch."""
    kind = type(decision).__name__
    _, schema, convert = _writer(kind)
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, convert(decision))
    return batch.PackedDecision(
        kind=kind, version=schemas.latest_version(kind), body=out.getvalue()
    )


def unpack(packed: batch.PackedDecision) -> decisions.Decision | None:
    """The decision.

    None for a kind or version that this program does not know, UndecodableError for damage.
    """
    known = packed.kind in CLASSES and packed.version <= schemas.latest_version(packed.kind)
    if not known or packed.version < 1:
        return None
    schemas_of = _reader(SchemaId(packed.kind, packed.version))
    decision: decisions.Decision = _bare(packed.kind, packed.body, schemas_of)
    return decision


def _bare(kind: str, data: bytes, schemas_of: tuple[Any, Any]) -> Any:  # noqa: ANN401
    """A body of bytes that are nothing else; UndecodableError. schemas_of: writer's, reader's."""
    source = BytesIO(data)
    try:
        plain: Any = fastavro.schemaless_reader(source, *schemas_of)
        body = from_plain(CLASSES[kind])(plain)
    except Exception as error:
        message = f"not a {kind}: {type(error).__name__}"
        raise UndecodableError(message) from error
    if source.tell() != len(data):
        message = "bytes left over"
        raise UndecodableError(message)
    return body


def digest(data: bytes) -> bytes:
    """BLAKE2b-256, the digest of everything that is chained."""
    return hashlib.blake2b(data, digest_size=32).digest()


def schema_id_of(value: bytes) -> SchemaId | None:
    """The schema that a value's single-object header names; None where there is none of ours."""
    if value[:2] != SINGLE_OBJECT:
        return None
    return schemas.by_fingerprint().get(value[2:SINGLE_HEADER_BYTES])


@cache
def _envelope_schema(schema_id: SchemaId) -> Any:  # noqa: ANN401 - fastavro's own
    return fastavro.parse_schema(schemas.load(schema_id)["fields"][0]["type"])


def split(value: bytes) -> tuple[dict[str, Any], bytes]:
    """A value's envelope as a plain dict, and the bytes of its bare body as they stand there.

    UndecodableError where no envelope can be read; the body is not looked at.
    """
    schema_id = schema_id_of(value)
    if schema_id is None or schema_id.subject not in ENVELOPED:
        message = "no known header"
        raise UndecodableError(message)
    source = BytesIO(value)
    source.seek(SINGLE_HEADER_BYTES)
    try:
        envelope: Any = fastavro.schemaless_reader(source, _envelope_schema(schema_id), None)
    except Exception as error:  # fastavro raises whatever it trips over
        message = f"no envelope: {type(error).__name__}"
        raise UndecodableError(message) from error
    return envelope, source.read()


@cache
def _body_reader(schema_id: SchemaId) -> tuple[Any, Any]:
    """As `_reader`, of the body alone."""
    return tuple(  # type: ignore[return-value]
        None if whole is None else fastavro.parse_schema(whole["fields"][1]["type"])
        for whole in _reader(schema_id)
    )


def body_with_digest(value: bytes) -> tuple[Any, bytes]:
    """A value's body, and the digest that the next record of a chain names; UndecodableError.

    For who reads long chains: the envelope is read once, and no object is made of it.
    """
    envelope, data = split(value)
    schema_id = schema_id_of(value)
    if schema_id is None or envelope["kind"] != schema_id.subject:
        message = f"the envelope says {envelope['kind']}, the schema another kind"
        raise UndecodableError(message)
    return _bare(schema_id.subject, data, _body_reader(schema_id)), digest(data)


def body_digest(value: bytes) -> bytes:
    """The digest of a value's bare body: what the next record of a chain names."""
    return digest(split(value)[1])
