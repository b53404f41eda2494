"""The state as bytes: for digests, which change with what was touched, and for snapshots.

Every entity has one Avro encoding. The state's digest is over the sum (modulo 2^256) of the
BLAKE2b-256 hashes of all entities, each hashed with its class, so that it can be kept in step:
subtract the old hash, add the new. A snapshot begins with the schemas it was written with; Avro's
resolution reads it into newer classes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import Field, fields
from functools import cache
from typing import Any, Final

import fastavro

from gangline.events import codec
from gangline.events.avro import from_plain, read_plain, to_plain, whole_schema_of, write_plain
from gangline.scheduler.core.entities import (
    Cell,
    Done,
    Entity,
    Job,
    Node,
    Reservation,
    Team,
)
from gangline.scheduler.core.keys import key_of
from gangline.scheduler.core.rebuild import rebuild
from gangline.scheduler.core.state import State

KINDS: Final[tuple[type, ...]] = (Cell, Team, Node, Job, Reservation, Done)
STATE_SCHEMA: Final = 1
_MODULUS: Final = 1 << 256
_CHUNK_BYTES: Final = 500_000


def kept(cls: type) -> list[Field[Any]]:
    """The fields that are no derived ones."""
    return [f for f in fields(cls) if not f.metadata.get("derived")]


@cache
def names(kind: type) -> tuple[str, ...]:
    """The names of the kept fields, and of those that are rebuilt while reading."""
    return tuple(f.name for f in kept(kind))


@cache
def _schema(kind: type) -> Any:  # noqa: ANN401 - fastavro's own
    return fastavro.parse_schema(_plain_schema(kind))


def _plain_schema(kind: type) -> dict[str, Any]:
    return whole_schema_of(kind, only=names(kind))


@cache
def _converter(kind: type) -> Any:  # noqa: ANN401
    return to_plain(kind, only=names(kind))


def encode(entity: Entity) -> bytes:
    """The Avro bytes of an entity's kept fields."""
    kind: type = type(entity)
    return write_plain(_schema(kind), _converter(kind)(entity))


def _hash(entity: Entity) -> int:
    name = type(entity).__name__.encode()
    data = hashlib.blake2b(name + b":" + encode(entity), digest_size=32).digest()
    return int.from_bytes(data, "big")


def find(state: State, key: tuple[str, str]) -> Entity | None:
    """The entity of a key, if it is still there."""
    kind, name = key
    if kind == "Cell":
        return state.cell
    tables: dict[str, dict[str, Any]] = {
        "Job": state.jobs,
        "Node": state.nodes,
        "Team": state.teams,
        "Reservation": state.reservations,
        "Done": state.done,
    }
    found: Entity | None = tables[kind].get(name)
    return found


def state_digest(state: State) -> bytes:
    """BLAKE2b-256 over the sum of all entities' hashes.

    Costs what was touched since the last call.
    """
    for key in state.dirty:
        before = state.hashes.pop(key, 0)
        entity = find(state, key)
        after = 0
        if entity is not None:
            after = state.hashes[key] = _hash(entity)
        state.digest_sum = (state.digest_sum - before + after) % _MODULUS
    state.dirty.clear()
    return hashlib.blake2b(state.digest_sum.to_bytes(32, "big"), digest_size=32).digest()


def entities(state: State) -> Iterator[Entity]:
    """Everything that is kept, in an order that a reader can build on."""
    yield state.cell
    yield from state.teams.values()
    yield from state.nodes.values()
    yield from state.jobs.values()
    yield from state.reservations.values()
    yield from state.done.values()


def dump(state: State) -> Iterator[bytes]:
    """A snapshot in chunks of about half a megabyte."""
    schemas = {kind.__name__: _plain_schema(kind) for kind in KINDS}
    yield json.dumps({"state_schema": STATE_SCHEMA, "schemas": schemas}).encode()
    out = bytearray()
    for entity in entities(state):
        data = encode(entity)
        out += bytes([KINDS.index(type(entity))]) + len(data).to_bytes(4, "big") + data
        if len(out) >= _CHUNK_BYTES:
            yield bytes(out)
            out = bytearray()
    if out:
        yield bytes(out)


def load(chunks: Iterable[bytes]) -> State:
    """The state of a snapshot; ValueError when it is none."""
    source = iter(chunks)
    header = json.loads(next(source, b"{}"))
    if header.get("state_schema") != STATE_SCHEMA:
        message = f"a snapshot of state schema {header.get('state_schema')}, not {STATE_SCHEMA}"
        raise ValueError(message)
    written = {name: fastavro.parse_schema(schema) for name, schema in header["schemas"].items()}
    state = State()
    for chunk in source:
        at = 0
        while at < len(chunk):
            kind = KINDS[chunk[at]]
            size = int.from_bytes(chunk[at + 1 : at + 5], "big")
            _enter(state, kind, chunk[at + 5 : at + 5 + size], written[kind.__name__])
            at += 5 + size
    rebuild(state)
    for entity in entities(state):
        state.dirty[key_of(entity)] = None
    state_digest(state)
    return state


def _enter(state: State, kind: type, data: bytes, written: Any) -> None:  # noqa: ANN401
    plain: Any = read_plain(data, written, _schema(kind))
    if kind is Job:
        plain["spec"] = codec.spec_of_body(plain["spec_body"])
    entity = from_plain(kind, only=names(kind))(plain)
    if isinstance(entity, Cell):
        state.cell = entity
    elif isinstance(entity, Team):
        state.teams[entity.name] = entity
    elif isinstance(entity, Node):
        state.nodes[entity.name] = entity
    elif isinstance(entity, Job):
        state.jobs[entity.id] = entity
    elif isinstance(entity, Reservation):
        state.reservations[entity.job] = entity
    elif isinstance(entity, Done):
        state.done[entity.id] = entity
