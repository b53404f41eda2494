"""The facts: what services, operators and agents state about the world, in the past tense.

Facts change nothing by themselves; the scheduler answers those that matter with decisions
(`decisions.py`). Times in facts are durations counted from the log's append time, never readings of
a client's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.events.spec import JobClass, Spec

# --- topic `jobs`: services and the API -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """Somebody asked for a job. job: the submitter's id, the key of idempotency."""

    job: str
    spec: Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelRequested:
    """Somebody wants a job to end. why: what a colleague should read."""

    job: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPriorityChangeRequested:
    """Somebody wants a job in another class from now on."""

    job: str
    job_class: JobClass


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHoldRequested:
    """A queued job is not to start until released.

    A running one goes on, and waits if it is queued again.
    """

    job: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHoldReleased:
    """A held job may start again, whoever held it."""

    job: str


# --- topic `control`: operators -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSet:
    """A team is as said from now on; None keeps what it was (or the default of a new team).

    guaranteed, borrow, lend: GPUs; borrow and lend may be UNLIMITED (-1). weight: of the fair
    share, at least 1. parent: a team's name, empty for the root. by_model: guarantees for single
    GPU models, in GPUs.
    """

    team: str
    guaranteed: int | None = None
    borrow: int | None = None
    lend: int | None = None
    weight: int | None = None
    parent: str | None = None
    by_model: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """Policy keys have these values from now on; durations in milliseconds, counts as they are."""

    values: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdmitted:
    """An operator lets a node into the fleet.

    levels, path: names of the levels of the tree above the node, outermost first, and of the node's
    domain at each. gpus: how many it has. labels: `model`, `pool` and the like. public_key:
    Ed25519, empty when unsigned.
    """

    node: str
    path: tuple[str, ...]
    levels: tuple[str, ...]
    gpus: int
    labels: Mapping[str, str] = field(default_factory=dict)
    public_key: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWithdrawn:
    """An operator takes a node out of the fleet for good.

    What runs there is stopped and queued again.
    """

    node: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCordoned:
    """An operator keeps new work off a node; what runs there goes on."""

    node: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUncordoned:
    """A cordoned or draining node takes new work again; an announced maintenance of it is off."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequested:
    """A node is to become empty. deadline_ms: from now.

    What still runs then is stopped (None: never).
    """

    node: str
    deadline_ms: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceScheduled:
    """A node will be out of service from `in_ms` from now, for `for_ms`."""

    node: str
    in_ms: int
    for_ms: int
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverRequested:
    """An operator asks the leading scheduler to let a standby lead."""

    why: str = ""


# --- topic `nodes`: agents ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMember:
    """One member that an agent has processes of."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    """An agent came up. boot_id: of the machine.

    Another one than before means that all processes are gone.

    address: where other nodes reach it. running: the members whose processes it still has.
    path, levels, gpus, labels: only believed under `auto_admit`.
    """

    node: str
    boot_id: str
    gpus: int
    address: str = ""
    agent_version: str = ""
    path: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    running: tuple[RunningMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReady:
    """A member could start at once.

    Address, port: where it would serve the rendezvous if it were rank 0.
    """

    node: str
    job: str
    attempt: int
    address: str = ""
    port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStarted:
    """The processes of a member run."""

    node: str
    job: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberExited:
    """All processes of a member are gone, or never were.

    code: the first non-zero exit code of its ranks, else 0; signal: the signal that ended it, 0 for
    none. reason: `exited` (by itself), `stopped` (on order), `not_started`, `infrastructure`
    (supervisor or machine trouble, no fault of the program), `hung` (no progress for the declared
    time). detail: for people. failed_at_ms: when its first rank failed, Unix time by the node's
    clock, 0 where none did or nobody knows.
    """

    node: str
    job: str
    attempt: int
    code: int
    signal: int = 0
    reason: str = "exited"
    detail: str = ""
    failed_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStarted:
    """A member began to save."""

    node: str
    job: str
    attempt: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """A complete checkpoint exists.

    step: the program's own count. path: what to resume from. productive_ms: the job's productive
    running time that it holds, over all attempts.
    """

    node: str
    job: str
    attempt: int
    step: int
    path: str
    productive_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultDetected:
    """Hardware is broken. gpu: its index, -1 for the whole node.

    Fault: xid, ecc, nvlink, nic, thermal, … number: rises with each fault and each clearing that a
    node states while it is up, so that a late copy is known by it; 0 where nobody counts.
    """

    node: str
    gpu: int
    fault: str
    detail: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCleared:
    """Broken hardware is well again. gpu: its index, -1 for the whole node.

    Number: as of FaultDetected.
    """

    node: str
    gpu: int
    number: int = 0


# --- topic `heartbeats`: agents -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHeartbeat:
    """A node is alive. sequence: counts up since the agent's start."""

    node: str
    boot_id: str
    sequence: int


JobFact = (
    JobSubmitted
    | JobCancelRequested
    | JobPriorityChangeRequested
    | JobHoldRequested
    | JobHoldReleased
)
ControlFact = (
    TeamSet
    | PolicySet
    | NodeAdmitted
    | NodeWithdrawn
    | NodeCordoned
    | NodeUncordoned
    | DrainRequested
    | MaintenanceScheduled
    | HandOverRequested
)
NodeFact = (
    NodeRegistered
    | MemberReady
    | MemberStarted
    | MemberExited
    | CheckpointStarted
    | CheckpointSaved
    | FaultDetected
    | FaultCleared
)
FactBody = JobFact | ControlFact | NodeFact
