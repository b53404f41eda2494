"""What the state holds: jobs, nodes, teams, reservations, and the ids of ended jobs.

Each class lists first what is kept (it stands in snapshots and digests), then, after `# derived`,
what can be rebuilt from that and from the other entities (`State.rebuild`). Only `apply.py` writes
to either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gangline.events.decisions import Certificate, Health, Seat, Service
from gangline.events.spec import JobClass, Spec, TopologyKind
from gangline.scheduler.core.lifecycle import Phase

DERIVED = {"derived": True}


@dataclass(slots=True, kw_only=True)
class MemberEnd:
    """How one member of the present attempt ended.

    presumed: nobody said so, its node is fenced. failed_at_ms: by its node's clock, 0: unknown.
    """

    node: str
    code: int
    signal: int
    reason: str
    presumed: bool
    failed_at_ms: int = 0

    @property
    def by_machine(self) -> bool:
        """Whether the machine ended it: a hang may be of the network as well as of the program."""
        return self.reason in ("infrastructure", "hung")


@dataclass(slots=True, kw_only=True)
class Job:
    """A live job.

    number: the cell's small integer, in order of acceptance. queued_ms: since when it waits this
    time. attempt: counts placements; starts: counts GangStarted. failures: infrastructure failures
    in a row without new progress, on the distinct nodes failed_nodes. saved_*: the newest
    checkpoint. placed_ms to stop_by: of the present attempt. final: what a stopping job becomes
    whatever caused the stop (`cancelled`, `limit`). chain: how many preemptions led to its present
    wait. spec_body: the spec's Avro bytes (kept for digests). by_model: the GPUs that it holds of
    each guaranteed model.
    """

    id: str
    number: int
    spec_body: bytes
    job_class: JobClass
    submitted_ms: int
    actor: str
    array: str
    phase: Phase = Phase.QUEUED
    queued_ms: int = 0
    held_by: str = ""
    held_why: str = ""
    not_before_ms: int = 0
    attempt: int = 0
    starts: int = 0
    preemptions: int = 0
    retries_used: int = 0
    failures: int = 0
    failed_nodes: tuple[str, ...] = ()
    failed_at_ms: int = 0
    chain: int = 0
    cause: str = ""
    cause_text: str = ""
    saved_ms: int = 0
    saved_step: int = 0
    saved_path: str = ""
    seats: tuple[Seat, ...] = ()
    ready: tuple[str, ...] = ()
    address: str = ""
    port: int = 0
    placed_ms: int = 0
    started_ms: int = 0
    resumed_ms: int = 0
    ended: tuple[MemberEnd, ...] = ()
    stop_cause: str = ""
    stop_ms: int = 0
    stop_grace_ms: int = 0
    claimant: str = ""
    final: str = ""
    # derived
    spec: Spec = field(metadata=DERIVED)
    group: tuple[object, ...] = field(default=(), metadata=DERIVED)
    waiting_for: int = field(default=0, metadata=DERIVED)
    shape: tuple[object, ...] | None = field(default=None, metadata=DERIVED)
    ends_ms: int = field(default=0, metadata=DERIVED)
    by_model: dict[str, int] = field(default_factory=dict, metadata=DERIVED)

    @property
    def gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.spec.gpus

    @property
    def required_level(self) -> str:
        """The level that its place may not cross; empty for none."""
        topology = self.spec.topology
        return topology.level if topology.kind is TopologyKind.REQUIRED else ""

    @property
    def can_save(self) -> bool:
        """Whether it can checkpoint."""
        return self.spec.checkpoint is not None


@dataclass(slots=True, kw_only=True)
class Lingering:
    """Processes of a fenced attempt that are not known to be gone. gpus: a bit mask."""

    job: str
    attempt: int
    gpus: int


@dataclass(slots=True, kw_only=True)
class Window:
    """An announced maintenance."""

    from_ms: int
    until_ms: int
    why: str
    by: str


@dataclass(slots=True, kw_only=True)
class Strike:
    """Something that counts towards quarantine. job: whose members were not ready.

    Empty for faults and losses.
    """

    at_ms: int
    job: str


@dataclass(slots=True, kw_only=True)
class Node:
    """A node of the fleet.

    order: counts admissions. gpus: how many; the masks have one bit a GPU. silent_ms: when it was
    last heard, 0 while it is heard. unready_until_ms, unready_times: suspicion that heartbeats do
    not clear. quarantines: how many so far. faults: what is wrong, by the GPU's index; fault_seen:
    the number of the newest fact of a fault or its end, by the GPU's index.
    """

    name: str
    order: int
    path: tuple[str, ...]
    levels: tuple[str, ...]
    gpus: int
    labels: Mapping[str, str]
    public_key: bytes
    boot_id: str = ""
    address: str = ""
    silent_ms: int = 0
    lost: bool = False
    unready_until_ms: int = 0
    unready_times: int = 0
    quarantined_until_ms: int = 0
    quarantines: int = 0
    strikes: tuple[Strike, ...] = ()
    service: Service = Service.OPEN
    service_why: str = ""
    deadline_ms: int = 0
    windows: tuple[Window, ...] = ()
    bad: int = 0
    faults: Mapping[str, str] = field(default_factory=dict)
    fault_seen: Mapping[str, int] = field(default_factory=dict)
    lingering: tuple[Lingering, ...] = ()
    # derived
    used: int = field(default=0, metadata=DERIVED)
    claimed: int = field(default=0, metadata=DERIVED)
    stuck: int = field(default=0, metadata=DERIVED)
    avail: int = field(default=0, metadata=DERIVED)
    gangs: dict[str, int] = field(default_factory=dict, metadata=DERIVED)
    all: int = field(default=0, metadata=DERIVED)
    rank: tuple[int, ...] = field(default=(), metadata=DERIVED)

    @property
    def health(self) -> Health:
        """The worst that holds."""
        if self.lost:
            return Health.LOST
        if self.quarantined_until_ms:
            return Health.QUARANTINED
        if self.silent_ms or self.unready_until_ms:
            return Health.SUSPECTED
        return Health.WELL

    def __post_init__(self) -> None:
        """`all` is the mask of all its GPUs."""
        self.all = (1 << self.gpus) - 1

    @property
    def sound(self) -> int:
        """The mask of GPUs that are neither bad nor stuck with fenced processes."""
        return self.all & ~(self.bad | self.stuck)

    @property
    def usable(self) -> int:
        """The mask of GPUs that new work could ever use as the node stands: well, open, not bad."""
        if self.lost or self.silent_ms or self.unready_until_ms or self.quarantined_until_ms:
            return 0
        return self.all & ~(self.bad | self.stuck) if self.service is Service.OPEN else 0


class Kind(NamedTuple):
    """What the rights over a team's gangs depend on. models: guaranteed ones they stand on."""

    job_class: int
    models: tuple[str, ...]


