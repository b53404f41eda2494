"""Snapshots: the state at a batch, in chunks, the pointer last; and restoring one.

A snapshot spares reading the log from its start; it is never needed and never trusted: it is taken
only if its chunks are complete, their digest is right, and the restored state has the digest that
the leader recorded. Anything else is passed over with a warning, for an older one or the whole
log.

Each writer has two slots in turn, so that the topic, which keeps the newest record of a key, always
holds a whole snapshot. The first record of the first chunk is the driver's own: what it must know
beside the core's state.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gangline.events import codec
from gangline.events.batch import InputRange, SnapshotChunk, SnapshotPointer
from gangline.events.log import Message, Topic, TopicPartition
from gangline.events.reading import from_the_start, read_to_ends
from gangline.scheduler.batches import Link
from gangline.scheduler.follower import Follower
from gangline.scheduler.keyring import Keyring
from gangline.scheduler.ports import Point
from gangline.scheduler.reducer import HeartbeatReducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gangline.events.log import Log, Record
    from gangline.scheduler.leader import Outside
    from gangline.scheduler.ports import Core

CHUNK_BYTES: Final = 700_000
STATE_SCHEMA: Final = 1
SLOTS: Final = 2


class BadSnapshotError(Exception):
    """A snapshot that must not be used; the message says what is wrong with it."""


def frames(records: Iterable[bytes], *, limit: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Records, each after its length (4 bytes, big-endian), in chunks of about the limit."""
    chunk = bytearray()
    for record in records:
        if chunk and len(chunk) + len(record) + 4 > limit:
            yield bytes(chunk)
            chunk.clear()
        chunk += len(record).to_bytes(4, "big") + record
    yield bytes(chunk)


