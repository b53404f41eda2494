"""The quota tree: what a team may hold, what it borrows, and who lends.

Each team has a guarantee, a borrow limit, a lend limit. Use counts in every ancestor. A team inside
its guarantee borrows nothing; beyond it, it borrows from its siblings' idle guarantees and the
parent's own part first, then through the parent from further out. What a team does not lend of its
idle guarantee is locked: it counts as used where somebody else wants to borrow it ("effective
use").

Guarantees of single GPU models are judged in trees of their own (models.py): whether a gang that
wants such a model is inside its guarantee, and whether a team is above it there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from gangline.events.spec import UNLIMITED, Spec
from gangline.scheduler.core.entities import Job, Team
from gangline.scheduler.core.models import branch_of
from gangline.scheduler.core.state import ROOT, State


class Barrier(NamedTuple):
    """What keeps a gang out though there may be room. kind: `guarantee`, `borrow` or `lend`.

    model: of which GPUs only those of one model count; empty for all.
    """

    kind: str
    team: str
    used: int
    most: int
    model: str = ""


Limit = tuple[str, Team, int, str]
"""As a barrier: kind, team, the most that it may hold, model."""


class TeamNumbers(NamedTuple):
    """A team in GPUs, and its own waiting jobs."""

    used: int
    guaranteed_used: int
    borrowed: int
    lent: int
    queued: int


Use = Callable[[Team], int]


def held(team: Team) -> int:
    """GPUs that a team's own jobs hold, now or when claims are met, whichever is more."""
    return team.own + max(0, team.own_pledged)


def to_hold(team: Team) -> int:
    """GPUs that a team's own jobs will hold when claims are met and what leaves has left."""
    return team.own + team.own_pledged


def committed(team: Team) -> int:
    """The same of the whole branch."""
    return team.used + max(0, team.pledged)


def locked(team: Team, use: Use) -> int:
    """Idle guarantee that a team does not lend."""
    if team.lend == UNLIMITED:
        return 0
    return max(0, team.guaranteed - effective(team, use) - team.lend)


def effective(team: Team, use: Use) -> int:
    """What the branch holds, and what its members keep to themselves."""
    total = use(team)
    for child in team.children:
        total += effective(child, use) + locked(child, use)
    return total


def projected(team: Team) -> int:
    """GPUs that the branch will hold when claims are met and what leaves has left."""
    return team.used + team.pledged


def barrier(state: State, spec: Spec, *, count: Use = committed) -> Barrier | None:
    """What keeps the GPUs of a spec out, as things stand; None for nothing.

    count: how a team's use is counted.
    """
    return next(_barriers(state, spec, count=count), None)


def barriers(state: State, spec: Spec) -> list[Barrier]:
    """All that keeps the GPUs of a spec out, as things stand; `barrier` is the first."""
    return list(_barriers(state, spec, count=committed))


def _barriers(state: State, spec: Spec, *, count: Use) -> Iterator[Barrier]:
    for kind, team, most, model in _limits(state, spec):
        if count(team) + spec.gpus > most:
            yield Barrier(kind, team.name, count(team), most, model)
    if state.lending_limited:
        use = held if count is committed else to_hold
        yield from _effective_barriers(state, state.teams[spec.team], spec.gpus, use)


def addable(state: State, spec: Spec) -> int | None:
    """GPUs that a spec's team may take more at most, as things stand; None without a limit.

    More than that meets a barrier; that much may still meet one where lending is limited.
    """
    return min((most - committed(team) for _, team, most, _ in _limits(state, spec)), default=None)


def _limits(state: State, spec: Spec) -> Iterator[Limit]:
    """What a team and those above it may hold, one limit after another; not what lending limits."""
    team = state.teams[spec.team]
    if not spec.preemptible:
        yield "guarantee", team, team.guaranteed, ""
    # While others leave for a job that may only run inside the guarantee, nobody of its team, nor
    # of those under it, may use that room up.
    for above in state.chain(spec.team) if state.inside_claims else ():
        if above.name in state.inside_claims:
            yield "guarantee", above, above.guaranteed, ""
    if state.models.trees:
        yield from _limits_by_model(state, spec)
    if not state.lending_limited:
        for above in state.chain(spec.team):
            if above.borrow != UNLIMITED:
                yield "borrow", above, above.guaranteed + above.borrow, ""


def _limits_by_model(state: State, spec: Spec) -> Iterator[Limit]:
    """The same guarantees of the models on which the job may come to stand."""
    models = state.models
    asked = models.asked_by(spec)
    if asked and not spec.preemptible:
        own = models.trees[asked][spec.team]
        yield "guarantee", own, own.guaranteed, asked
    for model in models.open_to(spec):
        inside = models.inside[model]
        for above in branch_of(models.trees[model][spec.team]) if inside else ():
            if above.name in inside:
                yield "guarantee", above, above.guaranteed, model


def barrier_without_claim(state: State, job: Job, count: Use = committed) -> Barrier | None:
    """The same for a job whose claim is counted already."""
    claim = state.reservations[job.id]
    state.pledge_room(claim, -1)
    try:
        return barrier(state, job.spec, count=count)
    finally:
        state.pledge_room(claim, 1)


def breaks_claim(state: State, job: Job) -> bool:
    """Whether a job that takes its GPUs now leaves a standing claim without what is lent to it.

    An owner may always use its guarantee, so where lending is limited a claim that was proven on
    what the owner left idle would be withdrawn, its victims gone for nothing. It waits that long.
    """
    if not state.lending_limited:
        return False
    standing = [
        other
        for r in state.reservations.values()
        if r.kind == "claim" and r.job != job.id and _open(state, other := state.jobs[r.job])
    ]
    team = state.teams[job.spec.team]
    team.own += job.gpus
    try:
        return not all(_open(state, other) for other in standing)
    finally:
        team.own -= job.gpus


