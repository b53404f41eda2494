"""How each team stands in the order of the queue, by the rules of the scheduler. Pure.

Within a class, teams that use less than their guarantee come first, then those below their share
of the past: use that counts half after each half-life, against what demand and weights would give.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.projections.books import Books
from gangline.projections.entitlement import fill
from gangline.projections.lending import FLEET
from gangline.projections.past_use import use_after
from gangline.projections.records import JobBook, PastUse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gangline.projections.lending import TeamTerms

_KEY: Final = "usage_half_life"
_HALF_LIFE: Final = f"policy:{_KEY}"
_DEFAULT_HALF_LIFE_MS: Final = 86_400_000


class Standing(Books):
    """The books, and what teams used in the past. now_ms: the time of what is applied.

    past: of each team with those below it. branch: GPUs that they hold. wanted: GPUs that a team's
    own jobs wait for, whatever the reason.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.half_life_ms = _DEFAULT_HALF_LIFE_MS
        self.past: dict[str, PastUse] = {}
        self.branch: Counter[str] = Counter()
        self.wanted: Counter[str] = Counter()
        self._half_life_changed = False

    def standing(self) -> dict[str, str]:
        """For each team: 0 if it uses less than its guarantee, else 1; then 0 for below its share.

        The last once for each team from the root of the tree down to it, like `010`. Smaller, as
        texts are compared, comes first.
        """
        tree = self.tree()
        demands = tree.totals(self.uses + self.wanted)
        shares: dict[str, str] = {}

        def descend(name: str, amount: int, above: str) -> None:
            children = tree.children.get(name, [])
            wants = [demands[child] for child in children]
            weights = [self.teams[child].weight for child in children]
            entitled = fill(amount, wants=wants, weights=weights)
            use = [
                self._use_now(child) if wanted else 0
                for child, wanted in zip(children, wants, strict=True)
            ]
            total_use, total = sum(use), sum(entitled)
            for child, used, share in zip(children, use, entitled, strict=True):
                below = used * total < share * total_use or (used == 0 and share > 0)
                shares[child] = above + ("0" if below else "1")
                descend(child, share, shares[child])

        descend(FLEET, self.capacity, "")
        return {
            name: ("0" if self.branch[name] < terms.guaranteed else "1") + shares[name]
            for name, terms in self.teams.items()
        }

    def apply(self, decision: d.Decision) -> None:
        """Change the state as a decision says; BooksError where it cannot be."""
        if isinstance(decision, d.PolicyChanged):
            self._settle(self.teams)
            self.half_life_ms = decision.values.get(_KEY, self.half_life_ms)
            self._half_life_changed = True
        else:
            super().apply(decision)

    def set_team(self, name: str, terms: TeamTerms) -> None:
        """A team is as said; whose use counts where may be another than before."""
        self._settle((*self.teams, name))
        super().set_team(name, terms)
        self._add_up()

    def take_changed(self) -> dict[str, Any]:
        """What to save."""
        found = super().take_changed()
        if self._half_life_changed:
            found[_HALF_LIFE] = self.half_life_ms
            self._half_life_changed = False
        return found

    def restore(self, records: Mapping[str, Any]) -> None:
        """As it was saved."""
        super().restore(records)
        self.half_life_ms = records.get(_HALF_LIFE, self.half_life_ms)
        self._add_up()

    # --- past use ------------------------------------------------------------------------------

    def _store(self, kind: str) -> dict[str, Any]:
        return self.past if kind == "use" else super()._store(kind)

    def _use(self, team: str, gpus: int) -> None:
        branch = list(self._upwards(team))
        self._settle(branch)
        for name in branch:
            self.branch[name] += gpus
        super()._use(team, gpus)

    def _count_job(self, job: JobBook, sign: int) -> None:
        super()._count_job(job, sign)
        if job.waiting:
            self.wanted[job.team] += sign * job.gpus

    def _upwards(self, team: str) -> Iterator[str]:
        """The team and those above it."""
        seen: set[str] = set()
        while team in self.teams and team not in seen:
            seen.add(team)
            yield team
            team = self.teams[team].parent

    def _add_up(self) -> None:
        self.branch = Counter(self.tree().totals(self.uses))

    def _settle(self, teams: Iterable[str]) -> None:
        """Bring past use up to now, before what it grows by changes; not while books are read."""
        if not self.now_ms:
            return
        for name in teams:
            known = self.past.get(name)
            if known is None:
                self.past[name] = PastUse(gpu_ms=0, at_ms=self.now_ms)
            elif known.at_ms != self.now_ms:
                self.past[name] = replace(known, gpu_ms=self._use_now(name), at_ms=self.now_ms)
            self.touch("use", name)

    def _use_now(self, name: str) -> int:
        """GPU-milliseconds of the past, as they count now."""
        known = self.past.get(name)
        if known is None:
            return 0
        return use_after(
            known.gpu_ms,
            gpus=self.branch[name],
            elapsed_ms=self.now_ms - known.at_ms,
            half_life_ms=self.half_life_ms,
        )
