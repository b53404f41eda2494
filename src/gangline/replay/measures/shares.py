"""What each team is entitled to: max-min fair shares by weight, with guarantees as floors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEVEL_BITS: Final = 20


class Claim(NamedTuple):
    """What one asks for. weight: at least 1. floor: what it gets first, as far as it wants it."""

    weight: int
    wanted: int
    floor: int


def fair_shares(amount: int, claims: Sequence[Claim]) -> list[int]:
    """Split an amount by weight; nobody gets less than its floor or more than it wants.

    The share of each is `min(wanted, max(floor, level x weight))` with the highest level that the
    amount allows. Where even the floors ask for too much, they are cut in proportion.
    """
    floors = [min(claim.floor, claim.wanted) for claim in claims]
    asked = sum(floors)
    if asked >= amount:
        return [floor * amount // asked for floor in floors] if asked else floors
    low, high = 0, 1 + max((claim.wanted << _LEVEL_BITS) // claim.weight for claim in claims)
    while high - low > 1:
        level = (low + high) // 2
        fits = sum(_shares(level, claims)) <= amount
        low, high = (level, high) if fits else (low, level)
    return _shares(low, claims)


def _shares(level: int, claims: Sequence[Claim]) -> list[int]:
    return [
        min(wanted, max(floor, level * weight >> _LEVEL_BITS)) for weight, wanted, floor in claims
    ]
