"""The view `fairness`: what each team got against what it had a right to, in steps of five minutes.

Delivered is what a team's gangs (and those of the teams below it) held. Entitled is the lesser of
demand, and guarantee with a weighted share of the rest (`entitlement.py`), at each moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.events.named_sql import load_sql
from gangline.projections import books
from gangline.projections.books import Books
from gangline.projections.entitlement import PARTS, entitled
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


def shares(found: Books, rights: Mapping[str, int]) -> dict[str, Share]:
    """The share of each team at a moment, with all teams below it. rights: as entitled."""
    tree = found.tree()
    in_service = found.capacity - sum(found.out.values())
    delivered, wanted = tree.totals(found.uses), tree.totals(demand_of(found))
    return {
        team: Share(
            delivered=delivered[team] * PARTS,
            entitled=rights[team],
            demand=wanted[team] * PARTS,
            capacity=in_service * PARTS,
        )
        for team in found.teams
    }


def demand_of(found: Books) -> dict[str, int]:
    """GPUs that a team's own gangs hold and its own waiting jobs want."""
    return {
        team: gpus
        for team in {**found.uses, **found.waiting}
        if (gpus := found.uses[team] + found.waiting[team])
    }


class Rights:
    """What each team is entitled to, computed anew only when what it depends on has changed."""

    def __init__(self) -> None:
        self._asked: tuple[object, ...] = ()
        self._rights: dict[str, int] = {}

    def of(self, found: Books) -> dict[str, int]:
        """By team, in thousandths of a GPU."""
        in_service = found.capacity - sum(found.out.values())
        asked = (demand_of(found), dict(found.teams), in_service)
        if asked != self._asked:
            self._asked = asked
            self._rights = entitled(found.tree(), asked[0], in_service)
        return self._rights


class Shares:
    """The state: the books, and rates since the last change."""

    def __init__(self) -> None:
        self.books = Books()
        self.meter: Meter[str, Share] = Meter()
        self.now_ms = 0
        self._rights = Rights()
        self._version = -1

    def apply(self, decision: Any, at_ms: int) -> None:  # noqa: ANN401 - any decision
        """Change the books as a decision says."""
        self.advance(at_ms)
        self.books.apply(decision)

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
        if self._version == self.books.demand_version:
            return
        self._version = self.books.demand_version
        levels = shares(self.books, self._rights.of(self.books))
        self.meter.set(levels, self.now_ms)

    def take(self) -> list[Span[str, Share]]:
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


def share_rows(cell: str, spans: Iterable[Span[str, Share]]) -> list[ShareRow]:
    """GPU-milliseconds of spans by five minutes and team."""
    sums: dict[tuple[int, str], list[int]] = {}
    for team, from_ms, to_ms, share in spans:
        held = sums.setdefault((bucket_of(from_ms), team), [0, 0, 0, 0])
        for index, parts in enumerate(share):
            held[index] += parts * (to_ms - from_ms)
    return [
        ShareRow(
            cell=cell,
            bucket_ms=bucket,
            team=team,
            delivered_gpu_ms=parts[0] // PARTS,
            entitled_gpu_ms=parts[1] // PARTS,
            demand_gpu_ms=parts[2] // PARTS,
            capacity_gpu_ms=parts[3] // PARTS,
        )
        for (bucket, team), parts in sorted(sums.items())
    ]
