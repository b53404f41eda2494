"""The records of the books: nodes, jobs, gangs, reservations, as they are saved and found again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.projections.lending import TeamTerms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

STARTING: Final = "starting"
RUNNING: Final = "running"
STOPPING: Final = "stopping"

_NO_DEMAND: Final = (d.WaitCause.DEPENDENCY, d.WaitCause.HOLD)
"""A job that waits for these would not start in an empty fleet either."""


@dataclass(slots=True, kw_only=True)
class NodeBook:
    """A node. held: indices of GPUs by job. lingering: by `job#attempt` of a fenced attempt.

    conditions: what is wrong with it (`conditions.py`).
    """

    gpus: int
    conditions: list[str] = field(default_factory=list)
    open: bool = True
    bad: list[int] = field(default_factory=list)
    held: dict[str, list[int]] = field(default_factory=dict)
    lingering: dict[str, list[int]] = field(default_factory=dict)

    def can_hold(self, gpus: Iterable[int]) -> bool:
        """Whether these are GPUs of the node that no gang holds."""
        taken = {gpu for held in self.held.values() for gpu in held} if self.held else ()
        return all(0 <= gpu < self.gpus and gpu not in taken for gpu in gpus)


@dataclass(slots=True, kw_only=True)
class ModelBook:
    """What model the GPUs of a node are, by the node; nodes that say nothing have none."""

    model: str


@dataclass(slots=True, kw_only=True)
class JobBook:
    """A job that has not ended. counts: whether it waits for GPUs. saves: it can checkpoint."""

    team: str
    gpus: int
    saves: bool
    waiting: bool = True
    held: bool = False
    cause: str = ""

    @property
    def demand(self) -> int:
        """GPUs that it waits for."""
        blocked = self.held or self.cause in _NO_DEMAND
        return self.gpus if self.waiting and not blocked else 0


@dataclass(slots=True, kw_only=True)
class GangBook:
    """A gang, by its job. gpus: that it holds on nodes of the fleet."""

    attempt: int
    team: str
    phase: str = STARTING
    gpus: int
    nodes: list[str]


@dataclass(slots=True, kw_only=True)
class PlanBook:
    """A reservation, by its job. seats: GPUs by node."""

    team: str
    seats: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastUse:
    """What a team used, with those below it, by the team: decayed GPU-milliseconds at a moment."""

    gpu_ms: int
    at_ms: int


RECORDS: Final[Mapping[str, Callable[..., Any]]] = {
    "node": NodeBook,
    "job": JobBook,
    "gang": GangBook,
    "plan": PlanBook,
    "team": TeamTerms,
    "model": ModelBook,
    "use": PastUse,
}


def plain_record(record: Any) -> dict[str, Any]:  # noqa: ANN401 - any record
    """The fields of a record by name; nested values are not copied."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the GPUs of one node are that no gang holds."""

    out: dict[str, int]
    reserved: dict[str, int]
    free: int
