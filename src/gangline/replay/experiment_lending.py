"""One team idle, the others over-demanding: its guarantee is lent, and back when it returns."""

from __future__ import annotations

import random
from typing import Any, Final

from gangline.agents.simulated_gang import Program
from gangline.events import decisions as d
from gangline.events.spec import CheckpointSpec, Spec
from gangline.replay.workload import pod_fleet, team_name, team_sets
from gangline.replay.world import World
from gangline.scheduler import core

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
TEAMS: Final = 5
IDLE: Final = team_name(0)
SIZES: Final = (1, 2, 4, 8, 8, 16, 32, 64)


class _Starts:
    """Sees when the returning team's gangs start."""

    def __init__(self) -> None:
        self.started: dict[str, int] = {}

    def stepped(self, _world: World, step: Any) -> None:  # noqa: ANN401 - a Step
        """Note the starts of a step."""
        for decision in step.decisions:
            if isinstance(decision, d.GangStarted):
                self.started.setdefault(decision.job, step.now_ms)


def lending(seed: int, short: bool) -> dict[str, Any]:  # noqa: FBT001 - one of two sizes
    """How much is lent, and how soon it is back.

    lent_share: of the idle guarantee, a minute after the others came. back_s: from the return of
    the team with jobs for its whole guarantee until all of them run.
    """
    chance = random.Random(seed)  # noqa: S311 (a simulation, to be repeated)
    starts = _Starts()
    world = World(core, keeps_steps=False, observers=(starts,))
    fleet = pod_fleet(50 if short else 1000)
    world.admit(fleet.admissions())
    teams = team_sets(TEAMS, fleet.gpus)
    for team in teams:
        world.control(team)
    guaranteed = teams[0].guaranteed or 0
    _submit(world, chance, prefix="other", gpus=fleet.gpus * 2, teams=range(1, TEAMS))
    world.settle()
    world.run(world.now_ms + MINUTE_MS)
    lent = core.team_numbers(world.state, IDLE).lent
    world.run(world.now_ms + HOUR_MS)
    back_at_ms = world.now_ms
    names = _submit(world, chance, prefix="back", gpus=guaranteed, teams=range(1))
    world.run(back_at_ms + HOUR_MS, watch=lambda: all(name in starts.started for name in names))
    last_ms = max(starts.started.get(name, back_at_ms + HOUR_MS) for name in names)
    return {
        "lent_share": lent / guaranteed,
        "back_s": (last_ms - back_at_ms) / 1000,
    }


def _submit(
    world: World, chance: random.Random, *, prefix: str, gpus: int, teams: range
) -> list[str]:
    """Jobs of several hours that add up to exactly so many GPUs, of these teams in turn."""
    names: list[str] = []
    while gpus:
        size = min(gpus, chance.choice(SIZES))
        gpus -= size
        name = f"{prefix}-{len(names)}"
        spec = Spec(
            team=team_name(teams[len(names) % len(teams)]),
            gpus=size,
            checkpoint=CheckpointSpec(interval_ms=HOUR_MS // 2),
        )
        runtime_ms = chance.randrange(6, 24) * HOUR_MS
        world.enter(name, spec, Program(runtime_ms=runtime_ms), at_ms=world.now_ms)
        names.append(name)
    return names
