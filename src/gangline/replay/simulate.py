"""`gangline simulate`: a trace on a fleet, with faults, through the real core.

The world (`world.py`) is a whole cell on a virtual clock. Here it is given what happens in it: the
fleet and the teams first, then submissions and faults as their times come, until every job has
ended. What a job's row says is what its program does: it works for its duration (longer when it
straggles) and ends; a row that the source calls failed ends with code 1 and no retry.

Everything is a function of the settings: the same settings give the same decisions, whose digest
is part of the result.
"""

from __future__ import annotations

import hashlib
import heapq
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gangline.agents.simulated_gang import Program, Saves
from gangline.collecting import without_collecting
from gangline.events import codec
from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.spec import CheckpointSpec, JobClass, Spec
from gangline.replay.baselines import GANGLINE, Baseline, Desk
from gangline.replay.measures import Fold, Measured, Window, measure
from gangline.replay.measures.result import spread
from gangline.replay.recorder import LogRecorder
from gangline.replay.simulation_input import Inputs, SimulationSettings, read_inputs
from gangline.replay.timed_core import TimedCore
from gangline.replay.world import START_MS, World
from gangline.scheduler import core as real_core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gangline.replay.core_port import Step
    from gangline.replay.faults import FaultEvent
    from gangline.replay.traces import TraceJob
    from gangline.replay.world import Observer

Progress = Callable[["Simulation"], None]

HOUR_MS: Final = 3_600_000
ONE_TEAM: Final = "everybody"
# A job that is held by the scheduler is looked at by its owner, and released, after so long.
OWNER_LOOKS_MS: Final = HOUR_MS
SAVES: Final = Saves.WHEN_NEEDED
# When nothing has started or ended for so long after the last submission, nothing ever will; the
# longest repair of a node takes 131 days.
GIVE_UP_MS: Final = 200 * 24 * HOUR_MS


def simulate(settings: SimulationSettings, *, progress: Progress | None = None) -> Measured:
    """Read the files, run our policy, measure; raises BadInputError."""
    return run(read_inputs(settings), progress=progress, log=settings.log)


