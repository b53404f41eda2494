"""The policies that a simulation compares: ours, and what others would do with the same trace.

All run on the same core; a baseline is another policy and other facts, not another scheduler:

- `fifo`: one team that owns the whole fleet, and a desk that hands the core one job at a time, in
  order of arrival: nobody starts before the head of the queue has.
- `backfill` (EASY): the same team, without the desk; the head has a reservation, and others may
  start where they do not delay it.
- `shortest`: as `fifo`, but the desk hands in the job with the least to do. It knows the durations,
  as no scheduler does.
- `quota`: our policy and teams, but nobody borrows.
- `gangline`: our policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gangline.replay.bad_input import BadInputError


class Desk(StrEnum):
    """Whether jobs are handed to the core as they come, or one by one in an order."""

    NONE = "none"
    ARRIVAL = "arrival"
    SHORTEST = "shortest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A policy to compare. one_team: everybody is in one team that owns the fleet, in one class.

    borrows: whether teams may borrow. policy: keys that differ.
    """

    name: str
    about: str
    one_team: bool = False
    borrows: bool = True
    desk: Desk = Desk.NONE
    policy: Mapping[str, int] = field(default_factory=dict)


_NO_LARGE: Final = {"large_gang_gpus": 10**9}

GANGLINE: Final = Baseline(name="gangline", about="ours")
BASELINES: Final[Mapping[str, Baseline]] = {
    baseline.name: baseline
    for baseline in (
        Baseline(
            name="fifo",
            about="strictly in order of arrival",
            one_team=True,
            desk=Desk.ARRIVAL,
            policy=_NO_LARGE,
        ),
        Baseline(
            name="backfill",
            about="EASY backfill: one reservation, for the head of the queue",
            one_team=True,
            policy={**_NO_LARGE, "reservations": 1},
        ),
        Baseline(
            name="shortest",
            about="shortest first, with durations known in advance",
            one_team=True,
            desk=Desk.SHORTEST,
            policy=_NO_LARGE,
        ),
        Baseline(name="quota", about="guarantees without borrowing", borrows=False),
        GANGLINE,
    )
}


def parse_baselines(text: str) -> tuple[Baseline, ...]:
    """The baselines of `fifo,backfill,…`; raises BadInputError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = next((name for name in names if name not in BASELINES), None)
    if unknown is not None or not names:
        known = ", ".join(BASELINES)
        raise BadInputError("--compare", f"expected some of {known}, got {unknown or 'nothing'!r}")
    return tuple(BASELINES[name] for name in dict.fromkeys(names))
