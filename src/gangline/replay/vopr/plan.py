"""What a seed draws: the fleet, teams, policy, the jobs to come, and how bad everything gets.

Each kind of trouble is left out altogether by some seeds, so that faults do not hide one another;
a few seeds have none at all. Durations are short beside those of a real cell, as the same things
happen in less time; what must stay in proportion does: nobody is suspected sooner than clocks may
differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from gangline.events import facts
from gangline.events.spec import UNLIMITED, CheckpointSpec, JobClass, Spec, Topology, TopologyKind
from gangline.replay.vopr.bus import Weather
from gangline.replay.vopr.programs import Program
from gangline.replay.vopr.versions import Installations

SECOND: Final = 1_000
QUIET_SEEDS: Final = 0.06
KEPT: Final = 0.6

TROUBLES: Final = (
    "scheduler dies",
    "scheduler stands still",
    "scheduler cut off",
    "scheduler clock jumps",
    "host dies",
    "host cut off",
    "host slow",
    "gpu breaks",
    "agent dies",
    "agent stands still",
    "lies",
    "garbage",
    "torn snapshot",
    "broker clock wobbles",
    "orders",
    "second thoughts",
    "quotas change",
    "torn commit",
)
"""Kinds of trouble that happen at moments; the weather of lines comes beside them."""


@dataclass(slots=True, kw_only=True)
class Fate:
    """How often schedulers meet their end, or stand still, at a point they pass: from 0 to 1."""

    dying: float = 0.0
    pausing: float = 0.0
    longest_pause_ms: int = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """A node that is admitted."""

    name: str
    path: tuple[str, ...]
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job that is submitted."""

    job: str
    spec: Spec
    program: Program


@dataclass(slots=True, kw_only=True)
class Plan:
    """Everything that a seed draws before anything happens."""

    seed: int
    chance: Random
    levels: tuple[str, ...] = ()
    nodes: list[NodePlan] = field(default_factory=list)
    teams: list[facts.TeamSet] = field(default_factory=list)
    policy: Mapping[str, int] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    weather: Weather = field(default_factory=Weather)
    fate: Fate = field(default_factory=Fate)
    schedulers: int = 2
    drifts: list[int] = field(default_factory=list)
    snapshot_every: int = 20
    deadly: float = 0.0
    beat_ms: int = 3 * SECOND
    turbulent_ms: int = 120 * SECOND
    trouble_every_ms: int = 3 * SECOND
    job_every_ms: int = 4 * SECOND
    installations: Installations = field(
        default_factory=lambda: Installations(0, posts=2, until_ms=SECOND)
    )

    @property
    def gpus(self) -> int:
        """Of the whole fleet."""
        return sum(node.gpus for node in self.nodes)

    @property
    def node_gpus(self) -> int:
        """Of one node."""
        return self.nodes[0].gpus


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    chance = Random(seed)  # noqa: S311 - a simulation is no secret
    plan = Plan(seed=seed, chance=chance)
    _fleet(plan)
    plan.policy = _policy(plan)
    _teams(plan)
    plan.schedulers = chance.choice((1, 2, 2, 3, 3))
    plan.drifts = [chance.choice((0, 0, 100, -100, 5_000, -5_000)) for _ in range(plan.schedulers)]
    plan.snapshot_every = chance.choice((3, 8, 20, 60))
    plan.beat_ms = chance.choice((2, 3, 4)) * SECOND
    plan.turbulent_ms = chance.choice((60, 90, 120, 180)) * SECOND
    plan.job_every_ms = chance.choice((1_500, 3_000, 6_000))
    if chance.random() >= QUIET_SEEDS:
        _trouble(plan)
    plan.installations = Installations(seed, posts=plan.schedulers, until_ms=plan.turbulent_ms)
    return plan


def _fleet(plan: Plan) -> None:
    chance = plan.chance
    spines, blocks, nodes = chance.choice(
        [(1, 1, 2), (1, 1, 3), (1, 2, 2), (2, 1, 2), (2, 2, 2), (1, 3, 2)]
    )
    gpus = chance.choice((1, 2, 4, 8))
    plan.levels = chance.choice([("spine", "block"), ("spine", "block"), ("block",)])
    for spine in range(spines):
        for block in range(blocks):
            path = (f"s{spine}", f"s{spine}-b{block}")[-len(plan.levels) :]
            plan.nodes += [
                NodePlan(name=f"s{spine}-b{block}-n{node}", path=path, gpus=gpus)
                for node in range(nodes)
            ]


