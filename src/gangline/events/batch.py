"""What the scheduler writes: batches of decisions, assignments of nodes, beats, snapshots.

A batch names the facts it consumed and proves their bytes, so that any reader can feed the same
facts in the same order at the same time to the same `step`, and must get the same bytes. Batches
are chained by digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gangline.events.spec import Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRange:
    """Facts of one partition that a batch consumed.

    Digest: BLAKE2b-256 over their Avro bodies in order.

    first, last: offsets, inclusive (holes are allowed). count: how many records.
    """

    topic: str
    partition: int
    first: int
    last: int
    count: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """What the driver noticed, as no fact says it.

    kind: `silent` (a node is not heard any more; at_ms: when it was last heard), `heard` (it is
    heard again; at_ms: since when), or `led` (the scheduler `node` leads from now on, or goes on
    after a gap in reading; why: `start`, `takeover`, `hand_over` or `gap`; at_ms: the step's time).
    """

    kind: str
    node: str
    at_ms: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedDecision:
    """A decision as bytes, so that an old reader can skip a kind it does not know. body: Avro."""

    kind: str
    version: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionBatch:
    """One step of the scheduler, or a part of one.

    genesis: the cell's birth id, from its first batch. seq: counts records of `decisions` from 1.
    more: the next record of the same transaction belongs to the same step. now_ms: the step's time.
    caught_up: all inputs had been read to the ends seen at now_ms. logic_version: which core
    decided. inputs, edges: in the first part only. state_digest: after the whole step, in the last
    part only. previous_digest: of the record before this one (BLAKE2b-256 of its body).
    """

    genesis: str
    term: int
    seq: int
    more: bool
    now_ms: int
    caught_up: bool
    logic_version: int
    inputs: tuple[InputRange, ...]
    edges: tuple[Edge, ...]
    decisions: tuple[PackedDecision, ...]
    state_digest: bytes
    previous_digest: bytes


class MemberPhase(StrEnum):
    """What a node should do with a member now."""

    PREPARE = "prepare"
    RUN = "run"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMember:
    """One member on one node: everything its agent needs to know.

    number: the job's small integer. gpus: indices on this node. member: its place in `nodes`, from
    0. nodes, gpus_by_node: all members in rank order. first_rank, world_size: in GPUs. address,
    port: rank 0's rendezvous, known in phase `run`. resume_path, resume_step, resumed_ms: the
    checkpoint to go on from, empty and 0 for none. grace_ms, stop_cause: in phase `stop`; the grace
    counts from receipt.
    """

    job: str
    number: int
    attempt: int
    phase: MemberPhase
    gpus: tuple[int, ...]
    member: int
    nodes: tuple[str, ...]
    gpus_by_node: tuple[int, ...]
    first_rank: int
    world_size: int
    spec: Spec
    address: str = ""
    port: int = 0
    resume_path: str = ""
    resume_step: int = 0
    resumed_ms: int = 0
    grace_ms: int = 0
    stop_cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAssignment:
    """What a node should run now: its whole desired state, level-triggered.

    Only a record of this cell (genesis) with a higher (term, seq) changes what a node runs; the
    absence of a record never stops anything; a member that runs but is not listed is fenced and
    must be stopped.
    """

    genesis: str
    term: int
    seq: int
    node: str
    members: tuple[AssignedMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderBeat:
    """The leader is alive. seq: of its last batch. beat: counts up.

    Handing_over: to whoever takes it.
    """

    leader: str
    term: int
    seq: int
    beat: int
    handing_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChunk:
    """A piece of a snapshot. index: from 0.

    Body: some of the state's records, as the core encodes them.
    """

    seq: int
    index: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPointer:
    """A complete snapshot, written after all its chunks.

    seq, term, now_ms, digest: of the batch it stands at. next_offset: of `decisions` after it.
    cursors: next offsets of the input partitions. chunks: how many. body_digest: BLAKE2b-256 over
    all chunks.
    """

    genesis: str
    seq: int
    term: int
    now_ms: int
    logic_version: int
    state_schema: int
    batch_digest: bytes
    state_digest: bytes
    next_offset: int
    inputs: tuple[InputRange, ...]
    chunks: int
    body_digest: bytes
    first_offset: int
