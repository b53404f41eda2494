"""The decisions: what the leading scheduler answers, and the only thing that changes state.

The state of the scheduler and every view are folds of these. Each stands in a DecisionBatch as
bytes with its kind and version. Times are milliseconds since the epoch unless the name says a
duration; `now_ms` of the batch is when a decision was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.events.spec import JobClass, Spec
from gangline.events.terms import (
    Certificate,
    Health,
    Outcome,
    ReservedSeat,
    Seat,
    Service,
    StopCause,
    WaitCause,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueued:
    """A job was accepted, with the cell's number for it. array: whose task it is."""

    job: str
    number: int
    spec: Spec
    submitted_ms: int
    submitted_at: str
    actor: str = ""
    array: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRejected:
    """A job can never start, or was asked for wrongly.

    Nearest: the nearest request that could start.
    """

    job: str
    team: str
    reason: str
    text: str
    nearest: str = ""
    submitted_ms: int = 0
    certificate: Certificate = field(default_factory=Certificate)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHeld:
    """A job is not to start until released.

    By: an actor, or `scheduler` after too many failures.
    """

    job: str
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReleased:
    """A held job may start again."""

    job: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityChanged:
    """A job is in another class from now on."""

    job: str
    job_class: JobClass
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequeued:
    """A job waits again, with its old age.

    Not_before_ms: crash loops are backed off, 0 for at once.
    """

    job: str
    attempt: int
    cause: StopCause
    retries_used: int
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFinished:
    """A job has ended for good.

    Reason: why, in a word or two (`limit`, `dependency`, `exit code 3`).
    """

    job: str
    outcome: Outcome
    reason: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitCauseChanged:
    """These jobs wait for another reason than before.

    Text: with the numbers, and what would start them.
    """

    jobs: tuple[str, ...]
    cause: WaitCause
    text: str
    certificate: Certificate = field(default_factory=Certificate)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlaced:
    """A gang holds these GPUs from now on; its members are to make ready.

    seats: in rank order. level: the lowest level of the tree that holds it whole. crossed: how many
    domains of the level just below it uses. borrowed: how many of its GPUs are beyond its team's
    guarantee.
    """

    job: str
    attempt: int
    seats: tuple[Seat, ...]
    level: str
    crossed: int
    borrowed: int
    certificate: Certificate = field(default_factory=Certificate)


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersReady:
    """These members could start at once.

    Address, port: rank 0's rendezvous, once it is among them.
    """

    job: str
    attempt: int
    nodes: tuple[str, ...]
    address: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStarted:
    """All members are ready: the processes run.

    Resumed_ms: productive time restored from the checkpoint.
    """

    job: str
    attempt: int
    resumed_ms: int
    resume_step: int = 0
    resume_path: str = ""
    address: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStartAborted:
    """A gang did not start: not all members were ready in time. slow: the nodes that were not."""

    job: str
    attempt: int
    slow: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecorded:
    """A complete checkpoint of the running attempt exists."""

    job: str
    attempt: int
    node: str
    step: int
    path: str
    productive_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEnded:
    """All processes of a member are out.

    reason: that of MemberExited, or `fenced` for the last sign of a stale attempt. presumed: nobody
    said so, its node is lost and fenced. failed_at_ms: of MemberExited.
    """

    job: str
    attempt: int
    node: str
    code: int
    signal: int = 0
    reason: str = "exited"
    presumed: bool = False
    failed_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPreempted:
    """A gang is told to stop for another one. cause: `class` or `reclaim`."""

    job: str
    attempt: int
    claimant: str
    claimant_attempt: int
    cause: str
    grace_ms: int
    certificate: Certificate = field(default_factory=Certificate)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStopping:
    """A gang is told to stop for another reason than preemption."""

    job: str
    attempt: int
    cause: StopCause
    grace_ms: int
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangReleased:
    """A gang holds nothing any more.

    lost_gpu_ms: GPU-time since its last checkpoint that must be done again. productive_ms: what is
    kept of its running time over all attempts. lingering: nodes on which fenced processes of it may
    be left; their GPUs stay out so long. failed_on: whose member failed first, with that code and
    signal; empty where none did.
    """

    job: str
    attempt: int
    cause: StopCause
    lost_gpu_ms: int
    productive_ms: int
    lingering: tuple[str, ...] = ()
    failed_on: str = ""
    code: int = 0
    signal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationPlanned:
    """Room is kept for a waiting gang.

    Kind: `plan` (a time and a place), `firm` (binds jobs ahead too), or
    `claim` (victims are leaving; GPUs that are free or become free stay with the claimant).

    start_ms, end_ms: when it would start, and end at the latest. victims: who leaves for a claim.
    """

    job: str
    kind: str
    start_ms: int
    end_ms: int
    seats: tuple[ReservedSeat, ...]
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationReleased:
    """Room is kept no longer.

    Why: `started`, `cancelled`, `fault`, `withdrawn`, `overtaken` (by an urgent job), `expired`,
    `changed`, `held`.
    """

    job: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    """A node belongs to the fleet."""

    node: str
    path: tuple[str, ...]
    levels: tuple[str, ...]
    gpus: int
    labels: Mapping[str, str] = field(default_factory=dict)
    public_key: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDropped:
    """A node belongs to the fleet no more."""

    node: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBooted:
    """An agent came up on this node.

    Under another boot id, nothing of before runs there any more.
    """

    node: str
    boot_id: str
    address: str = ""
    agent_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealthChanged:
    """A node is well, suspected, lost or quarantined.

    Until_ms: when it may be well again by time, 0 for unknown.

    strike: whether this counts towards quarantine. job: whose members were not ready, empty
    otherwise.
    """

    node: str
    health: Health
    cause: str
    until_ms: int = 0
    strike: bool = False
    job: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServiceChanged:
    """Operators' wish for a node.

    Deadline_ms: when what still runs is stopped, or maintenance ends; 0 for never.
    """

    node: str
    service: Service
    cause: str
    by: str = ""
    deadline_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceAnnounced:
    """A node will be out of service in this window."""

    node: str
    from_ms: int
    until_ms: int
    why: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWithdrawn:
    """A GPU is out. fault: what is wrong with it.

    strike: whether it counts towards quarantine; a fault of the whole machine does so once. said:
    the id of the fact that said so. number: the fact's, below which everything is a late copy.
    """

    node: str
    gpu: int
    fault: str
    strike: bool = True
    said: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReturned:
    """A GPU may be used again. number: as of GpuWithdrawn."""

    node: str
    gpu: int
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamChanged:
    """A team as it is from now on. borrow, lend: GPUs, -1 for unlimited."""

    team: str
    guaranteed: int
    borrow: int
    lend: int
    weight: int
    parent: str
    by_model: Mapping[str, int] = field(default_factory=dict)
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    """Policy keys with new values."""

    values: Mapping[str, int]
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRejected:
    """Facts that changed nothing, gathered by partition, reason and range.

    Offsets first to last, inclusive.
    """

    topic: str
    partition: int
    first: int
    last: int
    count: int
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConsidered:
    """Waiting jobs were asked for again and nothing followed; a replay asks at the same moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipTaken:
    """A scheduler leads from now on.

    Deadlines that wait for facts start again. why: start, takeover, hand_over.
    """

    leader: str
    term: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicUpgraded:
    """From the next batch on another logic version decides."""

    old_version: int
    new_version: int
    old_digest: bytes
    new_digest: bytes


Decision = (
    JobQueued
    | JobRejected
    | JobHeld
    | JobReleased
    | PriorityChanged
    | JobRequeued
    | JobFinished
    | WaitCauseChanged
    | GangPlaced
    | MembersReady
    | GangStarted
    | GangStartAborted
    | CheckpointRecorded
    | MemberEnded
    | GangPreempted
    | GangStopping
    | GangReleased
    | ReservationPlanned
    | ReservationReleased
    | NodeAdded
    | NodeDropped
    | NodeBooted
    | NodeHealthChanged
    | NodeServiceChanged
    | MaintenanceAnnounced
    | GpuWithdrawn
    | GpuReturned
    | TeamChanged
    | PolicyChanged
    | InputRejected
    | QueueConsidered
    | LeadershipTaken
    | LogicUpgraded
)

# The terms are to be had from here too.
__all__ = [
    "Certificate",
    "Health",
    "Outcome",
    "ReservedSeat",
    "Seat",
    "Service",
    "StopCause",
    "WaitCause",
]