def _policy(plan: Plan) -> dict[str, int]:
    chance = plan.chance
    suspect_after = chance.choice((14, 18)) * SECOND
    return {
        "suspect_after": suspect_after,
        "lost_after": suspect_after + chance.choice((6, 20)) * SECOND,
        "start_timeout": chance.choice((8, 15)) * SECOND,
        "unready_for": chance.choice((5, 10)) * SECOND,
        "preemption_grace": chance.choice((0, 2, 6)) * SECOND,
        "abort_grace": chance.choice((0, 1)) * SECOND,
        "stop_timeout": chance.choice((10, 20)) * SECOND,
        "min_runtime": chance.choice((0, 3, 10)) * SECOND,
        "min_runtime_max": 30 * SECOND,
        "hold_after": chance.choice((2, 5)),
        "large_gang_gpus": max(2, plan.gpus // 2),
        "large_gang_wait_bound": chance.choice((20, 600)) * SECOND,
        "quarantine_after": chance.choice((2, 3, 50)),
        "quarantine_for": chance.choice((5, 10)) * SECOND,
        "quarantine_window": chance.choice((60, 600)) * SECOND,
        "crash_loop_under": chance.choice((1, 5)) * SECOND,
        "crash_loop_backoff": 1 * SECOND,
        "crash_loop_backoff_max": 8 * SECOND,
        "usage_half_life": chance.choice((20, 3_600)) * SECOND,
        "default_limit": chance.choice((30, 3_600)) * SECOND,
        "replan_interval": chance.choice((5, 30)) * SECOND,
    }


def _teams(plan: Plan) -> None:
    chance, total = plan.chance, plan.gpus
    names = ["t0", "t1", "t2"][: chance.choice((1, 2, 3))]
    if len(names) == 3 and chance.random() < 0.4:
        plan.teams = [
            facts.TeamSet(team="root", guaranteed=total // 2),
            facts.TeamSet(team="t0", guaranteed=total // 4, parent="root"),
            facts.TeamSet(team="t1", guaranteed=total // 4, parent="root"),
            facts.TeamSet(team="t2", guaranteed=chance.choice((0, total // 2))),
        ]
        return
    left = total
    for name in names:
        guaranteed = chance.choice((0, left // 2, left))
        left -= guaranteed
        plan.teams.append(
            facts.TeamSet(
                team=name,
                guaranteed=guaranteed,
                borrow=chance.choice((None, None, None, 0, plan.node_gpus)),
                lend=chance.choice((None, None, None, None, 0, plan.node_gpus)),
                weight=chance.choice((None, None, 2, 3)),
            )
        )


def _trouble(plan: Plan) -> None:
    chance = plan.chance
    plan.troubles = [kind for kind in TROUBLES if chance.random() < KEPT]
    plan.trouble_every_ms = chance.choice((1_500, 3_000, 6_000))
    plan.weather = Weather(
        failing=chance.choice((0.0, 0.0, 0.01, 0.05, 0.2)),
        doubling=chance.choice((0.0, 0.0, 0.02, 0.3)),
        stalling=chance.choice((0.0, 0.0, 0.02, 0.2)),
    )
    if "scheduler dies" in plan.troubles:
        plan.fate.dying = chance.choice((0.0, 0.002, 0.01, 0.03))
    if "scheduler stands still" in plan.troubles:
        plan.fate.pausing = chance.choice((0.0005, 0.002, 0.01))
        plan.fate.longest_pause_ms = chance.choice((2_000, 8_000, 20_000))
    if "agent dies" in plan.troubles:
        plan.deadly = chance.choice((0.0, 0.001, 0.01))


# --- jobs -----------------------------------------------------------------------------------------


def job_of(plan: Plan, number: int, earlier: list[str]) -> JobPlan:
    """The next job that somebody submits. earlier: jobs that were submitted before."""
    chance, node = plan.chance, plan.node_gpus
    sizes = [1, 1, max(1, node // 2), node, node, 2 * node, plan.gpus // 2, plan.gpus]
    gpus = max(1, chance.choice(sizes))
    if chance.random() < 0.03:
        gpus = plan.gpus + 1
    runtime_ms = chance.choice((200, 2_000, 6_000, 15_000, 30_000))
    program = Program(
        runtime_ms=runtime_ms,
        bad_attempts=chance.choice((0, 0, 0, 0, 0, 1, 2, 9)),
        bad_after_ms=chance.choice((10, 1_000, 5_000)),
        prompt=chance.random() < 0.5,
    )
    per_node = chance.choice((1, max(1, node // 2), node))
    spec = Spec(
        team=chance.choice(plan.teams).team if chance.random() < 0.97 else "nobody",
        gpus=gpus,
        gpus_per_node=per_node if chance.random() < 0.2 else None,
        job_class=chance.choice([*JobClass, JobClass.NORMAL, JobClass.NORMAL, JobClass.NORMAL]),
        limit_ms=int(runtime_ms * chance.choice((0.5, 2, 4, 8))) if chance.random() < 0.6 else None,
        checkpoint=_checkpoint(plan),
        grace_ms=chance.choice((0, 1_000, 4_000)) if chance.random() < 0.3 else None,
        topology=_topology(plan),
        retries=chance.choice((0, 1, 2)) if chance.random() < 0.5 else None,
        after=_after(plan, number, earlier),
        count=chance.choice((2, 3)) if chance.random() < 0.04 else 1,
        preemptible=chance.random() > 0.12,
    )
    return JobPlan(job=f"j{number}", spec=spec, program=program)


def _checkpoint(plan: Plan) -> CheckpointSpec | None:
    if plan.chance.random() < 0.4:
        return None
    return CheckpointSpec(interval_ms=plan.chance.choice((1_000, 3_000, 8_000)))


def _topology(plan: Plan) -> Topology:
    chance = plan.chance
    if chance.random() < 0.7:
        return Topology()
    kind = chance.choice((TopologyKind.REQUIRED, TopologyKind.PREFERRED))
    return Topology(kind=kind, level=chance.choice((*plan.levels, "node")))


def _after(plan: Plan, number: int, earlier: list[str]) -> tuple[str, ...]:
    chance = plan.chance
    if chance.random() >= 0.08:
        return ()
    return (chance.choice([*earlier, f"j{number + 1}"]),)


def quota_of(plan: Plan) -> facts.TeamSet:
    """A team's guarantee is changed."""
    chance = plan.chance
    team = chance.choice(plan.teams).team
    return facts.TeamSet(
        team=team, guaranteed=chance.choice((0, plan.node_gpus, plan.gpus // 2)), borrow=UNLIMITED
    )
