"""What a scenario asks for and the scheduler does not keep: counts, first starts, last places.

A fold of decisions, with one thing from outside: how much work the simulated processes had really
done when a gang was released, which tells what is done again at the next start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gangline.replay.core_port import Step
    from gangline.replay.world import World


@dataclass(slots=True, kw_only=True)
class JobTally:
    """One job. nodes: of its present or last place, in rank order.

    first_start_ms, resumed_ms: None before the first start. work_ms: the most productive work that
    released attempts since the last start had done. lost_ms: work done again. outcome: empty while
    it lives.
    """

    submitted_ms: int
    attempts: int = 0
    preemptions: int = 0
    first_start_ms: int | None = None
    nodes: tuple[str, ...] = ()
    resumed_ms: int | None = None
    work_ms: int = 0
    lost_ms: int = 0
    reserved: bool = False
    outcome: str = ""


class Tally:
    """All jobs, and the totals of a run."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobTally] = {}
        self.preemptions = 0
        self.rejected_inputs = 0
        self.aborted_starts = 0

    @property
    def lost_ms(self) -> int:
        """Work done again, of all jobs."""
        return sum(job.lost_ms for job in self.jobs.values())

    def stepped(self, world: World, step: Step) -> None:
        """A step was made."""
        for decision in step.decisions:
            count = _COUNTS.get(type(decision))
            if count is not None:
                count(self, decision, world)

    def _queued(self, decision: d.JobQueued, _world: World) -> None:
        self.jobs[decision.job] = JobTally(submitted_ms=decision.submitted_ms)

    def _rejected(self, decision: d.JobRejected, world: World) -> None:
        job = self.jobs.setdefault(decision.job, JobTally(submitted_ms=world.now_ms))
        job.outcome = str(d.Outcome.REJECTED)

    def _finished(self, decision: d.JobFinished, _world: World) -> None:
        self.jobs[decision.job].outcome = str(decision.outcome)

    def _placed(self, decision: d.GangPlaced, _world: World) -> None:
        self.jobs[decision.job].nodes = tuple(seat.node for seat in decision.seats)

    def _started(self, decision: d.GangStarted, world: World) -> None:
        job = self.jobs[decision.job]
        job.attempts += 1
        job.resumed_ms = decision.resumed_ms
        if job.first_start_ms is None:
            job.first_start_ms = world.now_ms
        job.lost_ms += max(0, job.work_ms - decision.resumed_ms)
        job.work_ms = 0

    def _released(self, decision: d.GangReleased, world: World) -> None:
        gang = world.fleet.gang(decision.job, decision.attempt)
        if gang is not None:
            job = self.jobs[decision.job]
            job.work_ms = max(job.work_ms, gang.done_ms(world.now_ms))

    def _preempted(self, decision: d.GangPreempted, _world: World) -> None:
        self.jobs[decision.job].preemptions += 1
        self.preemptions += 1

    def _aborted(self, _decision: d.GangStartAborted, _world: World) -> None:
        self.aborted_starts += 1

    def _refused(self, decision: d.InputRejected, _world: World) -> None:
        self.rejected_inputs += decision.count

    def _reserved(self, decision: d.ReservationPlanned, _world: World) -> None:
        self.jobs[decision.job].reserved = True

    def _unreserved(self, decision: d.ReservationReleased, _world: World) -> None:
        self.jobs[decision.job].reserved = False


_COUNTS: Final[Mapping[type, Callable[[Tally, Any, World], None]]] = {
    d.JobQueued: Tally._queued,  # noqa: SLF001 - the table of this class
    d.JobRejected: Tally._rejected,  # noqa: SLF001
    d.JobFinished: Tally._finished,  # noqa: SLF001
    d.GangPlaced: Tally._placed,  # noqa: SLF001
    d.GangStarted: Tally._started,  # noqa: SLF001
    d.GangReleased: Tally._released,  # noqa: SLF001
    d.GangPreempted: Tally._preempted,  # noqa: SLF001
    d.GangStartAborted: Tally._aborted,  # noqa: SLF001
    d.InputRejected: Tally._refused,  # noqa: SLF001
    d.ReservationPlanned: Tally._reserved,  # noqa: SLF001
    d.ReservationReleased: Tally._unreserved,  # noqa: SLF001
}
