"""`gangline bench decide`: how long a decision takes on a full fleet with a long queue.

A world is filled with gangs of all bands, ten teams with quotas that borrow from each other, and a
queue. Then time goes on: gangs end, others arrive in their place, nodes fail, and an urgent gang of
512 GPUs claims its place. What is measured is the core's step alone, by the thread's CPU time.
"""

from __future__ import annotations

import gc
import random
import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.agents.simulated_gang import Program
from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.spec import CheckpointSpec, JobClass, Spec
from gangline.replay.measures.result import spread
from gangline.replay.workload import pod_fleet, team_name, team_sets
from gangline.replay.world import START_MS, World
from gangline.scheduler import core as real_core
from gangline.scheduler.batches import Link, StepHeader, build
from gangline.scheduler.collecting import only_short_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gangline.events.batch import Edge
    from gangline.events.decisions import Decision
    from gangline.replay.core_port import Core
    from gangline.scheduler.core.inputs import Fact

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
TEAMS: Final = 10
FAULT_EVERY: Final = 50
URGENT_GPUS: Final = 512
# Shares of gangs by band, and their sizes in GPUs.
BANDS: Final = (
    (0.6, (1, 2, 4)),
    (0.3, (8, 16, 32, 64)),
    (0.1, (128, 256, 512)),
)
# The burst: how many gangs, and the least and most of what each asks for (GPUs, or full nodes).
BURST_SMALL: Final = (300, 1, 4)
BURST_NODES: Final = ((150, 1, 3), (50, 8, 14))
FLOOR_ROUNDS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideSettings:
    """The options of `gangline bench decide`. finished: jobs in the history before it begins.

    ends: gangs that end while it is measured. runs: of which the best counts.
    """

    nodes: int = 1000
    gpus_per_node: int = 8
    pending: int = 500
    fill: float = 0.95
    seed: int = 1
    finished: int = 0
    ends: int = 300
    runs: int = 3


class Sample(NamedTuple):
    """One step. cpu_ns: of the thread."""

    cpu_ns: int
    wall_ns: int
    facts: Sequence[Fact]
    decisions: Sequence[Decision]

    @property
    def moves(self) -> bool:
        """Whether it placed or preempted a gang."""
        return any(isinstance(one, d.GangPlaced | d.GangPreempted) for one in self.decisions)


class WatchedCore:
    """A core whose steps are timed and kept."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.samples: list[Sample] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the core has
        return getattr(self._core, name)

    def step(
        self,
        state: Any,  # noqa: ANN401 - the core's own
        facts: Sequence[Fact],
        *,
        edges: Sequence[Edge],
        now_ms: int,
        caught_up: bool,
    ) -> list[Decision]:
        """The core's step, timed."""
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        decisions = self._core.step(state, facts, edges=edges, now_ms=now_ms, caught_up=caught_up)
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        self.samples.append(Sample(cpu, wall, facts, tuple(decisions)))
        return decisions


