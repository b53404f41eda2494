"""What reaches the core: records from the log, and what the executor saw."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gangline.agents.core.model import Exit, Key
from gangline.events.batch import AssignedMember, NodeAssignment


@dataclass(frozen=True, slots=True)
class Told:
    """A record of `assignments` for this node was read."""

    assignment: NodeAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The node was looked at for a member. problem: why it cannot start, empty when it can.

    code, reason: of the problem, as in MemberExited. fault, gpu: hardware that is to blame, fault
    empty for none.
    """

    key: Key
    address: str = ""
    port: int = 0
    problem: str = ""
    code: int = 0
    reason: str = "infrastructure"
    fault: str = ""
    gpu: int = -1


@dataclass(frozen=True, slots=True)
class Started:
    """The ranks of a member run."""

    key: Key


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing is left of a member; this is how it ended."""

    key: Key
    exit: Exit


@dataclass(frozen=True, slots=True)
class Lost:
    """A member's supervisor is gone without a result; processes of it may be left."""

    key: Key


@dataclass(frozen=True, slots=True)
class Stuck:
    """Processes of a member survive SIGKILL."""

    key: Key
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingSeen:
    """A member's program began to save."""

    key: Key
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSeen:
    """A complete checkpoint was published at `at_ms`.

    Productive_ms: of the job, None when not said.
    """

    key: Key
    step: int
    path: str
    at_ms: int
    productive_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """A member's program showed a sign of progress."""

    key: Key
    at_ms: int


class Fault(NamedTuple):
    """Broken hardware. gpu: its index, -1 for the whole node."""

    gpu: int
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """All that is broken now, whole: what is not among it is well."""

    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """The log took what was sent to it at this time, None for now."""

    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Only time has passed."""


class Presence(StrEnum):
    """What is left of a member when the agent comes up.

    `absent`: nothing of it ever ran. `starting`: its supervisor lives, the ranks are not up yet.
    `running`: both are. `ended`: it has a result. `lost`: the supervisor is gone without one.
    """

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the executor found of one attempt.

    order: as its intent says. exit: with `ended`. started_ms: when its ranks started, 0 if they
    did not. saved: its newest complete checkpoint.
    """

    order: AssignedMember
    presence: Presence
    exit: Exit | None = None
    started_ms: int = 0
    saved: CheckpointSeen | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The agent came up. boot_id: of the machine now. found: in the order of their keys.

    The rest is what NodeRegistered says of the node.
    """

    boot_id: str
    found: tuple[Found, ...] = ()
    gpus: int = 0
    address: str = ""
    agent_version: str = ""
    path: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


Cue = (
    Told
    | Checked
    | Started
    | Ended
    | Lost
    | Stuck
    | SavingSeen
    | CheckpointSeen
    | Progressed
    | Diagnosed
    | Heard
    | Tick
    | Recovered
)
