"""What each team has a right to at a moment, by its guarantee, its weight and its demand. Pure.

A right is the lesser of demand, and guarantee with a share of the rest. Under each parent
guarantees come first (cut by their size when they exceed what there is), then the rest is split by
weight over those that want more (water-filling: nobody gets more than it wants). All in integers:
thousandths of a GPU, so that rounding does not favour anybody by a whole one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gangline.projections.lending import FLEET, UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangline.projections.lending import TeamTerms, Tree

PARTS: Final = 1000
"""Parts of a GPU in which shares are counted."""


def entitled(tree: Tree, demand: Mapping[str, int], capacity: int) -> dict[str, int]:
    """Each team's right, with all teams below it, in thousandths of a GPU.

    demand: GPUs that a team's own gangs hold and its own waiting jobs want. capacity: GPUs in
    service.
    """
    wanted = {name: gpus * PARTS for name, gpus in tree.totals(demand).items()}
    found: dict[str, int] = {}
    _split(tree, demand, wanted, name=FLEET, amount=capacity * PARTS, found=found)
    return found


def _split(
    tree: Tree,
    demand: Mapping[str, int],
    wanted: Mapping[str, int],
    *,
    name: str,
    amount: int,
    found: dict[str, int],
) -> None:
    """Share out a team's amount under it; its own jobs share in it like one more child."""
    children = tree.children.get(name, [])
    own = demand.get(name, 0) * PARTS if name != FLEET else 0
    wants = [own, *(_within_limit(tree.teams[child], wanted[child]) for child in children)]
    promised = [tree.teams[child].guaranteed * PARTS for child in children]
    own_part = max(0, amount - sum(promised)) if name != FLEET else 0
    weights = [tree.teams[name].weight if name != FLEET else 1]
    weights += [tree.teams[child].weight for child in children]
    shares = share_out(amount, wants=wants, guarantees=[own_part, *promised], weights=weights)
    for child, share in zip(children, shares[1:], strict=True):
        found[child] = share
        _split(tree, demand, wanted, name=child, amount=share, found=found)


def _within_limit(team: TeamTerms, wanted: int) -> int:
    """A demand that the borrow limit allows."""
    if team.borrow == UNLIMITED:
        return wanted
    return min(wanted, (team.guaranteed + team.borrow) * PARTS)


def share_out(
    amount: int, *, wants: Sequence[int], guarantees: Sequence[int], weights: Sequence[int]
) -> list[int]:
    """Guarantees first, then the rest by weight; nobody gets more than it wants."""
    claims = [min(want, guarantee) for want, guarantee in zip(wants, guarantees, strict=True)]
    first = fill(amount, wants=claims, weights=guarantees)
    left = amount - sum(first)
    more = [want - got for want, got in zip(wants, first, strict=True)]
    second = fill(left, wants=more, weights=weights)
    return [a + b for a, b in zip(first, second, strict=True)]


def fill(amount: int, *, wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Weighted water-filling in integers; what rounding leaves over stays undivided."""
    got = [0] * len(wants)
    open_to = [i for i, want in enumerate(wants) if want > 0 and weights[i] > 0]
    while open_to:
        total = sum(weights[i] for i in open_to)
        content = [i for i in open_to if wants[i] * total <= amount * weights[i]]
        if not content:
            for i in open_to:
                got[i] = amount * weights[i] // total
            return got
        for i in content:
            got[i] = wants[i]
            amount -= wants[i]
        open_to = [i for i in open_to if i not in content]
    return got
