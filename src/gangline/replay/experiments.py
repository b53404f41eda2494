"""What the policy must reach, as experiments that anyone can run again: `make experiments`.

Each experiment is a simulation with goals. It is run on several seeds drawn fresh, which are
printed, and the worst value of each goal is what counts. With `--short` fleets and times are a
tenth, one seed each: a check that everything runs, whose numbers are not the goals' numbers.
Experiments on public traces need the folder that `GANGLINE_TRACES` names.

    python -m gangline.replay.experiments [--short] [--seeds N] [--only NAME] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gangline.replay.baselines import BASELINES
from gangline.replay.experiment_lending import lending
from gangline.replay.faults import FaultModel, parse_faults
from gangline.replay.fleet_file import split_guarantee
from gangline.replay.simulate import Simulation, run
from gangline.replay.simulation_input import SIMULATION_POLICY, Inputs
from gangline.replay.traces import read_trace, teams_of
from gangline.replay.workload import WorkloadSettings, make_workload, pod_fleet

MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
CHECKPOINT_MS: Final = 30 * 60_000
Numbers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Goal:
    """A number and its bound. least: whether the bound is the least allowed, else the most."""

    words: str
    of: Callable[[Numbers], float]
    bound: float
    least: bool = False

    def met(self, value: float) -> bool:
        """Whether a value reaches the goal."""
        return value >= self.bound if self.least else value <= self.bound

    def worst(self, values: Sequence[float]) -> float:
        """The value that counts."""
        return min(values) if self.least else max(values)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A name, what is done, how (with a seed; short or not), and what it must reach."""

    name: str
    about: str
    run: Callable[[int, bool], Numbers | None]
    goals: Sequence[Goal]


def mission(load: float) -> Callable[[int, bool], Numbers | None]:
    """The mission's workload for 14 days with the faults of RSC-1."""

    def once(seed: int, short: bool) -> Numbers:  # noqa: FBT001 - one of two sizes
        scale = 10 if short else 1
        settings = WorkloadSettings(
            nodes=1000 // scale,
            jobs_per_day=1900 // scale,
            days=2 if short else 14,
            load=load,
            seed=seed,
        )
        workload = make_workload(settings)
        inputs = Inputs(
            jobs=workload.jobs,
            fleet=workload.fleet,
            teams=workload.teams,
            policy=SIMULATION_POLICY,
            faults=parse_faults("rsc1"),
            seed=seed,
            checkpoint_ms=CHECKPOINT_MS,
        )
        return run(inputs, progress=_tell).numbers

    return once


def public(file: str, *, nodes: int, speedup: float) -> Callable[[int, bool], Numbers | None]:
    """A public trace under FIFO, EASY backfill and ours; None where its file is not there."""

    def once(seed: int, short: bool) -> Numbers | None:  # noqa: FBT001 - one of two sizes
        path = Path(os.environ.get("GANGLINE_TRACES", "")) / file
        if "GANGLINE_TRACES" not in os.environ or not path.is_file():
            return None
        trace = read_trace(path, limit_jobs=2000 if short else None)
        jobs = tuple(replace(job, submit_ms=round(job.submit_ms / speedup)) for job in trace.jobs)
        fleet = pod_fleet(nodes)
        inputs = Inputs(
            jobs=jobs,
            fleet=fleet,
            teams=split_guarantee(teams_of(jobs), fleet.gpus),
            policy=SIMULATION_POLICY,
            faults=FaultModel(),
            seed=seed,
            checkpoint_ms=CHECKPOINT_MS,
            trace=trace,
        )
        names = ("fifo", "backfill", "gangline")
        return {
            name: run(inputs, baseline=BASELINES[name], progress=_tell).numbers for name in names
        }

    return once


def _ratio(key: str, band: str, against: str) -> Callable[[Numbers], float]:
    """Ours over another policy's mean, where that one's is not nothing."""

    def of(found: Numbers) -> float:
        ours, theirs = found["gangline"][key][band]["mean"], found[against][key][band]["mean"]
        return float(ours / theirs) if theirs else float(ours > 0)

    return of


MISSION_GOALS: Final = (
    Goal("allocation", lambda n: n["allocation"], 0.95, least=True),
    Goal("goodput", lambda n: n["goodput"], 0.93, least=True),
    Goal("starved", lambda n: n["starved"], 0),
    Goal("fairness.max_error", lambda n: n["fairness"]["max_error"], 0.05),
    Goal("lost work of held GPU-time", lambda n: n["lost_share"], 0.01),
    Goal("preempted GPU-hours of granted", lambda n: n["preempted_share"], 0.1),
    Goal("evictions without a start", lambda n: n["evictions_without_start"], 0),
    Goal("placement.best_level", lambda n: n["placement"]["best_level"], 0.85, least=True),
)
LIGHT_GOALS: Final = (
    Goal("allocation of demand", lambda n: n["allocation"] / n["demand"], 0.99, least=True),
    Goal("small jobs' p90 wait, s", lambda n: n["wait_s"]["small"]["p90"], 2 * MINUTE_S),
    Goal("large gangs' p90 wait, s", lambda n: n["wait_s"]["large"]["p90"], 4 * HOUR_S),
    Goal("placement.best_level", lambda n: n["placement"]["best_level"], 0.95, least=True),
)
TRACE_GOALS: Final = (
    Goal("mean wait, of FIFO's", _ratio("wait_s", "all", "fifo"), 1.0),
    Goal("mean wait, of EASY's", _ratio("wait_s", "all", "backfill"), 1.0),
    Goal("mean slowdown, of FIFO's", _ratio("slowdown", "all", "fifo"), 1.0),
    Goal("mean slowdown, of EASY's", _ratio("slowdown", "all", "backfill"), 1.0),
    Goal(
        "allocation over the better of both",
        lambda n: (
            n["gangline"]["allocation"] / max(n["fifo"]["allocation"], n["backfill"]["allocation"])
        ),
        0.999,
        least=True,
    ),
    *(
        Goal(f"mean wait of {band} jobs, of EASY's", _ratio("wait_s", band, "backfill"), 1.1)
        for band in ("small", "medium", "large")
    ),
)
LENDING_GOALS: Final = (
    Goal("lent of the idle guarantee after a minute", lambda n: n["lent_share"], 0.9, least=True),
    Goal("seconds until the guarantee is back", lambda n: n["back_s"], 60 + 120),
)

