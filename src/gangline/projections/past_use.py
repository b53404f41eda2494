"""Use that counts half after each half-life, to the millisecond as the scheduler counts it.

Two teams with the same past are told apart by their last millisecond, so floats would not do, and
neither would another rounding: 2^(-time / half-life) lies on lines between 1,024 steps, in 32 bits
of fraction, whose steps are products of integer square roots of one half, rounded down.
`tests/projections/test_core_agreement.py` holds both side by side.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

_BITS: Final = 32
_WHOLE: Final = 1 << _BITS
_ROOTS: Final = 10
_PER_LN2: Final = 6_196_328_018
"""1 / ln 2 with 32 bits of fraction."""
_MOST_HALVINGS: Final = 60


def _steps() -> list[int]:
    """2^(-i / 1024) for i from 0 to 1024: each bit of i, from the highest, is one more root."""
    steps, root = [_WHOLE], _WHOLE >> 1
    for _ in range(_ROOTS):
        root = isqrt(root << _BITS)
        steps = [value for step in steps for value in (step, step * root >> _BITS)]
    return [*steps, _WHOLE >> 1]


_STEPS: Final = _steps()


def left_after(elapsed_ms: int, half_life_ms: int) -> int:
    """What is left of a use after a time, in parts of 2^32."""
    halvings, rest_ms = divmod(elapsed_ms, half_life_ms)
    if halvings > _MOST_HALVINGS:
        return 0
    step, beyond = divmod(rest_ms << _ROOTS, half_life_ms)
    drop = (_STEPS[step] - _STEPS[step + 1]) * beyond // half_life_ms
    return _STEPS[step] - drop >> halvings


def use_after(gpu_ms: int, *, gpus: int, elapsed_ms: int, half_life_ms: int) -> int:
    """Past use after so much more time at so many GPUs, in GPU-milliseconds."""
    if elapsed_ms <= 0:
        return gpu_ms
    left = left_after(elapsed_ms, half_life_ms)
    more = gpus * half_life_ms * _PER_LN2 * (_WHOLE - left) >> 2 * _BITS
    return (gpu_ms * left >> _BITS) + more
