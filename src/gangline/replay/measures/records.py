"""What is remembered of jobs, attempts, nodes and teams while a history is folded.

Times are milliseconds; 0 stands for "not yet".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gangline.events.decisions import Health, Service
from gangline.events.spec import UNLIMITED

BANDS: Final = ("small", "medium", "large")
MEDIUM_GPUS: Final = 8
LARGE_GPUS: Final = 128
UNSAID: Final = "unsaid"


def band_of(gpus: int) -> str:
    """The band of a gang: 1 to 7 GPUs, 8 to 127, 128 and more."""
    return BANDS[(gpus >= MEDIUM_GPUS) + (gpus >= LARGE_GPUS)]


@dataclass(slots=True, kw_only=True, eq=False)
class JobRecord:
    """A job. productive_ms: work of all attempts that was kept.

    cause: why it waits, empty while it does not. limit_ms: declared, None for none.
    """

    job: str
    team: str
    gpus: int
    gpus_per_node: int | None
    limit_ms: int | None
    submitted_ms: int
    first_start_ms: int = 0
    ended_ms: int = 0
    outcome: str = ""
    productive_ms: int = 0
    cause: str = ""
    cause_since_ms: int = 0
    attempt: AttemptRecord | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class AttemptRecord:
    """A gang's hold on its GPUs. parts: GPUs by node.

    kept_ms: productive work of this attempt that was kept. stop: why it let go. preempted: `class`
    or `reclaim`, empty when it was not.
    """

    job: JobRecord
    number: int
    placed_ms: int
    parts: tuple[tuple[str, int], ...]
    started_ms: int = 0
    resumed_ms: int = 0
    released_ms: int = 0
    kept_ms: int = 0
    lost_gpu_ms: int = 0
    stop: str = ""
    preempted: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class NodeRecord:
    """A node. held: GPUs of gangs on it. bad: broken GPUs."""

    name: str
    gpus: int
    path: tuple[str, ...]
    health: Health = Health.WELL
    service: Service = Service.OPEN
    held: int = 0
    bad: set[int] = field(default_factory=set)

    @property
    def idle_unhealthy(self) -> int:
        """GPUs that nobody holds and that are not well."""
        if self.service is not Service.OPEN:
            return 0
        idle = self.gpus - self.held
        return idle if self.health is not Health.WELL else min(len(self.bad), idle)

    @property
    def idle_out(self) -> int:
        """GPUs that nobody holds because operators took the node out of service."""
        return 0 if self.service is Service.OPEN else self.gpus - self.held


@dataclass(slots=True, kw_only=True, eq=False)
class Escrow:
    """What a claim keeps. gpus: all that it needs; victims: who still holds a part of it."""

    gpus: int
    victims: set[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRecord:
    """A team from a time on. guaranteed: GPUs; borrow: GPUs or UNLIMITED."""

    since_ms: int
    team: str
    guaranteed: int
    borrow: int = UNLIMITED
    weight: int = 1
    parent: str = ""
