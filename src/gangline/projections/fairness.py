"""The view `fairness`: what each team got against what it had a right to, in steps of five minutes.

Delivered is what a team's gangs (and those of the teams below it) held. Entitled is the lesser of
demand, and guarantee with a weighted share of the rest (`entitlement.py`), at each moment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.events.named_sql import load_sql
from gangline.projections import books
from gangline.projections.books import Books
from gangline.projections.entitlement import PARTS, entitled
from gangline.projections.lending import Tree
from gangline.projections.meter import Meter, bucket_of
from gangline.projections.remembering import RememberingModel
from gangline.projections.work import Unknown, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gangline.projections.meter import Span

_CLOCK: Final = "clock:"


class Share(NamedTuple):
    """A team's rates at a moment, all in thousandths of a GPU."""

    delivered: int
    entitled: int
    demand: int
    capacity: int


@dataclass(slots=True, kw_only=True)
class ShareRow:
    """The columns of the table `share_bucket`."""

    cell: str
    bucket_ms: int
    team: str
    delivered_gpu_ms: int = 0
    entitled_gpu_ms: int = 0
    demand_gpu_ms: int = 0
    capacity_gpu_ms: int = 0


def shares(found: Books) -> dict[str, Share]:
    """The share of each team at a moment, with all teams below it."""
    held: Counter[str] = Counter()
    for (team, _), gpus in found.held.items():
        held[team] += gpus
    demand = held + found.waiting
    tree = Tree(found.teams)
    in_service = found.capacity - sum(found.out.values())
    rights = entitled(tree, demand, in_service)
    delivered, wanted = tree.totals(held), tree.totals(demand)
    return {
        team: Share(
            delivered=delivered[team] * PARTS,
            entitled=rights[team],
            demand=wanted[team] * PARTS,
            capacity=in_service * PARTS,
        )
        for team in found.teams
    }


class Shares:
    """The state: the books, and rates since the last change."""

    def __init__(self) -> None:
        self.books = Books()
        self.meter: Meter[tuple[str, str]] = Meter()
        self.now_ms = 0
        self._stale = False

    def apply(self, decision: Any, at_ms: int) -> None:  # noqa: ANN401 - any decision
        """Change the books as a decision says."""
        self.advance(at_ms)
        self.books.apply(decision)
        self._stale = True

    def advance(self, at_ms: int) -> None:
        """Let time pass."""
        if at_ms == self.now_ms:
            return
        self.measure()
        if self.now_ms:
            self.meter.advance(self.now_ms, at_ms)
        self.now_ms = at_ms

    def measure(self) -> None:
        """From now on the rates are as the books say."""
        if not self._stale:
            return
        levels = {
            (team, kind): level
            for team, share in shares(self.books).items()
            for kind, level in share._asdict().items()
        }
        self.meter.set(levels, self.now_ms)
        self._stale = False

    def take(self) -> list[Span[tuple[str, str]]]:
        """Spans up to now since the last call; each lies in one five minutes."""
        self.measure()
        self.meter.cut(self.now_ms)
        return self.meter.take()

    def take_changed(self) -> dict[str, Any]:
        """What to save."""
        return {**self.books.take_changed(), _CLOCK: self.now_ms}

    def restore(self, records: Mapping[str, Any]) -> None:
        """As it was saved; spans were cut then."""
        self.books.restore(records)
        self.now_ms = records.get(_CLOCK, 0)
        self._stale = True
        self.measure()


class Fairness(RememberingModel[Shares]):
    """The read model of `fairness`."""

    name = "fairness"
    tables = ("share_bucket",)
    unknown = Unknown.STOP
    kinds = tuple(books.FOLDS)
    sql = load_sql("gangline.projections", "fairness.sql")

    def restore(self, work: Work, records: Mapping[str, Any]) -> Shares:
        """The state as it was saved."""
        state = Shares()
        state.restore(records)
        return state

    def fold(self, work: Work, state: Shares) -> None:
        """Fold a run of steps, and add to the five minutes that it touches."""
        for item, decision in work.decisions(self):
            state.apply(decision, item.at_ms)
        state.advance(work.now_ms)
        work.write("add", share_rows(work.cell, state.take()))


def share_rows(cell: str, spans: Iterable[Span[tuple[str, str]]]) -> list[ShareRow]:
    """GPU-milliseconds of spans by five minutes and team."""
    sums: Counter[tuple[int, str, str]] = Counter()
    for (team, kind), from_ms, to_ms, level in spans:
        sums[bucket_of(from_ms), team, kind] += level * (to_ms - from_ms)
    rows: dict[tuple[int, str], ShareRow] = {}
    for (bucket, team, kind), parts in sorted(sums.items()):
        row = rows.setdefault((bucket, team), ShareRow(cell=cell, bucket_ms=bucket, team=team))
        setattr(row, f"{kind}_gpu_ms", parts // PARTS)
    return list(rows.values())
