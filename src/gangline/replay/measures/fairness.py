"""Fairness: what each team was given, and what it was entitled to.

In each hour a team asks for what its gangs hold and its waiting jobs want. It is entitled to its
weighted max-min fair share of the GPUs that were in order, never less than its guarantee (as far as
it asks), never more than its guarantee plus its borrow limit. A parent's share is split among its
children in the same way.

A team's error is the largest |delivered - entitled| over any 24 hours in each of which it asked for
more than it was entitled to, divided by what the fleet has in 24 hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gangline.events.spec import UNLIMITED
from gangline.replay.measures.shares import Claim, fair_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.replay.measures.fold import Fold
    from gangline.replay.measures.records import TeamRecord

HOUR_MS: Final = 3_600_000
WINDOW_HOURS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamHours:
    """A team by hours, in GPU-milliseconds. hungry: whether it asked for more than its share."""

    delivered: list[int]
    entitled: list[int]
    hungry: list[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """All teams. max_error: a share of the fleet's day. worst: team and first hour of that day.

    windows: how many days of teams were looked at.
    """

    teams: Mapping[str, TeamHours]
    max_error: float
    worst: tuple[str, int]
    windows: int


def fairness_of(fold: Fold, *, hours: int) -> Fairness:
    """The fairness of the first `hours` whole hours of a history."""
    per_hour = HOUR_MS // fold.bucket_ms
    names = [team.team for team in _latest(fold.teams, fold.now_ms).values()]
    held = {name: _hours(fold, "team_held", name, hours, per_hour) for name in names}
    wanted = {name: _hours(fold, "team_wanted", name, hours, per_hour) for name in names}
    usable = _usable_hours(fold, hours, per_hour)
    teams = {name: TeamHours(delivered=held[name], entitled=[], hungry=[]) for name in names}
    for hour in range(hours):
        present = _latest(fold.teams, fold.origin_ms + (hour + 1) * HOUR_MS)
        asked = {name: held[name][hour] + wanted[name][hour] for name in names}
        shares = _entitlements(present, asked, usable[hour])
        for name in names:
            teams[name].entitled.append(shares.get(name, 0))
            teams[name].hungry.append(asked[name] > shares.get(name, 0))
    capacity = _hours(fold, "gpus", "capacity", hours, per_hour)
    return _judged(teams, capacity)


def _hours(fold: Fold, kind: str, name: str, hours: int, per_hour: int) -> list[int]:
    values = fold.series(kind, name).values(hours * per_hour)
    return [sum(values[at : at + per_hour]) for at in range(0, len(values), per_hour)]


def _usable_hours(fold: Fold, hours: int, per_hour: int) -> list[int]:
    """GPU-milliseconds of each hour that were held or could have been."""
    columns = [
        _hours(fold, "gpus", name, hours, per_hour)
        for name in ("capacity", "unhealthy", "out_of_service")
    ]
    return [whole - ill - out for whole, ill, out in zip(*columns, strict=True)]


def _latest(teams: Sequence[TeamRecord], at_ms: int) -> dict[str, TeamRecord]:
    """The teams as they were at a time."""
    return {team.team: team for team in teams if team.since_ms <= at_ms}


def _entitlements(
    teams: Mapping[str, TeamRecord], asked: Mapping[str, int], amount: int, parent: str = ""
) -> dict[str, int]:
    """The share of each team below a parent, and of those below them."""
    children = [team for team in teams.values() if team.parent == parent]
    branches = [_asked_below(teams, asked, team.team) for team in children]
    claims = [_claim(team, branch) for team, branch in zip(children, branches, strict=True)]
    if parent and asked.get(parent):
        # A parent's own jobs stand beside its children, with no guarantee of their own.
        claims.append(Claim(weight=1, wanted=asked[parent], floor=0))
    shares = fair_shares(amount, claims) if claims else []
    result = {}
    for team, share in zip(children, shares, strict=False):
        below = _entitlements(teams, asked, share, team.team)
        result.update(below)
        result[team.team] = share - sum(
            below[child.team] for child in teams.values() if child.parent == team.team
        )
    return result


def _asked_below(teams: Mapping[str, TeamRecord], asked: Mapping[str, int], name: str) -> int:
    below = (t.team for t in teams.values() if t.parent == name)
    return asked.get(name, 0) + sum(_asked_below(teams, asked, child) for child in below)


def _claim(team: TeamRecord, asked: int) -> Claim:
    floor = team.guaranteed * HOUR_MS
    most = asked if team.borrow == UNLIMITED else floor + team.borrow * HOUR_MS
    return Claim(weight=max(1, team.weight), wanted=min(asked, most), floor=floor)


def _judged(teams: Mapping[str, TeamHours], capacity: Sequence[int]) -> Fairness:
    worst, worst_error, windows = ("", 0), 0.0, 0
    for name, team in teams.items():
        for first in range(len(capacity) - WINDOW_HOURS + 1):
            day = slice(first, first + WINDOW_HOURS)
            if not all(team.hungry[day]):
                continue
            windows += 1
            error = abs(sum(team.delivered[day]) - sum(team.entitled[day])) / sum(capacity[day])
            if error > worst_error:
                worst, worst_error = (name, first), error
    return Fairness(teams=teams, max_error=worst_error, worst=worst, windows=windows)
