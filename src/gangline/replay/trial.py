"""A job tried out on a copy of a cell: when and where it would start, and whom it would move.

The copy goes on under simulated agents from the moment it was taken. What nobody can know is
assumed: nothing breaks, nothing else is submitted, and every gang runs as long as plans assume
(its limit; the policy's `default_limit` where it names none). So the time is a late one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gangline.agents.simulated import SimulatedNode
from gangline.agents.simulated_gang import Program, Saves
from gangline.events import decisions as d
from gangline.replay.world import Leader, World
from gangline.scheduler import core
from gangline.scheduler.core.order import Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.events.spec import Spec
    from gangline.replay.core_port import Step
    from gangline.scheduler.core import State
    from gangline.scheduler.core.entities import Node

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
    copy = _Copy(state, now_ms=now_ms, watcher=watcher)
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


class _Copy(World):
    """A world that begins where a live cell stands."""

    def __init__(self, state: State, *, now_ms: int, watcher: _Watcher) -> None:
        super().__init__(
            core,
            observers=(watcher,),
            keeps_steps=False,
            start_ms=now_ms,
            saves=Saves.WHEN_NEEDED,
        )
        self._edges = []
        self.leader = Leader(state, wake_ms=core.next_wake(state))
        for job in state.jobs.values():
            self.programs[job.id] = Program(runtime_ms=self._work_ms(job.id))
        for node in state.nodes.values():
            self._bring_up(node)
        for name in state.nodes:
            self.fleet.hear(name, core.assigned_members(state, name), now_ms)

    def assumed_ms(self, spec: Spec) -> int:
        """How long plans assume that a job works."""
        default: int = core.policy_value(self.state, "default_limit")
        return default if spec.limit_ms is None else spec.limit_ms

    def _work_ms(self, name: str) -> int:
        """The work at which a job's program ends; one that outlived its plan: doubled."""
        job = self.state.jobs[name]
        if not job.started_ms:
            return self.assumed_ms(job.spec)
        ran_ms = self.now_ms - job.started_ms
        left_ms = self.assumed_ms(job.spec) - job.resumed_ms - ran_ms
        return int(job.resumed_ms + (left_ms if left_ms > 0 else ran_ms))

    def _bring_up(self, node: Node) -> None:
        """A machine as the scheduler knows it; one that is silent stays so."""
        silent = bool(node.silent_ms or node.lost)
        bad = {index for index in range(node.gpus) if node.bad >> index & 1}
        self.fleet.nodes[node.name] = SimulatedNode(
            name=node.name, gpus=node.gpus, up=not silent, bad=bad
        )
        if silent:
            self.fleet.silent[node.name] = node.silent_ms or self.now_ms
            self._told_silent.add(node.name)
