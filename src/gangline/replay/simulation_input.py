"""What a simulation is made of: the files and options of `gangline simulate`, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gangline.events.facts import TeamSet
from gangline.replay.bad_input import BadInputError
from gangline.replay.faults import FaultModel, parse_faults
from gangline.replay.fleet_file import (
    Fleet,
    parse_duration_ms,
    read_fleet,
    read_policy,
    read_teams,
    split_guarantee,
)
from gangline.replay.traces import Trace, TraceJob, read_trace, teams_of
from gangline.scheduler.core import policy

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUTE_MS: Final = 60_000
# Wait causes are recorded for people who look at a live queue; a simulation does it less often.
SIMULATION_POLICY: Final[Mapping[str, int]] = {"cause_interval": 10 * MINUTE_MS}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """The options of `gangline simulate`.

    checkpoint_ms: of jobs whose row names none, 0 for jobs that cannot checkpoint. speedup_load:
    jobs arrive so many times faster. log: where the simulated log is written.
    """

    trace: Path
    fleet: Path
    teams: Path | None = None
    policy: Path | None = None
    faults: str = "none"
    seed: int = 1
    checkpoint_ms: int = 30 * MINUTE_MS
    speedup_load: float = 1.0
    limit_jobs: int | None = None
    log: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything that happens, before it does. trace: with what was left out of the file."""

    jobs: tuple[TraceJob, ...]
    fleet: Fleet
    teams: tuple[TeamSet, ...]
    policy: Mapping[str, int]
    faults: FaultModel
    seed: int
    checkpoint_ms: int
    trace: Trace = field(default_factory=lambda: Trace(jobs=()))


def read_inputs(settings: SimulationSettings) -> Inputs:
    """Read all files and check them against each other; raises BadInputError."""
    if not 0 < settings.speedup_load <= 1e6:
        raise BadInputError("--speedup-load", "expected a number above 0")
    if settings.limit_jobs is not None and settings.limit_jobs < 1:
        raise BadInputError("--limit-jobs", "expected at least 1")
    trace = read_trace(settings.trace, limit_jobs=settings.limit_jobs)
    if not trace.jobs:
        raise BadInputError(settings.trace, "expected at least one job that can be simulated")
    fleet = read_fleet(settings.fleet)
    listed = read_teams(settings.teams) if settings.teams else ()
    own = _policy_values(settings.policy) if settings.policy else {}
    return Inputs(
        jobs=tuple(_faster(trace.jobs, settings.speedup_load)),
        fleet=fleet,
        teams=(*listed, *_unlisted(trace.jobs, listed, fleet)),
        policy={**SIMULATION_POLICY, **own},
        faults=parse_faults(settings.faults),
        seed=settings.seed,
        checkpoint_ms=settings.checkpoint_ms,
        trace=trace,
    )


def _faster(jobs: Sequence[TraceJob], speedup: float) -> Sequence[TraceJob]:
    if speedup == 1:
        return jobs
    return [replace(job, submit_ms=round(job.submit_ms / speedup)) for job in jobs]


def _unlisted(
    jobs: Sequence[TraceJob], listed: Sequence[TeamSet], fleet: Fleet
) -> tuple[TeamSet, ...]:
    """Teams that submit but stand in no file share equally what the others are not guaranteed."""
    known = {team.team for team in listed}
    names = [name for name in teams_of(jobs) if name not in known]
    guaranteed = sum(team.guaranteed or 0 for team in listed if not team.parent)
    return split_guarantee(names, max(0, fleet.gpus - guaranteed))


def _policy_values(path: Path) -> dict[str, int]:
    """The keys of a policy file in the core's units."""
    values = {}
    for key, value in read_policy(path).items():
        known = policy.KEYS.get(key)
        if known is None:
            raise BadInputError(path, f"{key}: no such policy key; `gangline policy` lists them")
        if known.unit == "ms":
            if not isinstance(value, str):
                raise BadInputError(path, f'{key}: expected a duration like "10m", got {value}')
            values[key] = parse_duration_ms(value, where=f"{path}: {key}")
        elif isinstance(value, str):
            raise BadInputError(path, f"{key}: expected a count, got {value!r}")
        else:
            values[key] = value
        problem = policy.problem(key, values[key])
        if problem:
            raise BadInputError(path, problem)
    return values
