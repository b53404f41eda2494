"""What happens in the demo's fleet: its teams, its jobs, and the nights on which things break.

Larger and longer jobs, and so fewer of them, than in `workload.py`: a week of a thousand nodes is
made in seconds, and still every GPU is asked for. Names are made up.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gangline.agents.simulated_gang import Program
from gangline.events import facts as f
from gangline.events.spec import UNLIMITED, CheckpointSpec, JobClass, Spec
from gangline.replay.fleet_file import Fleet
from gangline.replay.workload import (
    CLASSES,
    DAY_MS,
    HOUR_MS,
    TEAM_DEMANDS,
    TEAM_SHARES,
    pick,
    pod_fleet,
    team_sets,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MINUTE_MS: Final = 60_000
DAYS: Final = 7
POLICY: Final[Mapping[str, int]] = {
    "cause_interval": 10 * MINUTE_MS,
    "min_runtime": 8 * HOUR_MS,
    "min_runtime_max": 24 * HOUR_MS,
}
TEAMS: Final = (
    "foundation", "vision", "speech", "ranking", "robotics",
    "safety", "genomics", "search", "weather", "interns",
)  # fmt: skip
WORDS: Final = (
    ("pretrain-70b", "pretrain-8b", "sft-70b", "longctx", "distill-8b"),
    ("vit-huge", "segment", "video-diffusion", "depth", "clip-large"),
    ("asr-multi", "tts-expressive", "codec", "diarize"),
    ("two-tower", "ctr-wide", "rerank", "embed-refresh"),
    ("policy-arm", "sim2real", "world-model", "grasp"),
    ("reward-model", "red-team", "interp-sae", "rlhf-8b"),
    ("fold-large", "variant-caller", "single-cell"),
    ("retriever", "query-embed", "index-distill"),
    ("nowcast", "era5-graph", "downscale"),
    ("toy-llm", "thesis", "kernel-bench"),
)
# GPUs, weight, median hours.
SIZES: Final = (
    (1, 24, 2), (2, 14, 4), (4, 16, 6), (8, 28, 12), (16, 26, 16), (32, 26, 24),
    (64, 28, 34), (128, 24, 48), (256, 12, 60), (512, 5, 72), (1024, 1, 72),
)  # fmt: skip
SPREAD: Final = 0.8
RUSH_GPUS: Final = 16
LONGEST_MS: Final = 150 * HOUR_MS
FAILING: Final = 0.12
UNDECLARED: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A job that comes `at_ms` after the story's beginning."""

    at_ms: int
    job: str
    spec: Spec
    program: Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that happens to nodes. kind: node, gpu, cut, cordon, drain, maintenance."""

    at_ms: int
    kind: str
    node: str
    gpu: int = 0
    what: str = ""
    for_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A week, in order of time."""

    fleet: Fleet
    teams: tuple[f.TeamSet, ...]
    arrivals: tuple[Arrival, ...]
    troubles: tuple[Trouble, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a story is.

    load: demand over capacity. early: share of jobs that come in the first hours. rush: jobs of the
    last hours, none of them small, so that there is a queue.
    """

    nodes: int = 1000
    days: int = DAYS
    load: float = 0.92
    rush: int = 60
    early: float = 0.15
    seed: int = 7


def make_story(size: Size, *, night_ms: int) -> Story:
    """Draw a story. night_ms: when in it a rack loses its power, since the beginning."""
    chance = random.Random(size.seed)  # noqa: S311 (a simulation, to be repeated)
    fleet = pod_fleet(size.nodes)
    teams = tuple(
        _team(team, TEAMS[index]) for index, team in enumerate(team_sets(len(TEAMS), fleet.gpus))
    )
    arrivals = (*_arrivals(fleet, chance, size), *_stuck(fleet, size))
    troubles = sorted(_troubles(fleet, chance, size, night_ms), key=lambda each: each.at_ms)
    return Story(fleet=fleet, teams=teams, arrivals=arrivals, troubles=tuple(troubles))


def _team(team: f.TeamSet, name: str) -> f.TeamSet:
    """The last team has no guarantee of its own and may borrow little."""
    borrow = 256 if name == "interns" else UNLIMITED
    return replace(team, team=name, borrow=borrow)


def _arrivals(fleet: Fleet, chance: random.Random, size: Size) -> Iterator[Arrival]:
    """Jobs in order of time, until they have asked for `load` times what the fleet has."""
    wanted = size.load * fleet.gpus * size.days * DAY_MS
    drafts = []
    while wanted > 0:
        gpus = pick(chance, [(gpus, weight) for gpus, weight, _ in SIZES])
        hours = next(hours for each, _, hours in SIZES if each == gpus)
        gpus = min(gpus, fleet.gpus // 4)
        runs_ms = round(hours * HOUR_MS * math.exp(chance.gauss(0.0, SPREAD)))
        runs_ms = max(10 * MINUTE_MS, min(LONGEST_MS, runs_ms))
        # Some are there from the first hours: the fleet is full soon.
        early = chance.random() < size.early
        at_ms = chance.randrange(6 * HOUR_MS if early else size.days * DAY_MS)
        drafts.append((at_ms, gpus, runs_ms))
        wanted -= gpus * min(runs_ms, size.days * DAY_MS - at_ms)
    large = [(gpus, weight) for gpus, weight, _ in SIZES if gpus >= RUSH_GPUS]
    for _ in range(size.rush):
        at_ms = size.days * DAY_MS - chance.randrange(3 * HOUR_MS)
        gpus = min(pick(chance, large), fleet.gpus // 4)
        drafts.append((at_ms, gpus, chance.randrange(HOUR_MS, 20 * HOUR_MS)))
    for number, (at_ms, gpus, runs_ms) in enumerate(sorted(drafts), start=1):
        yield _arrival(chance, number, at_ms=at_ms, gpus=gpus, runs_ms=runs_ms)


def _stuck(fleet: Fleet, size: Size) -> Iterator[Arrival]:
    """Two of the last hour that wait for what no free GPU gives: a limit, and another job."""
    end_ms, team = size.days * DAY_MS, "interns"
    gpus = min(384, fleet.gpus // 4)
    wide = Spec(team=team, gpus=gpus, gpus_per_node=8, labels={"project": "thesis"})
    then = Spec(team=team, gpus=8, after=("thesis-wide",), labels={"project": "kernel-bench"})
    program = Program(runtime_ms=6 * HOUR_MS)
    for minutes, job, spec in ((40, "thesis-wide", wide), (39, "kernel-bench-report", then)):
        yield Arrival(at_ms=end_ms - minutes * MINUTE_MS, job=job, spec=spec, program=program)


def _arrival(chance: random.Random, number: int, *, at_ms: int, gpus: int, runs_ms: int) -> Arrival:
    demands = [share * demand for share, demand in zip(TEAM_SHARES, TEAM_DEMANDS, strict=True)]
    team = chance.choices(range(len(TEAMS)), demands)[0]
    word = chance.choice(WORDS[team])
    failing = chance.random() < FAILING
    spec = Spec(
        team=TEAMS[team],
        gpus=gpus,
        gpus_per_node=8 if gpus >= 16 else None,
        job_class=pick(chance, CLASSES),
        limit_ms=None if chance.random() < UNDECLARED else 2 * runs_ms,
        checkpoint=None if gpus < 4 else CheckpointSpec(interval_ms=HOUR_MS),
        retries=1 if failing else 0,
        labels={"project": word},
    )
    return Arrival(
        at_ms=at_ms,
        job=f"{word}-{number}",
        spec=spec,
        program=Program(runtime_ms=runs_ms, code=int(failing)),
    )


def _troubles(fleet: Fleet, chance: random.Random, size: Size, night_ms: int) -> Iterator[Trouble]:
    """Single faults all week; a rack that goes dark on the last night; an operator at work."""
    nodes = [node.name for node in fleet.nodes]
    for _ in range(size.days * max(1, size.nodes // 160)):
        yield Trouble(
            at_ms=chance.randrange(HOUR_MS, size.days * DAY_MS),
            kind=chance.choice(("gpu", "gpu", "node", "cut")),
            node=chance.choice(nodes),
            gpu=chance.randrange(fleet.nodes[0].gpus),
            what=chance.choice(("xid", "ecc", "nvlink", "thermal", "nic")),
            for_ms=chance.randrange(HOUR_MS, 30 * HOUR_MS),
        )
    rack = nodes[len(nodes) // 2 : len(nodes) // 2 + 4]
    for node in rack:
        yield Trouble(at_ms=night_ms, kind="node", node=node, for_ms=70 * MINUTE_MS)
    yield Trouble(at_ms=night_ms + 6 * HOUR_MS, kind="cordon", node=rack[0], what="PSU replaced")
    end_ms = size.days * DAY_MS
    for index, why in enumerate(("firmware 1.9.4", "recable leaf 12", "NVSwitch RMA")):
        node = nodes[(index + 1) * len(nodes) // 5]
        at_ms = end_ms - (9 - 2 * index) * HOUR_MS
        yield Trouble(at_ms=at_ms, kind="drain", node=node, what=why)
    yield Trouble(at_ms=end_ms - 2 * HOUR_MS, kind="maintenance", node=nodes[-1], what="CDU pump")


def visitor(number: int, chance: random.Random) -> tuple[str, Spec, Program]:
    """A small job of the live part: its name, team and shape, and what it does."""
    team = chance.choices(range(len(TEAMS)), TEAM_DEMANDS)[0]
    word = chance.choice(WORDS[team])
    gpus = chance.choice((1, 1, 1, 2, 2, 4, 8, 8, 16))
    spec = Spec(
        team=TEAMS[team],
        gpus=gpus,
        job_class=chance.choice((JobClass.LOW, JobClass.NORMAL, JobClass.NORMAL, JobClass.HIGH)),
        limit_ms=HOUR_MS,
        checkpoint=CheckpointSpec(interval_ms=MINUTE_MS),
        labels={"project": word},
    )
    runtime_ms = chance.randrange(40_000, 6 * MINUTE_MS)
    return f"{word}-live-{number}", spec, Program(runtime_ms=runtime_ms)
