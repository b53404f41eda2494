"""Programs of two logic versions in one cell: some seeds upgrade it, and go back, while it works.

The newer version decides one thing more than the older one (a change of policy that changes
nothing, after each placement). So a scheduler that decided by another version than the log names
would write other bytes, and `verify` would find them.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from gangline.events.decisions import GangPlaced, PolicyChanged

if TYPE_CHECKING:
    from gangline.events.decisions import Decision
    from gangline.replay.vopr.ports import Core

MIXED_SEEDS: Final = 0.3
MOST_INSTALLED: Final = 6


class Install(NamedTuple):
    """An operator installs a program of a version at a scheduler's place."""

    at_ms: int
    post: int
    newer: bool


class Installations:
    """Which program each scheduler runs: drawn apart, so that it changes nothing else of a seed.

    mixed: whether this seed knows a newer version at all. first: which posts begin with it.
    """

    def __init__(self, seed: int, *, posts: int, until_ms: int) -> None:
        chance = Random(f"versions of {seed}")  # noqa: S311 - a simulation is no secret
        self.mixed = chance.random() < MIXED_SEEDS
        self.first = [self.mixed and chance.random() < 0.3 for _ in range(posts)]
        self.later: list[Install] = []
        for _ in range(chance.randrange(1, MOST_INSTALLED) if self.mixed else 0):
            self.later.append(
                Install(chance.randrange(until_ms), chance.randrange(posts), chance.random() < 0.7)
            )


class NewerCore:
    """A core that knows one version more, and still decides by the one that the state names."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.LOGIC_VERSION = core.LOGIC_VERSION + 1

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the core has
        return getattr(self._core, name)

    def step(
        self,
        state: Any,  # noqa: ANN401 - as the core's own
        facts: Any,  # noqa: ANN401
        *,
        now_ms: int,
        **more: Any,  # noqa: ANN401
    ) -> list[Decision]:
        """The core's decisions, and what the newer version adds to them."""
        decisions = self._core.step(state, facts, now_ms=now_ms, **more)
        placed = any(isinstance(decision, GangPlaced) for decision in decisions)
        if placed and state.cell.logic_version == self.LOGIC_VERSION:
            said = PolicyChanged(values={})
            self._core.fold(state, [said], now_ms=now_ms)
            decisions = [*decisions, said]
        return decisions


def newer_than(core: Core) -> Core:
    """The next version of a core."""
    return cast("Core", NewerCore(core))
