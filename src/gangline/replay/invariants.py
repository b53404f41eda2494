"""What must always hold, checked after every step of a simulated cell.

Nine rules, by the numbers of the design; each is checked from the decisions alone where that can
be, with the second memory of `model.py`, and then against what the core says of itself. A broken
rule raises `BrokenRuleError`, which names the rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gangline.agents.simulated_gang import Stage
from gangline.events import decisions as d
from gangline.replay import rules_of_place
from gangline.replay.broken_rule import BrokenRuleError, Rule
from gangline.replay.model import Model
from gangline.replay.rules_of_eviction import Evictions
from gangline.replay.rules_of_ledger import LedgerCheck
from gangline.replay.rules_of_numbers import FleetCount, check_teams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.replay.core_port import Step
    from gangline.replay.model import ModelJob
    from gangline.replay.world import World

CAUSE_LAG_MS: Final = 1000
"""A wait cause may be written down so late: the default of the policy's `cause_interval`."""


class Invariants:
    """Looks at every step; the first broken rule is raised."""

    def __init__(self) -> None:
        self.model = Model()
        self._fleet = FleetCount()
        self._ledger = LedgerCheck()
        self._evictions = Evictions(self.model)
        self._fresh: set[str] = set()

    def stepped(self, world: World, step: Step) -> None:
        """A step was made: check each decision before it is remembered, and the whole after."""
        model = self.model
        model.now_ms = step.now_ms
        self._check_processes(world)
        for decision in step.decisions:
            check = _CHECKS.get(type(decision))
            if check is not None:
                check(self, decision, world)
            model.fold(decision, step.now_ms)
            self._ledger.enter(decision, step.now_ms)
        if step.decisions:
            self._ledger.check(model, world)
            self._fleet.check(model, world.core.fleet_numbers(world.state))
            check_teams(model, world)
        if step.caught_up:
            self._check_causes()

    def finish(self) -> None:
        """Nothing may be left undone at the end."""
        for text in self._evictions.in_vain():
            raise BrokenRuleError(Rule.NOT_IN_VAIN, text)

    # --- each decision ----------------------------------------------------------------------------

    def _live(self, job: str, what: str) -> ModelJob:
        """The job of a decision, which must not have ended."""
        known = self.model.jobs.get(job)
        if known is None or known.outcome:
            state = known.outcome if known else "never accepted"
            raise BrokenRuleError(Rule.TERMINAL, f"{what} of {job}, which is {state}")
        return known

    def _on_queued(self, decision: d.JobQueued, _world: World) -> None:
        known = self.model.jobs.get(decision.job)
        if known is not None and not known.outcome:
            raise BrokenRuleError(Rule.TERMINAL, f"{decision.job} is accepted twice")

    def _on_job(self, decision: Any, _world: World) -> None:  # noqa: ANN401 - any with a job
        self._live(decision.job, type(decision).__name__)

    def _on_cause(self, decision: d.WaitCauseChanged, _world: World) -> None:
        for name in decision.jobs:
            job = self._live(name, "WaitCauseChanged")
            if job.holds:
                raise BrokenRuleError(Rule.ONE_CAUSE, f"{name} holds GPUs and waits")

    def _on_placed(self, decision: d.GangPlaced, _world: World) -> None:
        job = self._live(decision.job, "GangPlaced")
        rules_of_place.check_placed(self.model, job, decision)

    def _on_started(self, decision: d.GangStarted, _world: World) -> None:
        job = self._live(decision.job, "GangStarted")
        missing = sorted({seat.node for seat in job.seats} - job.ready)
        if missing or not job.holds:
            raise BrokenRuleError(
                Rule.WHOLE_GANGS, f"{job.job} starts without its members on {', '.join(missing)}"
            )
        if decision.resumed_ms != job.saved_ms:
            raise BrokenRuleError(
                Rule.LOST_WORK,
                f"{job.job} resumes from {decision.resumed_ms} ms, saved are {job.saved_ms} ms",
            )
        self._fresh.update(seat.node for seat in job.seats)

    def _on_preempted(self, decision: d.GangPreempted, _world: World) -> None:
        victim = self._live(decision.job, "GangPreempted")
        claimant = self._live(decision.claimant, "a claim")
        problem = self._evictions.problem(victim, claimant, decision)
        if problem:
            raise BrokenRuleError(
                Rule.NOT_IN_VAIN, f"{victim.job} evicted for {claimant.job}: {problem}"
            )

    def _on_released(self, decision: d.GangReleased, world: World) -> None:
        job = self._live(decision.job, "GangReleased")
        if not job.holds:
            raise BrokenRuleError(Rule.WHOLE_GANGS, f"{job.job} lets go what it does not hold")
        if decision.lost_gpu_ms < 0 or decision.productive_ms < 0:
            raise BrokenRuleError(Rule.SUMS, f"{job.job} has lost {decision.lost_gpu_ms} GPU-ms")
        if decision.cause is d.StopCause.INFRASTRUCTURE:
            self._check_lost_work(job, world)

    def _check_lost_work(self, job: ModelJob, world: World) -> None:
        """What a fault really loses, by the simulated processes' own clock."""
        gang = world.fleet.gang(job.job, job.attempt)
        if gang is None or gang.interval_ms is None or job.started_ms is None:
            return
        lost_ms = gang.done_ms(world.now_ms) - job.saved_ms
        bound_ms = gang.interval_ms
        nodes = [world.fleet.nodes[seat.node] for seat in job.seats]
        cut = [node.cut_ms for node in nodes if node.cut]
        if cut:
            # A new leader gives each node that is silent the whole time anew.
            unheard_ms = max(0, world.led_ms - min(cut)) + world.outages_ms
            bound_ms += self.model.policy.get("lost_after", 120_000) + unheard_ms
        if lost_ms > bound_ms:
            raise BrokenRuleError(
                Rule.LOST_WORK, f"{job.job} loses {lost_ms} ms, more than {bound_ms} ms"
            )

    def _on_unreserved(self, decision: d.ReservationReleased, _world: World) -> None:
        problem = self._evictions.room_problem(decision)
        if problem:
            raise BrokenRuleError(Rule.NOT_IN_VAIN, problem)

    # --- each step --------------------------------------------------------------------------------

    def _check_causes(self) -> None:
        now_ms = self.model.now_ms
        for job in self.model.unexplained.values():
            if now_ms > job.waits_ms + CAUSE_LAG_MS:
                raise BrokenRuleError(
                    Rule.ONE_CAUSE, f"nobody says why {job.job} waits since {job.waits_ms}"
                )

    def _check_processes(self, world: World) -> None:
        """No two gangs' processes run on one GPU, whatever anybody decided."""
        for node in sorted(self._fresh):
            taken: dict[int, str] = {}
            for gang in world.fleet.gangs_on(node):
                for gpu in gang.gpus[node]:
                    if gpu in taken and gang.stages[node] is Stage.RUNNING:
                        raise BrokenRuleError(
                            Rule.ONE_HOLDER,
                            f"processes of {taken[gpu]} and {gang.job} on {node} GPU {gpu}",
                        )
                    taken[gpu] = gang.job
        self._fresh.clear()