def run(
    inputs: Inputs,
    *,
    baseline: Baseline = GANGLINE,
    log: Path | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Run one policy over the inputs and measure what it did. log: where its history goes."""
    began = time.perf_counter()
    with _recorder(inputs, log) as observers, without_collecting():
        simulation = Simulation(inputs, baseline=baseline, observers=observers)
        simulation.run(progress)
    wall_s = time.perf_counter() - began
    measured = measure(simulation.fold)
    return replace(
        measured, numbers={**measured.numbers, **_run_numbers(simulation, measured, wall_s)}
    )


@contextmanager
def _recorder(inputs: Inputs, log: Path | None) -> Iterator[tuple[LogRecorder, ...]]:
    """What writes the history to a file, if one is wanted."""
    if log is None:
        yield ()
        return
    genesis = f"simulation-{inputs.seed}"
    recorder = LogRecorder(log, genesis=genesis, logic_version=real_core.LOGIC_VERSION)
    try:
        yield (recorder,)
    finally:
        recorder.close()


class Simulation:
    """One run.

    done: how many jobs have ended or were refused. now_ms: simulated time so far. demand: when each
    job came, how long it works, and its GPUs.
    """

    def __init__(
        self, inputs: Inputs, *, baseline: Baseline = GANGLINE, observers: Sequence[Observer] = ()
    ) -> None:
        self.inputs = inputs
        self.baseline = baseline
        self.core = TimedCore(real_core)
        self.fold = Fold(
            origin_ms=START_MS, team_of=_team_of(inputs) if baseline.one_team else None
        )
        self.done = 0
        self.facts = 0
        self.demand: list[tuple[int, int, int]] = []
        self.digest = hashlib.blake2b(digest_size=32)
        self.world = World(
            self.core,
            observers=(self, *observers),
            keeps_steps=False,
            start_ms=START_MS,
            saves=SAVES,
            patient=frozenset({f.MemberStarted}),
        )
        self._jobs = iter(inputs.jobs)
        self._next_job = next(self._jobs, None)
        self._stretch = inputs.faults.stretch(seed=inputs.seed)
        self._faults = inputs.faults.events(inputs.fleet, seed=inputs.seed)
        self._last_ms = START_MS + max(job.submit_ms for job in inputs.jobs)
        self._desk: list[tuple[int, int, TraceJob]] = []
        self._at_desk = 0
        self._handed_in = 0
        self._not_waiting = 0

    @property
    def now_ms(self) -> int:
        """Simulated time since the start."""
        return self.world.now_ms - START_MS

    def run(self, progress: Progress | None, *, until_ms: int = 1 << 62) -> None:
        """Let everything happen, at most up to a time since the start."""
        self._furnish()
        self._submit_due()
        self._break_next()
        total = len(self.inputs.jobs)
        looks = 0

        def ended() -> bool:
            nonlocal looks
            looks += 1
            if progress is not None and not looks % 512:
                progress(self)
            return self.done >= total or self.world.now_ms > self._last_ms + GIVE_UP_MS

        self.world.run(START_MS + until_ms, watch=ended)
        if progress is not None:
            progress(self)

    def stepped(self, world: World, step: Step) -> None:
        """A step was made: measure it, and see who has ended or is held."""
        self.facts = world.facts_read
        self.fold.fold(step.decisions, now_ms=step.now_ms)
        if step.decisions:
            self.digest.update(step.now_ms.to_bytes(8, "big"))
        for decision in step.decisions:
            packed = codec.pack(decision)
            self.digest.update(packed.kind.encode())
            self.digest.update(packed.body)
            self._notice(decision)
        if self._desk and self.baseline.desk is not Desk.NONE:
            self._serve()

    def _notice(self, decision: d.Decision) -> None:
        if isinstance(decision, d.JobFinished | d.JobRejected):
            self.done += 1
            self._last_ms = max(self._last_ms, self.world.now_ms)
        elif isinstance(decision, d.GangPlaced):
            self._last_ms = max(self._last_ms, self.world.now_ms)
        elif isinstance(decision, d.JobHeld) and decision.by == "scheduler":
            job = decision.job
            self.world.at(
                self.world.now_ms + OWNER_LOOKS_MS,
                lambda: self.world.ask(f.JobHoldReleased(job=job)),
            )
        if isinstance(decision, d.GangPlaced | d.JobRejected):
            self._not_waiting += 1
        elif isinstance(decision, d.JobRequeued):
            self._not_waiting -= 1

    # --- what happens in the world ---------------------------------------------------------------

    def _furnish(self) -> None:
        """Policy, fleet and teams, before the first submission."""
        inputs, world = self.inputs, self.world
        world.control(f.PolicySet(values={**inputs.policy, **self.baseline.policy}))
        world.admit(inputs.fleet.admissions())
        if self.baseline.one_team:
            world.control(f.TeamSet(team=ONE_TEAM, guaranteed=inputs.fleet.gpus))
            self.fold.set_teams(inputs.teams)
            return
        for team in inputs.teams:
            world.control(team if self.baseline.borrows else replace(team, borrow=0))

    def _submit_due(self) -> None:
        """Submit what is due, and come back for the next; what is due at once is read at once."""
        while (job := self._next_job) is not None:
            at_ms = START_MS + job.submit_ms
            if at_ms > self.world.now_ms:
                self.world.at(at_ms, self._submit_due)
                return
            self._next_job = next(self._jobs, None)
            if self.baseline.desk is Desk.NONE:
                self._hand_in(job, at_ms)
            else:
                self._at_desk += 1
                key = job.duration_ms if self.baseline.desk is Desk.SHORTEST else 0
                heapq.heappush(self._desk, (key, self._at_desk, job))
                self._serve()

    def _serve(self) -> None:
        """Hand in the first at the desk when nobody waits inside."""
        while self._desk and self._handed_in == self._not_waiting:
            _, _, job = heapq.heappop(self._desk)
            self._hand_in(job, START_MS + job.submit_ms)

    def _hand_in(self, job: TraceJob, at_ms: int) -> None:
        """Submit to the core. Its age counts from `at_ms`."""
        self._handed_in += 1
        program = self._program(job)
        self.demand.append((at_ms, program.runtime_ms or 0, job.gpus))
        self.world.enter(job.job, self._spec(job), program, at_ms=at_ms)

    def _spec(self, job: TraceJob) -> Spec:
        interval_ms = job.checkpoint_ms
        if interval_ms is None:
            interval_ms = self.inputs.checkpoint_ms
        alike = self.baseline.one_team
        return Spec(
            team=ONE_TEAM if alike else job.team,
            gpus=job.gpus,
            gpus_per_node=job.gpus_per_node,
            job_class=JobClass.NORMAL if alike else job.job_class,
            limit_ms=job.limit_ms,
            checkpoint=CheckpointSpec(interval_ms=interval_ms) if interval_ms else None,
            topology=job.topology,
            retries=0,
        )

    def _program(self, job: TraceJob) -> Program:
        runtime_ms = round(job.duration_ms * next(self._stretch))
        return Program(runtime_ms=runtime_ms, code=int(job.status.lower().startswith("fail")))

    def _break_next(self) -> None:
        """Let the next fault come at its time."""
        fault = next(self._faults, None)
        if fault is None:
            return

        def strike() -> None:
            self._strike(fault)
            self._break_next()

        self.world.at(START_MS + fault.at_ms, strike)

    def _strike(self, fault: FaultEvent) -> None:
        """A fault happens, unless what it would break is broken already."""
        world, node = self.world, self.world.fleet.nodes[fault.node]
        if not node.up:
            return
        if fault.kind == "node":
            world.fail(fault.node, for_ms=fault.for_ms)
        elif fault.kind == "crash":
            world.kill_on_gpu(fault.node, gpu=fault.gpu)
        elif fault.gpu not in node.bad:
            world.break_gpu(fault.node, gpu=fault.gpu, kind=fault.what)
            world.at(
                world.now_ms + fault.for_ms,
                lambda: world.repair_gpu(fault.node, gpu=fault.gpu),
            )


def _team_of(inputs: Inputs) -> dict[str, str]:
    return {job.job: job.team for job in inputs.jobs}


def _run_numbers(simulation: Simulation, measured: Measured, wall_s: float) -> dict[str, Any]:
    """What only the run itself can say."""
    events = simulation.facts + measured.fold.events
    steps_us = sorted(simulation.core.step_us)
    times = spread(steps_us, lambda microseconds: microseconds / 1000)
    return {
        "policy": simulation.baseline.name,
        "seed": simulation.inputs.seed,
        "left_out": dict(simulation.inputs.trace.left_out),
        "demand": _demand(simulation, measured.window),
        "decision_ms": {name: times[name] for name in ("p50", "p99", "max")},
        "steps": simulation.core.steps,
        "decisions": measured.fold.events,
        "events": events,
        "events_per_s": round(events / wall_s) if wall_s else 0,
        "wall_s": round(wall_s, 3),
        "digest": simulation.digest.hexdigest(),
    }


def _demand(simulation: Simulation, window: Window) -> float:
    """What an infinite fleet would hold of the capacity, refused jobs included."""
    gpu_ms = sum(gpus * window.cut(at, at + runs) for at, runs, gpus in simulation.demand)
    return round(window.share(gpu_ms), 6)
