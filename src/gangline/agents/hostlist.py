"""Node names the way Slurm writes them.

`n1,n2,n4` is `n[1-2,4]`, and 8, 8, 4 tasks are `8(x2),4`.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERED: Final = re.compile(r"(.*?)(\d+)")


def compress(names: Sequence[str]) -> str:
    """One text for all names, in their order.

    Neighbours with following numbers are put together.
    """
    parts: list[str] = []
    for (prefix, _), group in groupby(names, key=_shape):
        members = list(group)
        numbers = [name[len(prefix) :] for name in members]
        bare = len(members) == 1 or not numbers[0]
        parts += members if bare else [f"{prefix}[{_ranges(numbers)}]"]
    return ",".join(parts)


def _shape(name: str) -> tuple[str, int]:
    """What must be equal to be put together.

    The text before the number, and its digits if padded.
    """
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return name, -1
    prefix, digits = found.groups()
    return prefix, len(digits) if digits.startswith("0") and len(digits) > 1 else 0


def _ranges(numbers: Sequence[str]) -> str:
    """`1,2,3,7` as `1-3,7`; padding is kept."""
    runs: list[list[str]] = []
    for number in numbers:
        if runs and int(number) == int(runs[-1][-1]) + 1 and len(number) >= len(runs[-1][-1]):
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def repeat(counts: Sequence[int]) -> str:
    """Tasks of each node in order, equal neighbours counted together."""
    parts: list[str] = []
    for count, group in groupby(counts):
        times = len(list(group))
        parts.append(str(count) if times == 1 else f"{count}(x{times})")
    return ",".join(parts)