_CHECKS: Final[Mapping[type, Callable[[Invariants, Any, World], None]]] = {
    d.JobQueued: Invariants._on_queued,  # noqa: SLF001 - the table of this class
    d.JobFinished: Invariants._on_job,  # noqa: SLF001
    d.JobRequeued: Invariants._on_job,  # noqa: SLF001
    d.JobHeld: Invariants._on_job,  # noqa: SLF001
    d.JobReleased: Invariants._on_job,  # noqa: SLF001
    d.PriorityChanged: Invariants._on_job,  # noqa: SLF001
    d.GangStartAborted: Invariants._on_job,  # noqa: SLF001
    d.GangStopping: Invariants._on_job,  # noqa: SLF001
    d.CheckpointRecorded: Invariants._on_job,  # noqa: SLF001
    d.ReservationPlanned: Invariants._on_job,  # noqa: SLF001
    d.WaitCauseChanged: Invariants._on_cause,  # noqa: SLF001
    d.GangPlaced: Invariants._on_placed,  # noqa: SLF001
    d.GangStarted: Invariants._on_started,  # noqa: SLF001
    d.GangPreempted: Invariants._on_preempted,  # noqa: SLF001
    d.GangReleased: Invariants._on_released,  # noqa: SLF001
    d.ReservationReleased: Invariants._on_unreserved,  # noqa: SLF001
}
