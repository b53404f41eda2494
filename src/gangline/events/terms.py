"""The terms that decisions use: states of nodes, causes, outcomes, places, certificates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """Whether a node is well, as far as the scheduler can know."""

    WELL = "well"
    SUSPECTED = "suspected"
    LOST = "lost"
    QUARANTINED = "quarantined"


class Service(StrEnum):
    """Whether operators let a node take new work."""

    OPEN = "open"
    CORDONED = "cordoned"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"


class StopCause(StrEnum):
    """Why a gang was told to stop, or why it let its GPUs go."""

    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    LIMIT = "limit"
    DRAINED = "drained"
    MAINTENANCE = "maintenance"
    INFRASTRUCTURE = "infrastructure"
    USER = "user"
    START_ABORTED = "start_aborted"
    FINISHED = "finished"


class Outcome(StrEnum):
    """How a job ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


class WaitCause(StrEnum):
    """Why a job waits; the first that holds, in this order."""

    DEPENDENCY = "dependency"
    HOLD = "hold"
    BORROW_LIMIT = "borrow_limit"
    STARTING = "starting"
    FAIR_SHARE = "fair_share"
    RESERVATION = "reservation"
    NODES_UNHEALTHY = "nodes_unhealthy"
    TOPOLOGY = "topology"
    CAPACITY = "capacity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What an auditor needs to re-derive a decision.

    binding: the constraint that decided. tie: the order key that broke the tie. alternative: the
    best rejected alternative. policy_version: counts PolicyChanged and TeamChanged up to this
    decision.
    """

    binding: str = ""
    tie: str = ""
    alternative: str = ""
    policy_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A member's place. gpus: the indices of its GPUs on the node, ascending.

    First_rank: rank of its first GPU.
    """

    node: str
    gpus: tuple[int, ...]
    first_rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedSeat:
    """GPUs kept on a node. gpus: how many.

    Held: the indices already kept (a claim's), empty for a plan.
    """

    node: str
    gpus: int
    held: tuple[int, ...] = ()