def unframed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The records again."""
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            size = int.from_bytes(chunk[at : at + 4], "big")
            yield chunk[at + 4 : at + 4 + size]
            at += 4 + size


def take(core: Core, follower: Follower) -> tuple[SnapshotPointer, list[bytes]]:
    """A snapshot of where the follower stands: its pointer (with no place yet) and its chunks."""
    link = follower.end()
    inputs = tuple(follower.inputs.values())
    own = {
        "place": _place(link, follower.next_offset, inputs),
        "fleet": follower.reducer.fleet,
        "silent": follower.reducer.silent,
        "keyring": follower.reducer.keyring.plain(),
        "touched": follower.touched,
        "leader": follower.leader,
    }
    records = [json.dumps(own).encode(), *core.dump(follower.state)]
    chunks = list(frames(records))
    pointer = SnapshotPointer(
        genesis=link.genesis,
        seq=link.seq,
        term=link.term,
        now_ms=link.now_ms,
        logic_version=follower.logic_version,
        state_schema=STATE_SCHEMA,
        batch_digest=link.digest,
        state_digest=core.state_digest(follower.state),
        next_offset=follower.next_offset,
        inputs=inputs,
        chunks=len(chunks),
        body_digest=codec.digest(b"".join(chunks)),
        first_offset=0,
    )
    return pointer, chunks


def restore(core: Core, pointer: SnapshotPointer, chunks: Sequence[bytes]) -> Follower:
    """A follower where the snapshot was taken; BadSnapshotError if anything is not as it was."""
    if len(chunks) != pointer.chunks:
        raise BadSnapshotError(f"{len(chunks)} of {pointer.chunks} chunks are there")
    if codec.digest(b"".join(chunks)) != pointer.body_digest:
        raise BadSnapshotError("the digest of its chunks is wrong")
    if pointer.logic_version > core.LOGIC_VERSION or pointer.state_schema > STATE_SCHEMA:
        raise BadSnapshotError(f"it was written by a newer program ({pointer.logic_version})")
    records = unframed(chunks)
    own = json.loads(next(records))
    state = core.load(records)
    if core.state_digest(state) != pointer.state_digest:
        raise BadSnapshotError("the restored state has another digest")
    link = Link(pointer.genesis, pointer.term, pointer.seq, pointer.batch_digest, pointer.now_ms)
    if own["place"] != _place(link, pointer.next_offset, pointer.inputs):
        raise BadSnapshotError("its pointer names another place than its chunks")
    follower = Follower(core, state=state, link=link)
    follower.logic_version = pointer.logic_version
    follower.inputs = {_partition(consumed): consumed for consumed in pointer.inputs}
    follower.resume(
        next_offset=pointer.next_offset,
        reducer=HeartbeatReducer(
            fleet=own["fleet"], silent=own["silent"], keyring=Keyring.of_plain(own["keyring"])
        ),
        touched=tuple(own["touched"]),
        leader=own["leader"],
    )
    return follower


def _place(link: Link, next_offset: int, inputs: Iterable[InputRange]) -> list[str]:
    """Where a snapshot stands, among what the digest of its chunks covers.

    A pointer that is off by one would be as good as a record lost or read twice.
    """
    said = [f"{link.genesis} {link.term} {link.seq} {link.digest.hex()} {link.now_ms}"]
    said.append(str(next_offset))
    said += [
        f"{i.topic} {i.partition} {i.first} {i.last} {i.count} {i.digest.hex()}" for i in inputs
    ]
    return said


def _partition(consumed: InputRange) -> TopicPartition:
    return TopicPartition(consumed.topic, consumed.partition)


class SnapshotWriter:
    """Writes snapshots of one scheduler to the log, into its own slots in turn."""

    def __init__(self, outside: Outside, *, actor: str, name: str) -> None:
        self._log = outside.log
        self._core = outside.core
        self._probe = outside.probe
        self._actor = actor
        self._name = name
        self._slot = 0

    def write(self, follower: Follower) -> SnapshotPointer:
        """Take a snapshot and publish it."""
        pointer, chunks = self.take(follower)
        return self.publish(pointer, chunks)

    def take(self, follower: Follower) -> tuple[SnapshotPointer, list[bytes]]:
        """The state as it is now; the follower must stand still meanwhile."""
        self._probe(Point.SNAPSHOT_BEGUN)
        return take(self._core, follower)

    def publish(self, pointer: SnapshotPointer, chunks: Sequence[bytes]) -> SnapshotPointer:
        """Write the chunks, restore a state from what was written, and only then the pointer.

        Needs nothing of the follower, so it may run in a thread of its own.
        """
        slot = f"{self._name}-{self._slot}"
        self._slot = (self._slot + 1) % SLOTS
        first = -1
        for index, body in enumerate(chunks):
            chunk = SnapshotChunk(seq=pointer.seq, index=index, body=body)
            (position,) = self._log.append([self._message(chunk, f"{slot}-chunk-{index}")])
            first = position.offset if first < 0 else first
            self._probe(Point.SNAPSHOT_CHUNK)
        pointer = replace(pointer, first_offset=first)
        restore(self._core, pointer, self._written(pointer.seq, first))
        self._probe(Point.SNAPSHOT_VERIFIED)
        self._log.append([self._message(pointer, f"{slot}-pointer")])
        self._probe(Point.SNAPSHOT_POINTED)
        return pointer

    def _written(self, seq: int, first: int) -> list[bytes]:
        chunks: dict[int, bytes] = {}
        for record in read_to_ends(self._log, {TopicPartition(Topic.SNAPSHOTS, 0): first}):
            body = _decoded(record)
            if isinstance(body, SnapshotChunk) and body.seq == seq:
                chunks.setdefault(body.index, body.body)
        return [chunks[index] for index in sorted(chunks)]

    def _message(self, body: SnapshotChunk | SnapshotPointer, key: str) -> Message:
        index = body.index if isinstance(body, SnapshotChunk) else "pointer"
        value = codec.stated(body, id=f"snapshot-{body.seq}-{index}", actor=self._actor)
        return Message(topic=Topic.SNAPSHOTS, key=key.encode(), value=value)


def _decoded(record: Record) -> object:
    try:
        body: object = codec.decode(record.value).body
    except codec.UndecodableError:
        return None
    return body


class _Found:
    """What the topic holds. Chunks of one batch by several writers are the same."""

    def __init__(self, log: Log, *, warn: Callable[[str], None]) -> None:
        self.pointers: list[SnapshotPointer] = []
        self._chunks: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        for record in read_to_ends(log, from_the_start([Topic.SNAPSHOTS])):
            body = _decoded(record)
            if isinstance(body, SnapshotChunk):
                self._chunks[body.seq, body.index].append(body.body)
            elif isinstance(body, SnapshotPointer):
                self.pointers.append(body)
            else:
                warn(f"{record.position}: no snapshot record; passed over")

    def chunks(self, pointer: SnapshotPointer) -> list[bytes]:
        """The chunks of a snapshot, as far as they are there."""
        kept = (self._chunks.get((pointer.seq, index)) for index in range(pointer.chunks))
        return [bodies[-1] for bodies in kept if bodies]


def newest_seq(log: Log) -> int:
    """The batch of the newest snapshot; 0 when there is none."""
    pointers = _Found(log, warn=lambda _text: None).pointers
    return max((pointer.seq for pointer in pointers), default=0)


def newest(log: Log, core: Core, *, warn: Callable[[str], None]) -> Follower | None:
    """A follower restored from the newest good snapshot; None when there is none."""
    found = _Found(log, warn=warn)
    for pointer in sorted(found.pointers, key=lambda p: p.seq, reverse=True):
        try:
            return restore(core, pointer, found.chunks(pointer))
        except Exception as error:  # noqa: BLE001 - whatever it trips over, the log is whole
            warn(f"snapshot at batch {pointer.seq} is passed over: {error}")
    return None