EXPERIMENTS: Final = (
    Experiment("load-1.1", "mission workload, load 1.1, rsc1 faults", mission(1.1), MISSION_GOALS),
    Experiment("load-0.8", "mission workload, load 0.8, rsc1 faults", mission(0.8), LIGHT_GOALS),
    Experiment("lending", "one team idle, the others over-demanding", lending, LENDING_GOALS),
    Experiment(
        "philly",
        "Philly on 311 nodes, arrivals six times as fast",
        public("philly.csv.gz", nodes=311, speedup=6),
        TRACE_GOALS,
    ),
    Experiment(
        "venus",
        "Helios Venus on 133 nodes, arrivals four times as fast",
        public("helios_venus.csv.gz", nodes=133, speedup=4),
        TRACE_GOALS,
    ),
    Experiment(
        "acme",
        "Acme-calibrated synthetic (Seren) on 1,000 nodes",
        public("synth_acme_seren.csv.gz", nodes=1000, speedup=1),
        TRACE_GOALS,
    ),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An experiment with its numbers on each seed."""

    experiment: Experiment
    seeds: Sequence[int]
    numbers: Sequence[Numbers]

    @property
    def met(self) -> bool:
        """Whether every goal is reached on every seed."""
        return all(goal.met(self.worst(goal)) for goal in self.experiment.goals)

    def worst(self, goal: Goal) -> float:
        """The value of a goal that counts."""
        return goal.worst([goal.of(found) for found in self.numbers])

    def lines(self) -> list[str]:
        """The outcome as a Markdown table."""
        rows = [f"## {self.experiment.name}: {self.experiment.about}", ""]
        rows += [f"Seeds: {', '.join(map(str, self.seeds))}. The worst of them:", ""]
        rows += ["| number | goal | worst | reached |", "| --- | --- | --- | --- |"]
        for goal in self.experiment.goals:
            value, sign = self.worst(goal), "at least" if goal.least else "at most"
            told = "yes" if goal.met(value) else "**no**"
            rows.append(f"| {goal.words} | {sign} {goal.bound:g} | {value:.4g} | {told} |")
        return [*rows, ""]


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiments; 1 when a goal is not reached."""
    arguments = _parser().parse_args(words)
    chosen = [e for e in EXPERIMENTS if not arguments.only or e.name in arguments.only]
    outcomes = []
    for experiment in chosen:
        outcome = _outcome(experiment, 1 if arguments.short else arguments.seeds, arguments.short)
        if outcome is None:
            sys.stderr.write(f"{experiment.name}: left out, as its trace is not there\n")
            continue
        outcomes.append(outcome)
        sys.stdout.write("\n".join(outcome.lines()) + "\n")
        sys.stdout.flush()
    if arguments.markdown is not None:
        _write(arguments.markdown, outcomes, words)
    return 0 if all(outcome.met for outcome in outcomes) or arguments.short else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gangline.replay.experiments", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a tenth of the size, one seed")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds [default: 10]")
    parser.add_argument("--only", action="append", choices=[e.name for e in EXPERIMENTS])
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    return parser


def _outcome(experiment: Experiment, seeds: int, short: bool) -> Outcome | None:  # noqa: FBT001
    drawn = [1 + secrets.randbelow(1_000_000) for _ in range(seeds)]
    numbers = []
    for seed in drawn:
        began = time.monotonic()
        found = experiment.run(seed, short)
        if found is None:
            return None
        numbers.append(found)
        took = time.monotonic() - began
        sys.stderr.write(f"\r{experiment.name}, seed {seed}: {took:.0f} s      \n")
    return Outcome(experiment, drawn, numbers)


def _write(path: Path, outcomes: Sequence[Outcome], words: Sequence[str] | None) -> None:
    command = shlex.join(["python", "-m", "gangline.replay.experiments", *(words or sys.argv[1:])])
    head = ["# Experiments", "", f"Measured by `{command}`.", ""]
    body = [line for outcome in outcomes for line in outcome.lines()]
    path.write_text("\n".join([*head, *body]), encoding="utf-8")


_LAST: Final = [0.0]


def _tell(simulation: Simulation) -> None:
    """Progress, once a second."""
    if sys.stderr.isatty() and time.monotonic() - _LAST[0] > 1:
        _LAST[0] = time.monotonic()
        days = simulation.now_ms / 86_400_000
        total = len(simulation.inputs.jobs)
        sys.stderr.write(f"\r{simulation.done:,} of {total:,} jobs, day {days:.1f}   ")


if __name__ == "__main__":
    sys.exit(main())