def _open(state: State, job: Job) -> bool:
    return barrier_without_claim(state, job, projected) is None


def _effective_barriers(state: State, team: Team, gpus: int, use: Use) -> Iterator[Barrier]:
    """The same where somebody limits what it lends."""

    def with_gang(other: Team) -> int:
        return use(other) + (gpus if other is team else 0)

    top = team
    for above in state.chain(team.name):
        after = effective(above, with_gang)
        most = above.guaranteed + above.borrow
        if above.borrow != UNLIMITED and after > most:
            yield Barrier("borrow", above.name, effective(above, use), most)
        top = above
    if effective(top, with_gang) <= top.guaranteed:
        return
    total = sum(effective(c, with_gang) + locked(c, with_gang) for c in state.root.children)
    if total > state.capacity:
        yield Barrier("lend", top.name, total - gpus, state.capacity)


def never(state: State, spec: Spec) -> Barrier | None:
    """What would keep the GPUs of a spec out even if nobody else held any."""
    team = state.teams[spec.team]
    if not spec.preemptible and spec.gpus > team.guaranteed:
        return Barrier("guarantee", team.name, 0, team.guaranteed)
    model = state.models.asked_by(spec)
    own = state.models.trees[model][spec.team] if model else team
    if not spec.preemptible and spec.gpus > own.guaranteed:
        return Barrier("guarantee", team.name, 0, own.guaranteed, model)
    return next(_effective_barriers(state, team, spec.gpus, lambda _team: 0), None)


def most_ever(state: State, spec: Spec) -> int:
    """The most GPUs, of those that a spec asks for, that its team could ever hold."""
    asked = range(1, min(spec.gpus, state.capacity) + 1)
    return bisect_left(
        asked, 1, key=lambda gpus: never(state, replace(spec, gpus=gpus)) is not None
    )


# --- who lends to whom ----------------------------------------------------------------------------


def own_guarantee(team: Team) -> int:
    """The part of a team's guarantee that is no child's.

    For its own jobs, and the first to be lent inside.
    """
    return max(0, team.guaranteed - sum(child.guaranteed for child in team.children))


class Lending(NamedTuple):
    """Who lends within one parent. pool: from what nobody there is guaranteed.

    Outside: what comes from further out.
    """

    lent: dict[str, int]
    pool: int
    outside: int


def lending(parent: Team, pool: int) -> Lending:
    """Split what is borrowed inside a parent over its lenders.

    The pool first, then who has most idle.
    """
    needs = max(0, parent.own - pool) + sum(borrowed(child) for child in parent.children)
    from_pool = min(needs, max(0, pool - parent.own))
    rest = needs - from_pool
    lent: dict[str, int] = {}
    for child in sorted(parent.children, key=lambda c: (c.used - c.guaranteed, c.order)):
        idle = max(0, child.guaranteed - child.used)
        most = idle if child.lend == UNLIMITED else min(idle, child.lend)
        lent[child.name] = min(rest, most)
        rest -= lent[child.name]
    return Lending(lent, from_pool, rest)


def borrowed(team: Team) -> int:
    """What a branch holds beyond its guarantee."""
    return max(0, team.used - team.guaranteed)


def team_numbers(state: State, name: str) -> TeamNumbers:
    """A team's numbers now; KeyError for an unknown team."""
    team = state.teams[name]
    parent = team.up or state.root
    if parent.name == ROOT:
        pool = max(0, state.capacity - sum(child.guaranteed for child in parent.children))
    else:
        pool = own_guarantee(parent)
    return TeamNumbers(
        used=team.used,
        guaranteed_used=min(team.used, team.guaranteed),
        borrowed=borrowed(team),
        lent=lending(parent, pool).lent[name],
        queued=team.queued,
    )


# --- who may take from whom -----------------------------------------------------------------------


class Sides(NamedTuple):
    """Two teams as seen from their nearest common ancestor: their chains below it, innermost first.

    A side is empty where the team is that ancestor itself.
    """

    ancestor: Team
    claimant: tuple[Team, ...]
    victim: tuple[Team, ...]


def teams_of(state: State, model: str) -> Mapping[str, Team]:
    """The teams with their numbers of a guaranteed model, or of all GPUs where it is empty."""
    return state.models.trees[model] if model else state.teams


def sides(state: State, claimant: str, victim: str, model: str = "") -> Sides:
    """Where the branches of two teams part; use counts as it will be when claims are met.

    model: of which GPUs only count, a guaranteed one; empty for all.
    """
    teams = teams_of(state, model)
    mine = list(branch_of(teams[claimant]))
    theirs = list(branch_of(teams[victim]))
    ancestor = state.root
    while mine and theirs and mine[-1] is theirs[-1]:
        ancestor = mine.pop()
        theirs.pop()
    return Sides(ancestor, tuple(mine), tuple(theirs))


def inside(parts: Sides, gpus: int) -> bool:
    """Whether the claimant's side stays inside its guarantees with the new gang."""
    if not parts.claimant:
        own = parts.ancestor.own + parts.ancestor.own_pledged
        return own + gpus <= own_guarantee(parts.ancestor)
    return all(team.used + team.pledged + gpus <= team.guaranteed for team in parts.claimant)


def above(parts: Sides) -> bool:
    """Whether the victim's side is above its guarantees, all of them."""
    return excess(parts) > 0


def excess(parts: Sides) -> int:
    """GPUs by which the victim's side is above its guarantees, the least of all of them."""
    if not parts.victim:
        own = parts.ancestor.own + parts.ancestor.own_pledged
        return own - own_guarantee(parts.ancestor)
    return min(team.used + team.pledged - team.guaranteed for team in parts.victim)
