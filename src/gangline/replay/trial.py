"""A job tried out on a copy of a cell: when and where it would start, and whom it would move.

The copy goes on under simulated agents from the moment it was taken. What nobody can know is
assumed: nothing breaks, nothing else is submitted, and every gang runs as long as plans assume
(its limit; the policy's `default_limit` where it names none). So the time is a late one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gangline.agents.simulated_gang import Program
from gangline.events import decisions as d
from gangline.replay.copied_world import CopiedWorld
from gangline.scheduler import core
from gangline.scheduler.core.order import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.events.spec import Spec
    from gangline.replay.core_port import Step
    from gangline.replay.world import World
    from gangline.scheduler.core import State

NAME: Final = "dry-run"
HORIZON_MS: Final = 90 * 86_400_000
"""So far the copy goes on at most."""


@dataclass(slots=True, kw_only=True)
class Forecast:
    """What would become of a job.

    verdict: `now`, `later`, `unknown` (no start was found in time) or `rejected`. reason, text: why
    not now; nearest: for a rejected job, the nearest shape that could start. position: among those
    that wait. start_ms: when it would be placed. seats: where, in rank order. level: the lowest
    level of the tree that holds it whole. preempts: jobs that it would move out.
    """

    verdict: str = "unknown"
    reason: str = ""
    text: str = ""
    nearest: str = ""
    position: int = 0
    start_ms: int | None = None
    level: str = ""
    seats: tuple[d.Seat, ...] = ()
    preempts: list[str] = field(default_factory=list)


def forecast(state: State, spec: Spec, *, now_ms: int, enough: Callable[[], bool]) -> Forecast:
    """Try a job out on a state, which is used up. enough: asked after each instant; True ends it.

    Of an array, the first task is followed.
    """
    name = NAME if spec.count == 1 else f"{NAME}.1"
    watcher = _Watcher(name)
    copy = CopiedWorld(state, now_ms=now_ms, observers=(watcher,))
    found = watcher.found
    copy.submit(NAME, spec, Program(runtime_ms=copy.assumed_ms(spec)))
    if watcher.is_settled:
        return found
    cause, found.text = core.explain(state, name, now_ms=now_ms)
    found.reason = str(cause)
    found.position = _position(state, name, now_ms)
    copy.run(now_ms + HORIZON_MS, watch=lambda: watcher.is_settled or enough())
    return found


def _position(state: State, name: str, now_ms: int) -> int:
    """The job's place among those that wait, counted from 1."""
    key = Order(state, now_ms).key
    own = key(state.jobs[name])
    waiting = (job for job in state.jobs.values() if core.job_state(state, job.id) == "queued")
    return 1 + sum(key(job) < own for job in waiting)


class _Watcher:
    """Reads of the decisions what becomes of one job."""

    def __init__(self, job: str) -> None:
        self.found = Forecast()
        self._job = job
        self._first_ms = 0

    @property
    def is_settled(self) -> bool:
        """Whether the answer is known."""
        return self.found.verdict != "unknown"

    def stepped(self, world: World, step: Step) -> None:
        """A step was made."""
        del world
        self._first_ms = self._first_ms or step.now_ms
        for decision in step.decisions:
            self._decided(decision, step.now_ms)

    def _decided(self, decision: d.Decision, now_ms: int) -> None:
        found = self.found
        if isinstance(decision, d.GangPreempted) and decision.claimant == self._job:
            found.preempts.append(decision.job)
        elif getattr(decision, "job", "").partition(".")[0] != NAME or self.is_settled:
            return
        elif isinstance(decision, d.JobRejected):
            found.verdict, found.reason = "rejected", decision.reason
            found.text, found.nearest = decision.text, decision.nearest
        elif isinstance(decision, d.JobFinished) and decision.job == self._job:
            found.verdict, found.text = "rejected", decision.reason
        elif isinstance(decision, d.GangPlaced) and decision.job == self._job:
            found.verdict = "now" if now_ms == self._first_ms else "later"
            found.start_ms, found.seats, found.level = now_ms, decision.seats, decision.level
