"""Many seeds in parallel, and what they have seen together."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gangline.events import decisions as d
from gangline.events.terms import WaitCause
from gangline.replay.vopr.simulation import Verdict, run_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

UNSEEN_BY_DESIGN: Final = {"NodeDropped"}
"""No operator here takes a node out for good."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What many seeds came to. wrong: seeds that sounded the alarm, with what was seen."""

    seeds: int = 0
    events: int = 0
    batches: int = 0
    virtual_s: int = 0
    slowest_rest_s: int = 0
    wrong: dict[int, str] = field(default_factory=dict)
    decisions: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    crew: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        """One more seed."""
        self.seeds += 1
        self.events += verdict.events
        self.batches += verdict.batches
        self.virtual_s += verdict.virtual_s
        self.slowest_rest_s = max(self.slowest_rest_s, verdict.rest_s)
        if verdict.wrong:
            self.wrong[verdict.seed] = verdict.wrong
        self.decisions += verdict.decisions
        self.causes += verdict.causes
        self.refusals += verdict.refusals
        self.troubles += verdict.troubles
        self.crew += verdict.crew

    def unseen(self) -> list[str]:
        """Kinds of decisions and causes of waiting that no seed has met."""
        kinds = {kind.__name__ for kind in d.Decision.__args__} - UNSEEN_BY_DESIGN
        causes = {str(cause) for cause in WaitCause}
        return sorted(kinds - set(self.decisions)) + sorted(causes - set(self.causes))


def run_many(
    seeds: Sequence[int],
    *,
    workers: int | None = None,
    seen: Callable[[Verdict], None] = lambda _verdict: None,
) -> Tally:
    """Run seeds, each in one of so many processes (None: one for each processor)."""
    tally = Tally()
    workers = workers or os.cpu_count() or 1
    for verdict in _verdicts(seeds, workers):
        tally.add(verdict)
        seen(verdict)
    return tally


def _verdicts(seeds: Sequence[int], workers: int) -> Iterable[Verdict]:
    if workers == 1 or len(seeds) == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        futures = [pool.submit(run_seed, seed) for seed in seeds]
        for future in as_completed(futures):
            yield future.result()
