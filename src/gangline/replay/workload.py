"""A workload like that of a large training fleet, made up from published figures.

What is drawn: jobs in three bands of size; sweeps of small jobs that arrive in one second; a rhythm
of day and week; ten teams whose guarantees and demands differ; how jobs end; and limits that people
declare too high. `load` is exact: durations of each band are stretched until the demand of the
whole window, as an infinite fleet would hold it, is `load` times the capacity.

Each constant names its source: V read in a primary source, S in a secondary one, C computed from a
published trace, "chosen" where nothing is published. All chance comes from one seeded generator.
"""

from __future__ import annotations

import bisect
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from gangline.events.facts import TeamSet
from gangline.events.spec import UNLIMITED, JobClass
from gangline.replay.bad_input import BadInputError
from gangline.replay.fleet_file import (
    DEFAULT_LEVELS,
    Fleet,
    FleetNode,
    fleet_text,
    regular_fleet,
    teams_text,
)
from gangline.replay.traces import TraceJob, write_trace

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS
GPUS_PER_NODE: Final = 8
# A pod of Meta's RSC-1 is 10 racks of 2 servers, joined by spines (HPCA'25) [V].
NODES_PER_BLOCK: Final = 20
# Chosen: 10 pods a spine, so that a gang of 1,024 GPUs stays under one spine.
BLOCKS_PER_SPINE: Final = 10
# No job of RSC-1 lives longer than 7 days (HPCA'25) [V]; "minutes to days" gives the lower end.
LONGEST_MS: Final = 7 * DAY_MS
SHORTEST_MS: Final = 60_000
# 35.5 % of Helios' jobs share their submit second with another ("fleetsim" on Helios) [S].
SWEEP_SHARE: Final = 0.355
# Chosen: a sweep has 2 to 16 runs.
SWEEP_RUNS: Final = (2, 16)
# Chosen: arrivals are at their peak at 15:00, at half of the mean at 03:00; weekends have half.
DAY_SWING: Final = 0.5
PEAK_HOUR: Final = 15
WEEKEND: Final = 0.5
# Of Helios' GPU jobs 62.4 % complete, 22.1 % are cancelled, 15.5 % fail (SC'21, AcmeTrace) [V].
ENDINGS: Final = (("completed", 0.624), ("cancelled", 0.221), ("failed", 0.155))
# Chosen: limits are 1.3 to 5 times the duration, rounded up to round numbers; a fifth name none.
LIMIT_FACTOR: Final = (1.3, 5.0)
LIMIT_SLACK_MS: Final = 1_800_000
NO_LIMIT: Final = 0.2
LIMITS_MS: Final = tuple(h * HOUR_MS for h in (1, 2, 4, 8, 12, 24, 48, 72, 120, 168, 336, 840))
# Chosen: most work has the usual class; urgent is rare enough to be an emergency.
CLASSES: Final = (
    (JobClass.NORMAL, 0.87),
    (JobClass.LOW, 0.10),
    (JobClass.HIGH, 0.028),
    (JobClass.URGENT, 0.002),
)
# Chosen: shares of a hundred that fall by about a quarter from team to team.
TEAM_SHARES: Final = (24, 18, 14, 11, 9, 7, 6, 5, 4, 2)
# Chosen: what a team asks for, as a multiple of its share; some are idle, some greedy.
TEAM_DEMANDS: Final = (0.9, 1.1, 0.6, 1.5, 1.0, 0.5, 1.8, 1.2, 0.7, 2.0)
_SEARCH_STEPS: Final = 60
# Chosen: beyond these a workload takes minutes to draw, or does not fit into memory.
MOST: Final = {"nodes": 100_000, "jobs_per_day": 1_000_000, "days": 3_660, "teams": 10_000}
MOST_JOBS: Final = 1_000_000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Jobs of one range of sizes. jobs, gpu_time: shares of the whole; sigma: of ln(duration).

    sizes: GPUs with their weights. checkpoints: the share that can save its work.
    """

    name: str
    jobs: float
    gpu_time: float
    sizes: Sequence[tuple[int, float]]
    sigma: float
    checkpoints: float


# Shares of jobs: the mission's mix. Shares of GPU-time, chosen between what is published: jobs
# within one node are over 90 % of RSC's jobs and under 10 % of its GPU-time [memory]; Kalos gives
# 94 % to pre-training [memory]; Philly's jobs of 5 to 16 GPUs take 60 % (Sia's file) [C].
BANDS: Final = (
    Band(
        name="small",
        jobs=0.60,
        gpu_time=0.04,
        # Philly (Sia's file) has 93.2 % with 1 GPU, 2.2 % with 2, 2.3 % with 3 or 4 [C]; more pairs
        # and fours here, as in Seren: 54 % with 1, 11.4 % with 2 (AcmeTrace, figure) [V].
        sizes=((1, 0.70), (2, 0.15), (4, 0.15)),
        # Philly, 1 GPU: mean 2.3 h over median 0.31 h is a log-normal with sigma 2.0 [C].
        sigma=2.0,
        checkpoints=0.7,
    ),
    Band(
        name="medium",
        jobs=0.30,
        gpu_time=0.31,
        # Philly: 2.0 % with 5-8, 0.25 % with 9-16, 0.09 % with 17-32 [C]: each size some fifth to
        # half of the one before; flattened towards the larger, as fleets have grown since 2017.
        sizes=((8, 0.55), (16, 0.25), (32, 0.14), (64, 0.06)),
        # Philly, 5-8 GPUs: mean 36 h over median 6.6 h is a log-normal with sigma 1.84 [C].
        sigma=1.84,
        checkpoints=1.0,
    ),
    Band(
        name="large",
        jobs=0.10,
        gpu_time=0.65,
        # Chosen: halving with each doubling; Seren and Kalos reach 1,024 GPUs (NSDI'24) [V].
        sizes=((128, 0.53), (256, 0.30), (512, 0.15), (1024, 0.02)),
        # Philly, 9-16 GPUs, its largest with enough jobs: 34 h over 11.6 h is sigma 1.47 [C].
        sigma=1.47,
        checkpoints=1.0,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
    """What `gangline workload` is asked for. load: demand over capacity."""

    nodes: int = 1000
    jobs_per_day: int = 1900
    days: int = 14
    load: float = 1.1
    teams: int = 10
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A trace with the fleet and the teams that it is meant for."""

    jobs: tuple[TraceJob, ...]
    fleet: Fleet
    teams: tuple[TeamSet, ...]


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A job before its duration is known. shape: the duration in units of its band's median."""

    submit_ms: int
    band: Band
    gpus: int
    team: int
    shape: float


