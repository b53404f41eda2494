"""What an agent knows: the members it was told of, and how far each is.

Theory of operation. A member is one attempt's part on this node. It moves along TRANSITIONS and
nothing else moves it:

- `waiting` until nobody who still has processes holds one of its GPUs or belongs to the same job;
- `checking` while the node looks whether it could start; `ready` once that is stated;
- `starting` from the moment a supervisor is asked for, `running` once its ranks run;
- `stopping` in its grace, `killing` when it is to be gone now; then `gone`, with how it ended.

From `starting` to `killing` a member may have processes (LIVE); the GPUs are nobody else's until
it is gone. A member that is gone is remembered until a newer record lists it no more, so that a
repeated order gets the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from gangline.events.batch import AssignedMember
from gangline.events.facts import RunningMember

if TYPE_CHECKING:
    from collections.abc import Mapping


class Key(NamedTuple):
    """One attempt of one job, on this node."""

    job: str
    attempt: int


class Stage(StrEnum):
    """How far a member is."""

    WAITING = "waiting"
    CHECKING = "checking"
    READY = "ready"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    KILLING = "killing"
    GONE = "gone"


class Move(StrEnum):
    """What moves a member on."""

    CHECK = "check"
    PASS = "pass"  # noqa: S105 - no password
    START = "start"
    RUN = "run"
    STOP = "stop"
    KILL = "kill"
    END = "end"
    CHECK_AGAIN = "check_again"


LIVE: Final = (Stage.STARTING, Stage.RUNNING, Stage.STOPPING, Stage.KILLING)
BEFORE_START: Final = (Stage.WAITING, Stage.CHECKING, Stage.READY)

TRANSITIONS: Final[Mapping[tuple[Stage, Move], Stage]] = {
    (Stage.WAITING, Move.CHECK): Stage.CHECKING,
    (Stage.CHECKING, Move.PASS): Stage.READY,
    (Stage.READY, Move.START): Stage.STARTING,
    (Stage.STARTING, Move.RUN): Stage.RUNNING,
    (Stage.STARTING, Move.STOP): Stage.STOPPING,
    (Stage.RUNNING, Move.STOP): Stage.STOPPING,
    (Stage.STARTING, Move.KILL): Stage.KILLING,
    (Stage.RUNNING, Move.KILL): Stage.KILLING,
    (Stage.STOPPING, Move.KILL): Stage.KILLING,
    # After a restart of the agent the reserved port is nobody's: it is looked for again.
    (Stage.CHECKING, Move.CHECK_AGAIN): Stage.WAITING,
    (Stage.READY, Move.CHECK_AGAIN): Stage.WAITING,
    **{(stage, Move.END): Stage.GONE for stage in Stage if stage is not Stage.GONE},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a member ended, in the words of MemberExited."""

    code: int
    signal: int = 0
    reason: str = "exited"
    detail: str = ""
    failed_at_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. Times are milliseconds since boot.

    order: what the newest record says of it. listed: whether the newest record lists it at all.
    verdict: why we stop it ourselves (`hung`, `infrastructure`), empty for none. progress_ms: its
    last sign of progress.
    """

    order: AssignedMember
    stage: Stage = Stage.WAITING
    listed: bool = True
    address: str = ""
    port: int = 0
    started_ms: int = 0
    progress_ms: int = 0
    deadline_ms: int = 0
    verdict: str = ""
    detail: str = ""
    saved_step: int = -1
    saving_step: int = -1
    exit: Exit | None = None

    @property
    def key(self) -> Key:
        """Its job and attempt."""
        return Key(self.order.job, self.order.attempt)

    @property
    def live(self) -> bool:
        """Whether it may have processes."""
        return self.stage in LIVE

    def move(self, move: Move) -> None:
        """Go on along the table; a move that it does not have is a bug."""
        self.stage = TRANSITIONS[self.stage, move]


@dataclass(slots=True, kw_only=True)
class NodeState:
    """All an agent knows, and all that its journal keeps.

    genesis, term, seq: of the newest record taken; genesis is empty before the first.
    incarnation: counts the agent's starts. faults: what is broken now. fault_number: counts
    stated faults, so that each has an id. heard_ms: when the log last heard us. lease_ms,
    lease_grace_ms: at-most-one writers stop themselves when we were not heard for the lease, with
    this grace. renewed_ms: the heard_ms that their supervisors know.
    """

    node: str
    boot_id: str = ""
    genesis: str = ""
    term: int = 0
    seq: int = 0
    incarnation: int = 0
    fault_number: int = 0
    heard_ms: int = 0
    renewed_ms: int = 0
    lease_ms: int = 60_000
    lease_grace_ms: int = 30_000
    members: dict[Key, Member] = field(default_factory=dict)
    faults: dict[tuple[int, str], int] = field(default_factory=dict)

    def running(self) -> tuple[RunningMember, ...]:
        """The members that may have processes, in order of their keys."""
        live = sorted(key for key, member in self.members.items() if member.live)
        return tuple(RunningMember(job=key.job, attempt=key.attempt) for key in live)

    def blocked(self, member: Member) -> bool:
        """Whether somebody else with processes holds one of its GPUs, or is of the same job."""
        return any(
            other.live and (other.order.job == member.order.job or _share(other, member))
            for other in self.members.values()
            if other is not member
        )


def _share(one: Member, other: Member) -> bool:
    return any(gpu in other.order.gpus for gpu in one.order.gpus)
