"""When the gangs that run are assumed to be out, in order, and what plans want.

What a plan keeps on its nodes depends on the gangs there and on their assumed ends alone, so it is
remembered until a gang comes to one of them, leaves it, or gets another end, or until one outlives
its end.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import NamedTuple

from gangline.scheduler.core.assumed import assumed_end_ms
from gangline.scheduler.core.entities import Job


class Wanted(NamedTuple):
    """GPUs that a plan wants of a node. lacks: of them, beside what will have left by its start.

    Below 0 where more leaves than it wants.
    """

    gpus: int
    lacks: int


class Wants(NamedTuple):
    """What a plan wants of each of its nodes. until_ms: from then on to be asked again."""

    until_ms: int
    on: dict[str, Wanted]


class Ends:
    """Gangs by their assumed ends. reserved_on: the jobs with plans on each node."""

    def __init__(self, reserved_on: Mapping[str, list[str]]) -> None:
        """Nobody runs."""
        self.order: list[tuple[int, int, Job]] = []
        self.wants: dict[str, Wants] = {}
        self._reserved_on = reserved_on

    def expect(self, policy: Mapping[str, int], job: Job) -> None:
        """Know when the gang is assumed to be out, from what is decided about it so far."""
        self.forget(job)
        job.ends_ms = assumed_end_ms(policy, job)
        insort(self.order, (job.ends_ms, job.number, job))
        self._forget_wants(job)

    def forget(self, job: Job) -> None:
        """It is out, or is assumed to be out at another time."""
        if job.ends_ms:
            at = bisect_left(self.order, (job.ends_ms, job.number))
            del self.order[at]
            job.ends_ms = 0
            self._forget_wants(job)

    def _forget_wants(self, job: Job) -> None:
        for seat in job.seats:
            for name in self._reserved_on.get(seat.node, ()):
                self.wants.pop(name, None)
