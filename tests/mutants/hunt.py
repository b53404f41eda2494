"""Looking for the seed that catches a mutant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gangline.replay.vopr import run_seed
from tests.mutants import agents, core, drivers
from tests.mutants.mutant import Mutant, applied

if TYPE_CHECKING:
    from collections.abc import Iterable

MUTANTS: Final[dict[str, Mutant]] = {
    mutant.name: mutant for mutant in (*core.MUTANTS, *drivers.MUTANTS, *agents.MUTANTS)
}
MOST_SEEDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """How a mutant was caught. seeds: how many it took, 0 if it got away. alarm: what was seen."""

    mutant: str
    seeds: int
    seed: int = -1
    alarm: str = ""


def hunt(name: str, seeds: Iterable[int] = range(MOST_SEEDS)) -> Catch:
    """Run seeds with a mutant until one sounds the alarm, which it does not without the mutant."""
    for count, seed in enumerate(seeds, start=1):
        with applied(MUTANTS[name]):
            verdict = run_seed(seed)
        if verdict.wrong and run_seed(seed).ok:
            return Catch(mutant=name, seeds=count, seed=seed, alarm=verdict.wrong)
    return Catch(mutant=name, seeds=0)