class Evictable(NamedTuple):
    """Gangs of one team and kind that may be evicted: all their GPUs, and the largest's."""

    gpus: int
    largest: int


@dataclass(slots=True, kw_only=True)
class Team:
    """A team. guaranteed, borrow, lend: GPUs (-1: unlimited). by_model: guaranteed of one model.

    Usage: decayed GPU-milliseconds as of usage_ms.
    """

    name: str
    order: int
    guaranteed: int = 0
    borrow: int = -1
    lend: int = -1
    weight: int = 1
    parent: str = ""
    by_model: Mapping[str, int] = field(default_factory=dict)
    usage: int = 0
    usage_ms: int = 0
    # derived: its own jobs' gangs; GPUs held
    # by its own jobs and by the whole branch; what will be held more (claims) or less (gangs that
    # leave) of each; its jobs that wait, and the GPUs they want; what could be evicted now (see
    # rights.py), and until when that is so
    own: int = field(default=0, metadata=DERIVED)
    used: int = field(default=0, metadata=DERIVED)
    own_pledged: int = field(default=0, metadata=DERIVED)
    pledged: int = field(default=0, metadata=DERIVED)
    queued: int = field(default=0, metadata=DERIVED)
    wanted: int = field(default=0, metadata=DERIVED)
    gangs: dict[str, Job] = field(default_factory=dict, metadata=DERIVED)
    reach: dict[bool, tuple[int, dict[Kind, Evictable]]] = field(
        default_factory=dict, metadata=DERIVED
    )
    children: list[Team] = field(default_factory=list, metadata=DERIVED)
    up: Team | None = field(default=None, metadata=DERIVED)


@dataclass(slots=True, kw_only=True)
class Kept:
    """GPUs that a reservation keeps on a node. held: mask of those a claim has already."""

    node: str
    gpus: int
    held: int


@dataclass(slots=True, kw_only=True)
class Reservation:
    """Room kept for a waiting job: `plan`, `firm` or `claim` (see ReservationPlanned).

    planned_ms: when it was made. victims: of a claim, those not yet out. disturbed: a gang came or
    went on its nodes since.
    """

    job: str
    kind: str
    planned_ms: int
    start_ms: int
    end_ms: int
    seats: tuple[Kept, ...]
    victims: tuple[str, ...]
    disturbed: bool = False


@dataclass(slots=True, kw_only=True)
class Done:
    """An ended job. tasks: of an array, how many (the array's own id is remembered too)."""

    id: str
    outcome: str
    at_ms: int


@dataclass(slots=True, kw_only=True)
class Spent:
    """GPU-time of attempts that were preempted, within the last hour."""

    at_ms: int
    gpu_ms: int


@dataclass(slots=True, kw_only=True)
class Cell:
    """What there is one of.

    deadlines_from_ms: waits for facts count from here at the earliest. causes_ms: when a wait cause
    was recorded last. stale_ms: since when all of them may be others, 0 when they were looked at.
    """

    now_ms: int = 0
    term: int = 0
    leader: str = ""
    logic_version: int = 1
    policy_version: int = 0
    policy: Mapping[str, int] = field(default_factory=dict)
    next_number: int = 1
    next_node: int = 1
    next_team: int = 1
    deadlines_from_ms: int = 0
    causes_ms: int = 0
    stale_ms: int = 0
    preempted: tuple[Spent, ...] = ()


Entity = Job | Node | Team | Reservation | Done | Cell
NO_CERTIFICATE = Certificate()
