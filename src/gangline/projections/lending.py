"""Who uses whose guarantee now: loans between teams, and whose what lies idle is. Pure.

Teams form a tree; a guarantee of a team is part of its parent's. A team that uses more than its
guarantee borrows the difference. One rule says who lends, the scheduler's own: under each parent,
what nobody there is guaranteed goes first, then the idle guarantees of its teams, who has most
first (then who was set up first), each within its lend limit; what is missing the parent borrows
further out, under the same rule. What a parent lends further out it takes from what is then left,
in the same order. Nobody lends what a team below it keeps to itself: such a branch borrows further
out though it has idle GPUs.

So for each team, with `own part` for what its guarantee exceeds its children's:

    own part + borrowed = direct use + lent + idle

and over all teams, with the fleet as the root, the idle parts add up to capacity less use. Where
guarantees exceed the fleet, more is idle on paper than in the racks; the ledger hands out only what
is there. Where limits were lowered under use so that they cannot hold, loans are found as if there
were none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FLEET: Final = ""
"""The root of the tree: its own part is what nobody is guaranteed."""

UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamTerms:
    """What a team was promised. guaranteed, lend: GPUs; lend may be UNLIMITED. borrow likewise.

    order: counts teams as they were set up. by_model: guaranteed GPUs of single models.
    """

    parent: str = FLEET
    guaranteed: int = 0
    borrow: int = UNLIMITED
    lend: int = UNLIMITED
    weight: int = 1
    order: int = 0
    by_model: Mapping[str, int] = field(default_factory=dict)


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
        self.limited = any(terms.lend != UNLIMITED for terms in teams.values())

    def upwards(self) -> Iterator[str]:
        """All teams, each after those below it, and then the fleet."""
        for name, _ in self._parents:
            yield name
        yield FLEET

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
    walk = _Walk(tree, direct, capacity, limited=tree.limited)
    if not walk.holds():
        walk = _Walk(tree, direct, capacity, limited=False)
    walk.settle(FLEET, lent=0)
    return Lending(used=walk.used, loans=walk.loans, idle=walk.idle)


def lent(tree: Tree, direct: Mapping[str, int], capacity: int) -> dict[str, int]:
    """What each team lends under its parent, to teams there and to the parent's own jobs.

    As the scheduler counts it, by use and guarantees of whole branches. It is what the loans say,
    except where a lend limit further down makes a branch borrow more than it uses beyond its
    guarantee.
    """
    return dict(_lent(tree, _Walk(tree, direct, capacity, limited=False)))


class _Walk:
    """One walk up the tree, and one down.

    pool: what of a team's own part its own jobs leave. own_need: what they use beyond it. missing:
    what a team must borrow outside. spare: what it may lend outside. All in GPUs, by team.
    """

    def __init__(
        self, tree: Tree, direct: Mapping[str, int], capacity: int, *, limited: bool
    ) -> None:
        self._tree = tree
        self.used = tree.totals(direct)
        self.over = {name: self.used[name] - terms.guaranteed for name, terms in tree.teams.items()}
        self.pool: dict[str, int] = {}
        self.own_need: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._spare: dict[str, int] = {}
        self.loans: list[Loan] = []
        self.idle: dict[str, int] = {}
        for name in tree.upwards():
            guaranteed = capacity if name == FLEET else tree.teams[name].guaranteed
            if name in tree.children:
                self._gather(name, guaranteed, direct.get(name, 0))
            else:
                self._single(name, guaranteed)
            if limited and name != FLEET and (limit := tree.teams[name].lend) != UNLIMITED:
                self._spare[name] = min(self._spare[name], limit)

    def _single(self, name: str, guaranteed: int) -> None:
        """What a team without others below it misses, or can spare."""
        over = self.used[name] - guaranteed
        self._missing[name], self._spare[name] = (over, 0) if over > 0 else (0, -over)

    def _gather(self, name: str, guaranteed: int, own: int) -> None:
        """What a team with others below it misses and can spare, after those."""
        part = max(0, guaranteed - self._tree.promised[name])
        self.pool[name], self.own_need[name] = max(0, part - own), max(0, own - part)
        over = self.used[name] - guaranteed
        left = self.pool[name] - self.own_need[name]
        for child in self._tree.children[name]:
            left += self._spare[child] - self._missing[child]
        self._missing[name] = max(0, over, -left)
        self._spare[name] = max(0, min(-over, left))

    def holds(self) -> bool:
        """Whether all that is missing is lent by somebody who may."""
        return not self._missing[FLEET]

    def settle(self, name: str, *, lent: int) -> None:
        """Find the loans under a team that lends so much outside."""
        given = self._missing[name]
        if name not in self._tree.children:
            self.idle[name] = max(0, -self.over[name]) - lent
            return
        children = self._tree.children[name]
        lenders: list[list[Any]] = [[name, self.pool[name]]]
        lenders += [[child, self._spare[child]] for child in in_order(self._tree, name, self.over)]
        lenders.append([name, given])
        lent_by = dict.fromkeys(children, 0)
        wants = [(name, self.own_need[name])]
        wants += [(child, self._missing[child]) for child in children]
        for borrower, gpus in [*wants, (name, lent)]:
            if gpus:
                self._draw(borrower, gpus, lenders, lent_by, parent=name)
        self.idle[name] = lenders[0][1] + lenders[-1][1]
        for child in children:
            self.settle(child, lent=lent_by[child])

    def _draw(
        self,
        borrower: str,
        gpus: int,
        lenders: list[list[Any]],
        lent_by: dict[str, int],
        *,
        parent: str,
    ) -> None:
        """Take so much from the first lenders that have any. A parent lends itself nothing."""
        for entry in lenders:
            if not gpus:
                return
            lender, has = entry
            part = min(gpus, has)
            if not part:
                continue
            entry[1] -= part
            gpus -= part
            if lender != parent:
                lent_by[lender] += part
            if lender != borrower:
                sibling = parent not in (lender, borrower)
                self.loans.append(Loan(lender, borrower, part, sibling=sibling))


def in_order(tree: Tree, parent: str, over: Mapping[str, int]) -> list[str]:
    """The teams under a parent in the order in which they lend. over: use less guarantee."""
    return sorted(tree.children[parent], key=lambda name: (over[name], tree.teams[name].order))


def _lent(tree: Tree, walk: _Walk) -> Iterator[tuple[str, int]]:
    """What the scheduler says that each team lends: by use and guarantees of whole branches."""
    for parent, children in tree.children.items():
        need = walk.own_need[parent] + sum(max(0, walk.over[child]) for child in children)
        need = max(0, need - walk.pool[parent])
        for child in in_order(tree, parent, walk.over):
            limit, idle = tree.teams[child].lend, max(0, -walk.over[child])
            gpus = min(need, idle if limit == UNLIMITED else min(idle, limit))
            need -= gpus
            yield child, gpus