def bench_decide(
    settings: DecideSettings, *, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """The JSON object of `gangline bench decide`; the best of three runs."""
    runs = []
    for _ in range(settings.runs):
        bench = Bench(settings)
        gc.collect()
        with only_short_passes():
            bench.run(progress)
        runs.append(bench.numbers())
    best = min(runs, key=lambda run: run["decide_ms"]["p50"])
    bursts = [burst(settings) for _ in range(settings.runs)]
    return {
        **best,
        "urgent_ms": min(run["urgent_ms"] for run in runs),
        "burst": min(bursts, key=lambda one: one["seconds"]),
        "rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


class Bench:
    """One run: fill, then a steady load."""

    def __init__(self, settings: DecideSettings) -> None:
        self.settings = settings
        self.core = WatchedCore(real_core)
        self.world = World(self.core, keeps_steps=False, observers=(self,))
        self._chance = random.Random(settings.seed)  # noqa: S311 (to be repeated)
        self._sizes = self._draw_sizes()
        self._names = 0
        self._waiting = 0
        self._ended = 0
        self._urgent = ""
        self._urgent_ns = 0
        self._measured_from = 0

    def stepped(self, _world: World, step: Any) -> None:  # noqa: ANN401 - a Step
        """Count what waits and what has ended."""
        for decision in step.decisions:
            if isinstance(decision, d.JobQueued | d.JobRequeued):
                self._waiting += 1
            elif isinstance(decision, d.GangPlaced | d.JobRejected):
                self._waiting -= 1
            elif isinstance(decision, d.JobFinished):
                self._ended += 1
                self._waiting -= decision.outcome is not d.Outcome.SUCCEEDED

    def run(self, progress: Callable[[int], None] | None) -> None:
        """Fill the fleet and the queue, then let gangs end until enough have."""
        self._furnish()
        self._fill()
        self._measured_from = len(self.core.samples)
        began, faults = self._ended, 0
        nodes = list(self.world.fleet.nodes)
        while self._ended - began < self.settings.ends:
            self._run_until_end()
            while self._waiting < self.settings.pending:
                self._submit(next(self._sizes))
            done = self._ended - began
            if done // FAULT_EVERY > faults:
                faults += 1
                self.world.fail(self._chance.choice(nodes), for_ms=HOUR_MS)
            if done >= self.settings.ends // 2 and not self._urgent:
                self._claim()
            if progress is not None:
                progress(done)

    def numbers(self) -> dict[str, Any]:
        """What was measured after the filling."""
        samples = self.core.samples[self._measured_from :]
        moving = [sample for sample in samples if sample.moves]
        cpu_ns = sum(sample.cpu_ns for sample in samples)
        facts = sum(len(sample.facts) for sample in samples)
        placed = sum(isinstance(one, d.GangPlaced) for s in samples for one in s.decisions)
        decide = spread(sorted(sample.cpu_ns for sample in moving), _ms)
        median = sorted(moving, key=lambda sample: sample.cpu_ns)[len(moving) // 2]
        floor_us = floor_of(median)
        return {
            "nodes": self.settings.nodes,
            "gpus": self.settings.nodes * self.settings.gpus_per_node,
            "pending": self.settings.pending,
            "decisions": sum(len(sample.decisions) for sample in samples),
            "core": "pure" if hasattr(real_core.step, "__code__") else "compiled",
            "decide_ms": _three(decide),
            "decide_wall_ms": _three(spread(sorted(s.wall_ns for s in moving), _ms)),
            "per_fact_us": round(cpu_ns / 1000 / max(1, facts), 1),
            "placed_per_s": round(placed / (cpu_ns / 1e9), 1) if cpu_ns else 0.0,
            "urgent_ms": _ms(self._urgent_ns),
            "floor_us": round(floor_us, 1),
            "decide_over_floor": round(decide["p50"] * 1000 / floor_us, 2),
            "finished": self.settings.finished,
        }

    # --- the load --------------------------------------------------------------------------------

    def _furnish(self) -> None:
        furnish(self.world, self.settings)
        for start in range(0, self.settings.finished, 1000):
            numbers = range(start, min(start + 1000, self.settings.finished))
            history: list[Decision] = [one for number in numbers for one in _finished(number)]
            real_core.fold(self.world.state, history, now_ms=START_MS)

    def _fill(self) -> None:
        """Submit until the fleet is as full as wanted, then until the queue is as long."""
        wanted = self.settings.fill * self.settings.nodes * self.settings.gpus_per_node
        while real_core.fleet_numbers(self.world.state).held < wanted:
            self._submit(next(self._sizes))
            if self._waiting >= self.settings.pending:
                return
        while self._waiting < self.settings.pending:
            self._submit(next(self._sizes))

    def _run_until_end(self) -> None:
        ended = self._ended
        self.world.run(self.world.now_ms + 30 * 24 * HOUR_MS, watch=lambda: self._ended > ended)

    def _claim(self) -> None:
        """The urgent gang; its step is the one that answers its submission."""
        gpus = min(URGENT_GPUS, self.settings.nodes * self.settings.gpus_per_node // 2)
        before = len(self.core.samples)
        self._urgent = self._submit(gpus, job_class=JobClass.URGENT)
        self._urgent_ns = self.core.samples[before].cpu_ns

    def _submit(self, gpus: int, *, job_class: JobClass = JobClass.NORMAL) -> str:
        self._names += 1
        name = f"gang-{self._names}"
        spec = Spec(
            team=team_name(self._chance.randrange(TEAMS)),
            gpus=gpus,
            job_class=job_class,
            limit_ms=self._chance.choice((2, 4, 8, 24)) * HOUR_MS,
            checkpoint=CheckpointSpec(interval_ms=30 * MINUTE_MS),
        )
        runtime_ms = round(self._chance.expovariate(1 / HOUR_MS)) + MINUTE_MS
        self.world.submit(name, spec, Program(runtime_ms=runtime_ms))
        return name

    def _draw_sizes(self) -> Iterator[int]:
        """GPUs of one gang after another; none is larger than a quarter of the fleet."""
        most = max(1, self.settings.nodes * self.settings.gpus_per_node // 4)
        while True:
            sizes = self._chance.choices(BANDS, [share for share, _ in BANDS])[0][1]
            yield min(self._chance.choice(sizes), most)


def furnish(world: World, settings: DecideSettings) -> None:
    """A fleet of pods and ten teams with quotas that may borrow."""
    fleet = pod_fleet(settings.nodes, gpus_per_node=settings.gpus_per_node)
    world.admit(fleet.admissions())
    for team in team_sets(TEAMS, fleet.gpus):
        world.control(team)


def burst(settings: DecideSettings) -> dict[str, Any]:
    """An empty fleet, and 500 gangs at once in one step."""
    chance = random.Random(settings.seed)  # noqa: S311 (to be repeated)
    core = WatchedCore(real_core)
    world = World(core, keeps_steps=False)
    furnish(world, settings)
    count, low, high = BURST_SMALL
    sizes = [chance.randint(low, high) for _ in range(count)]
    for count, low, high in BURST_NODES:
        sizes += [chance.randint(low, high) * settings.gpus_per_node for _ in range(count)]
    chance.shuffle(sizes)
    for number, gpus in enumerate(sizes):
        spec = Spec(team=team_name(number % TEAMS), gpus=gpus)
        world.enter(f"burst-{number}", spec, Program(runtime_ms=HOUR_MS), at_ms=world.now_ms)
    before = len(core.samples)
    world.settle()
    sample = core.samples[before]
    placed = sum(isinstance(one, d.GangPlaced) for one in sample.decisions)
    return {"gangs": len(sizes), "placed": placed, "seconds": round(sample.cpu_ns / 1e9, 4)}


def floor_of(sample: Sample) -> float:
    """Microseconds that decoding the facts and encoding the batch of a step cost."""
    values = [codec.encode(fact.event) for fact in sample.facts if fact.event is not None]
    header = StepHeader(
        link=Link("bench", 1, 1, bytes(32), START_MS),
        leader="bench",
        term=1,
        now_ms=START_MS,
        caught_up=True,
        logic_version=real_core.LOGIC_VERSION,
        inputs=(),
        edges=(),
        state_digest=bytes(32),
    )
    rounds = []
    for _ in range(FLOOR_ROUNDS):
        began = time.thread_time_ns()
        for value in values:
            codec.decode(value)
        build(header, [codec.pack(decision) for decision in sample.decisions])
        rounds.append(time.thread_time_ns() - began)
    return sorted(rounds)[len(rounds) // 2] / 1000


def _finished(number: int) -> tuple[d.JobQueued, d.JobFinished]:
    """A job of the history that came and ended."""
    name = f"finished-{number}"
    spec = Spec(team=team_name(number % TEAMS), gpus=1)
    queued = d.JobQueued(
        job=name, number=number + 1, spec=spec, submitted_ms=START_MS, submitted_at="jobs-0-0"
    )
    return queued, d.JobFinished(job=name, outcome=d.Outcome.SUCCEEDED)


def _three(values: dict[str, float]) -> dict[str, float]:
    return {name: values[name] for name in ("p50", "p99", "max")}


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
