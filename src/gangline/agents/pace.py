"""How fast each rank of a member gets on, as its program says in one small file a rank.

`GANGLINE_PROGRESS_FILE`, and `.RANK` after it: `{"step": 120, "step_s": 1.9, "own_s": 1.6}`. The
seconds of a step, and how many of them were the rank's own (the rest it waited for others), may be
left out. All of it stands in the file, so a restart of the agent loses nothing. Who is slow in a
gang is not ours to say: it has ranks on other nodes too. Who is slower than its neighbours on this
node is, and a metric counts them: one GPU of eight that throttles is seen without looking.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from gangline.agents import plan as files
from gangline.agents import untrusted
from gangline.events.pace import is_slower, usual

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_FILE: Final = re.compile(re.escape(files.PROGRESS) + r"\.(\d{1,7})")
_MOST_FILES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One rank. step: how many are done. step_s, own_s: of one step, None where it does not say.

    quiet_s: since it said so.
    """

    rank: int
    step: int
    step_s: float | None
    own_s: float | None
    quiet_s: float

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def paces(attempt: Path) -> list[Pace]:
    """Of all ranks that say something in an attempt's folder, in order of rank."""
    try:
        with os.scandir(attempt / files.OPEN_FOLDER) as entries:
            names = [entry.name for entry in islice(entries, _MOST_FILES)]
    except OSError:
        return []
    ranks = sorted({int(found[1]) for name in names if (found := _FILE.fullmatch(name))})
    return [pace for rank in ranks if (pace := _pace(attempt, rank)) is not None]


def slow(neighbours: Sequence[Pace]) -> list[int]:
    """The ranks of one member that are slower than the others of it, by their own part of a step.

    Where fewer than half of them say that part, by the whole step.
    """
    for needs in ([each.own_s for each in neighbours], [each.step_s for each in neighbours]):
        than = usual(needs)
        if than is not None:
            both = zip(neighbours, needs, strict=True)
            return [pace.rank for pace, seconds in both if is_slower(seconds, than)]
    return []


def _pace(attempt: Path, rank: int) -> Pace | None:
    """None where the rank says nothing that can be believed."""
    found = untrusted.read_object(attempt / files.OPEN_FOLDER / f"{files.PROGRESS}.{rank}")
    if found is None:
        return None
    plain, written_s = found
    step = untrusted.count_of(plain.get("step"))
    if step is None:
        return None
    return Pace(
        rank=rank,
        step=step,
        step_s=untrusted.seconds_of(plain.get("step_s")),
        own_s=untrusted.seconds_of(plain.get("own_s")),
        quiet_s=round(max(0.0, time.time() - written_s), 3),
    )
