"""Who uses whose guarantee now: loans between teams, and whose what lies idle is. Pure.

Teams form a tree; a guarantee of a team is part of its parent's. A team that uses more than its
guarantee borrows the difference. Lenders are found from the nearest common ancestor outward: first
the part of the ancestor's guarantee that is nobody's, then the siblings with most idle guarantee
(then by name), within their lend limits. What an ancestor lends further out it takes from its own
part first, then from its children.

So for each team, with `own part` for what its guarantee exceeds its children's:

    own part + borrowed = direct use + lent + idle

and over all teams, with the fleet as the root, the idle parts add up to capacity less use. Where
guarantees exceed the fleet, more is idle on paper than in the racks; the ledger hands out only what
is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FLEET: Final = ""
"""The root of the tree: its own part is what nobody is guaranteed."""

UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamTerms:
    """What a team was promised. guaranteed, lend: GPUs; lend may be UNLIMITED. borrow likewise."""

    parent: str = FLEET
    guaranteed: int = 0
    borrow: int = UNLIMITED
    lend: int = UNLIMITED
    weight: int = 1


class Loan(NamedTuple):
    """GPUs that a borrower uses of a lender's. sibling: both stand under the same parent."""

    lender: str
    borrower: str
    gpus: int
    sibling: bool


@dataclass(slots=True)
class Lending:
    """All loans of a moment, and whose idle GPUs are whose. used: in GPUs, with all teams below."""

    used: dict[str, int] = field(default_factory=dict)
    loans: list[Loan] = field(default_factory=list)
    idle: dict[str, int] = field(default_factory=dict)


class Tree:
    """Teams by parent. Teams whose parent is unknown stand under the fleet.

    promised: what the children of a team are guaranteed together.
    """

    def __init__(self, teams: Mapping[str, TeamTerms]) -> None:
        self.teams = teams
        self.children: dict[str, list[str]] = {FLEET: []}
        self._parents: list[tuple[str, str]] = []
        for name in sorted(teams):
            parent = teams[name].parent
            known = parent if parent in teams and parent != name else FLEET
            self.children.setdefault(known, []).append(name)
        self._walk(FLEET)
        self.promised = {
            name: sum(teams[child].guaranteed for child in children)
            for name, children in self.children.items()
        }

    def _walk(self, name: str) -> None:
        for child in self.children.get(name, ()):
            self._walk(child)
            self._parents.append((child, name))

    def totals(self, direct: Mapping[str, int]) -> dict[str, int]:
        """Numbers of each team with all teams below it."""
        found = {name: direct.get(name, 0) for name, _ in self._parents}
        found[FLEET] = direct.get(FLEET, 0)
        for name, parent in self._parents:  # children come before their parents
            found[parent] += found[name]
        return found


def lend(tree: Tree, direct: Mapping[str, int], capacity: int) -> Lending:
    """The loans when teams use so many GPUs themselves. capacity: GPUs of the fleet."""
    lending = Lending(used=tree.totals(direct))
    root = _Level(tree, direct, lending)
    root.settle(FLEET, guaranteed=capacity, borrowed=0, lent=0)
    return lending


class _Level:
    """One walk down the tree."""

    def __init__(self, tree: Tree, direct: Mapping[str, int], lending: Lending) -> None:
        self._tree = tree
        self._direct = direct
        self._lending = lending

    def settle(self, name: str, *, guaranteed: int, borrowed: int, lent: int) -> None:
        """Find the loans under a team that borrowed and lent so much outside."""
        children = self._tree.children.get(name, [])
        own = max(0, guaranteed - self._tree.promised[name]) + borrowed
        idle = {child: self._spare(child) for child in children}
        lent_by = dict.fromkeys(children, 0)
        borrowed_by = dict.fromkeys(children, 0)

        need = self._direct.get(name, 0) + lent
        taken = min(own, need)
        own -= taken
        if need > taken:
            for lender, gpus in _draw(need - taken, idle, idle):
                lent_by[lender] += gpus
                self._lending.loans.append(Loan(lender, name, gpus, sibling=False))

        for borrower in children:
            need = borrowed_by[borrower] = self._excess(borrower)
            taken = min(own, need)
            own -= taken
            if taken:
                self._lending.loans.append(Loan(name, borrower, taken, sibling=False))
            if need > taken:
                limits = {child: self._may_lend(child, lent_by[child]) for child in children}
                for lender, gpus in _draw(need - taken, idle, limits):
                    lent_by[lender] += gpus
                    self._lending.loans.append(Loan(lender, borrower, gpus, sibling=True))
        self._lending.idle[name] = own
        for child in children:
            has, owes = borrowed_by[child], lent_by[child]
            guaranteed = self._tree.teams[child].guaranteed
            if child in self._tree.children:
                self.settle(child, guaranteed=guaranteed, borrowed=has, lent=owes)
            else:
                used = self._lending.used[child]
                self._lending.idle[child] = max(0, guaranteed + has - used - owes)

    def _spare(self, team: str) -> int:
        return max(0, self._tree.teams[team].guaranteed - self._lending.used[team])

    def _excess(self, team: str) -> int:
        return max(0, self._lending.used[team] - self._tree.teams[team].guaranteed)

    def _may_lend(self, team: str, lent: int) -> int:
        limit = self._tree.teams[team].lend
        return 1 << 60 if limit == UNLIMITED else max(0, limit - lent)


def _draw(need: int, idle: dict[str, int], limits: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    """Take a need from whoever has most idle, within limits first, then beyond them."""
    drawn: dict[str, int] = {}
    for bounds in (limits, idle):
        for name in sorted(idle, key=lambda name: (-idle[name], name)):
            gpus = min(need, idle[name], bounds[name])
            if gpus > 0:
                idle[name] -= gpus
                need -= gpus
                drawn[name] = drawn.get(name, 0) + gpus
    return drawn.items()