def make_workload(settings: WorkloadSettings) -> Workload:
    """Draw the workload; raises BadInputError where a setting makes no sense."""
    _check(settings)
    chance = random.Random(settings.seed)  # noqa: S311 (a simulation, to be repeated)
    fleet = pod_fleet(settings.nodes)
    window_ms = settings.days * DAY_MS
    # A quarter at most: a gang as large as the fleet waits until every node is well.
    drafts = _drafts(settings, chance, largest=max(1, fleet.gpus // 4))
    medians = {
        band.name: _median_ms(
            [draft for draft in drafts if draft.band is band],
            gpu_ms=settings.load * band.gpu_time * fleet.gpus * window_ms,
            window_ms=window_ms,
        )
        for band in BANDS
    }
    jobs = tuple(
        _job(number, draft, medians[draft.band.name], chance)
        for number, draft in enumerate(drafts, start=1)
    )
    return Workload(jobs=jobs, fleet=fleet, teams=team_sets(settings.teams, fleet.gpus))


def write_workload(workload: Workload, folder: Path) -> None:
    """Write `trace.csv`, `fleet.toml` and `teams.toml`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_trace(folder / "trace.csv", workload.jobs)
        (folder / "fleet.toml").write_text(fleet_text(workload.fleet), encoding="utf-8")
        (folder / "teams.toml").write_text(teams_text(workload.teams), encoding="utf-8")
    except OSError as error:
        raise BadInputError(folder, f"cannot be written: {error.strerror}") from error


def pod_fleet(nodes: int, *, gpus_per_node: int = GPUS_PER_NODE) -> Fleet:
    """A fleet of pods of 20 nodes, 10 pods a spine; the last pod and spine may be smaller."""
    blocks = math.ceil(nodes / NODES_PER_BLOCK)
    spines = math.ceil(blocks / BLOCKS_PER_SPINE)
    whole = regular_fleet(
        (spines, BLOCKS_PER_SPINE, NODES_PER_BLOCK),
        levels=DEFAULT_LEVELS,
        gpus_per_node=gpus_per_node,
    )
    kept: tuple[FleetNode, ...] = whole.nodes[:nodes]
    return Fleet(levels=DEFAULT_LEVELS, nodes=kept)


def team_sets(count: int, gpus: int) -> tuple[TeamSet, ...]:
    """Teams of unequal guarantees that add up to the fleet; weights follow the guarantees."""
    shares = [TEAM_SHARES[index % len(TEAM_SHARES)] for index in range(count)]
    edges = [gpus * before // sum(shares) for before in itertools.accumulate(shares, initial=0)]
    return tuple(
        TeamSet(
            team=team_name(index),
            guaranteed=edges[index + 1] - edges[index],
            borrow=UNLIMITED,
            weight=shares[index],
        )
        for index in range(count)
    )


def team_name(index: int) -> str:
    """The name of the team with this index, from 0."""
    return f"team-{index + 1:02d}"


def _check(settings: WorkloadSettings) -> None:
    for name, most in MOST.items():
        if not 1 <= getattr(settings, name) <= most:
            raise BadInputError(f"--{name.replace('_', '-')}", f"expected 1 to {most:,}")
    if (jobs := settings.jobs_per_day * settings.days) > MOST_JOBS:
        raise BadInputError(
            "--jobs-per-day times --days", f"expected at most {MOST_JOBS:,} jobs, not {jobs:,}"
        )
    if not 0 < settings.load <= 100:
        raise BadInputError("--load", "expected a number above 0, at most 100")


def _drafts(settings: WorkloadSettings, chance: random.Random, *, largest: int) -> list[_Draft]:
    """All jobs in order of submission, without their durations."""
    wanted = settings.jobs_per_day * settings.days
    rhythm = _Rhythm(settings.days)
    demands = [
        TEAM_SHARES[index % len(TEAM_SHARES)] * TEAM_DEMANDS[index % len(TEAM_DEMANDS)]
        for index in range(settings.teams)
    ]
    teams, up_to = range(settings.teams), list(itertools.accumulate(demands))
    drafts: list[_Draft] = []
    while len(drafts) < wanted:
        band = chance.choices(BANDS, [_arrivals(band) for band in BANDS])[0]
        submit_ms = rhythm.draw(chance)
        team = chance.choices(teams, cum_weights=up_to)[0]
        gpus = _size(band, chance, largest)
        for _ in range(min(_runs(band, chance), wanted - len(drafts))):
            shape = math.exp(chance.gauss(0.0, band.sigma))
            drafts.append(_Draft(submit_ms=submit_ms, band=band, gpus=gpus, team=team, shape=shape))
    drafts.sort(key=lambda draft: draft.submit_ms)
    return drafts


def _arrivals(band: Band) -> float:
    """How often a band arrives: its share of jobs, where a sweep counts once."""
    return band.jobs / _mean_runs() if band.name == "small" else band.jobs


def _mean_runs() -> float:
    """Jobs that arrive together among the small, on average."""
    sweep = _sweep_chance()
    return 1 - sweep + sweep * sum(SWEEP_RUNS) / 2


def _sweep_chance() -> float:
    """How many arrivals of small jobs are sweeps, for SWEEP_SHARE of all jobs to be in one."""
    in_small = SWEEP_SHARE / BANDS[0].jobs
    runs = sum(SWEEP_RUNS) / 2
    return in_small / (runs - in_small * (runs - 1))


def _runs(band: Band, chance: random.Random) -> int:
    if band.name == "small" and chance.random() < _sweep_chance():
        return chance.randint(*SWEEP_RUNS)
    return 1


def _size(band: Band, chance: random.Random, largest: int) -> int:
    """GPUs of a job of this band, at most `largest`."""
    return min(pick(chance, band.sizes), largest)


def pick(chance: random.Random, weighted: Sequence[tuple[_T, float]]) -> _T:
    """One of these, with its weight."""
    return chance.choices([one for one, _ in weighted], [weight for _, weight in weighted])[0]


class _Rhythm:
    """When jobs arrive: more by day, fewer at weekends. Day 0 is a Monday."""

    def __init__(self, days: int) -> None:
        rates = [self._rate(hour) for hour in range(days * 24)]
        self._sums = list(itertools.accumulate(rates))

    @staticmethod
    def _rate(hour: int) -> float:
        swing = DAY_SWING * math.cos((hour % 24 - PEAK_HOUR) * math.tau / 24)
        return (1 + swing) * (WEEKEND if hour // 24 % 7 >= 5 else 1.0)

    def draw(self, chance: random.Random) -> int:
        """A moment, in whole seconds as sources have them."""
        hour = bisect.bisect(self._sums, chance.random() * self._sums[-1])
        return min(hour, len(self._sums) - 1) * HOUR_MS + chance.randrange(3600) * 1000


def _median_ms(drafts: Sequence[_Draft], *, gpu_ms: float, window_ms: int) -> float:
    """The median duration with which these jobs ask for `gpu_ms` within the window.

    Where even the longest durations ask for less, the longest it is.
    """
    low, high = 0.0, float(LONGEST_MS) * 1e6
    for _ in range(_SEARCH_STEPS):
        middle = (low + high) / 2
        asked = sum(
            draft.gpus * min(_duration_ms(draft, middle), window_ms - draft.submit_ms)
            for draft in drafts
        )
        low, high = (middle, high) if asked < gpu_ms else (low, middle)
    return high


def _duration_ms(draft: _Draft, median_ms: float) -> int:
    seconds = round(draft.shape * median_ms / 1000)
    return max(SHORTEST_MS, min(LONGEST_MS, seconds * 1000))


def _job(number: int, draft: _Draft, median_ms: float, chance: random.Random) -> TraceJob:
    duration_ms = _duration_ms(draft, median_ms)
    saves = chance.random() < draft.band.checkpoints
    return TraceJob(
        job=f"job-{number}",
        team=team_name(draft.team),
        submit_ms=draft.submit_ms,
        gpus=draft.gpus,
        duration_ms=duration_ms,
        status=pick(chance, ENDINGS),
        job_class=pick(chance, CLASSES),
        checkpoint_ms=None if saves else 0,
        limit_ms=_limit_ms(duration_ms, chance),
    )


def _limit_ms(duration_ms: int, chance: random.Random) -> int | None:
    """What the user declares: too much, in a round number."""
    if chance.random() < NO_LIMIT:
        return None
    wanted = duration_ms * chance.uniform(*LIMIT_FACTOR) + LIMIT_SLACK_MS
    return next((limit for limit in LIMITS_MS if limit >= wanted), LIMITS_MS[-1])
