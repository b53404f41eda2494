"""Past use that decays, in integers: GPU-milliseconds that count half after each half-life.

Decay is 2^(-elapsed / half_life) in fixed point: whole half-lives are shifts, the rest lies on
lines between the 1024 steps of a table that is built from integer square roots, so that every
machine computes the same. (Steps alone would not do: use that is counted again within a step would
never grow.) Use at a constant rate while it decays adds up to rate x half_life / ln 2 x (1 -
decay).
"""

from __future__ import annotations

from math import isqrt
from typing import Final

ONE: Final = 1 << 32
_STEPS_BITS: Final = 10
_STEPS: Final = 1 << _STEPS_BITS
_INVERSE_LN2: Final = 6_196_328_018  # 2^32 / ln 2, rounded down
_LONG_AGO: Final = 60


def _table() -> tuple[int, ...]:
    """2^(-i/1024) in fixed point for i in 0..1024, from ten successive square roots of one half."""
    roots = []
    root = ONE >> 1
    for _ in range(_STEPS_BITS):
        root = isqrt(root * ONE)
        roots.append(root)
    values = []
    for step in range(_STEPS):
        value = ONE
        for bit, factor in enumerate(roots):
            if step >> (_STEPS_BITS - 1 - bit) & 1:
                value = value * factor >> 32
        values.append(value)
    return (*values, ONE >> 1)


_TABLE: Final = _table()


def decay(elapsed_ms: int, half_life_ms: int) -> int:
    """2^(-elapsed/half_life) in fixed point (ONE is 1), within a millionth."""
    halvings, rest = divmod(elapsed_ms, half_life_ms)
    if halvings > _LONG_AGO:
        return 0
    step, beyond = divmod(rest * _STEPS, half_life_ms)
    above, below = _TABLE[step], _TABLE[step + 1]
    return above - (above - below) * beyond // half_life_ms >> halvings


def grown(value: int, *, rate: int, elapsed_ms: int, half_life_ms: int) -> int:
    """Decayed use after `elapsed_ms` more at `rate` GPUs, in GPU-milliseconds."""
    if elapsed_ms <= 0:
        return value
    left = decay(elapsed_ms, half_life_ms)
    added = rate * half_life_ms * _INVERSE_LN2 * (ONE - left) >> 64
    return (value * left >> 32) + added


def water_fill(amount: int, claims: list[tuple[int, int]]) -> list[int]:
    """Split an amount over (weight, wanted) by weighted max-min fairness, in integers.

    Nobody gets more than wanted; what one does not want goes to the others by weight. Rounding is
    down.
    """
    shares = [0] * len(claims)
    active = [i for i, (weight, wanted) in enumerate(claims) if weight > 0 and wanted > 0]
    left = amount
    while active and left > 0:
        total = sum(claims[i][0] for i in active)
        full = [i for i in active if (claims[i][1]) * total <= left * claims[i][0]]
        if not full:
            for i in active:
                shares[i] = left * claims[i][0] // total
            return shares
        for i in full:
            shares[i] = claims[i][1]
        left -= sum(claims[i][1] for i in full)
        taken = set(full)
        active = [i for i in active if i not in taken]
    return shares
