"""Who may take from whom in the tree of teams, by what they hold as the decisions say.

Use counts as it will be when all orders to stop are followed and all claims are met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events.spec import JobClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangline.events.decisions import GangPreempted
    from gangline.replay.model import Model, ModelJob


def right_problem(model: Model, pair: tuple[ModelJob, ModelJob], decision: GangPreempted) -> str:
    """Why the quotas give no such right; empty when they do. pair: victim and claimant."""
    victim, claimant = pair
    if claimant.job_class == JobClass.URGENT:
        return ""
    mine, theirs = _parted(model, claimant.spec.team, victim.spec.team)
    will_use = _projected(model, claimant)
    if decision.cause == "class" and not theirs and not mine:
        return ""
    inside = _not_above(model, will_use, theirs, victim.spec.team)
    if inside:
        return f"{victim.job} is inside the guarantee of {inside}"
    if decision.cause == "class":
        return ""
    beyond = _beyond(model, will_use, mine, claimant)
    return f"{claimant.job} would not be inside the guarantee of {beyond}" if beyond else ""


def _parted(model: Model, claimant: str, victim: str) -> tuple[list[str], list[str]]:
    """Both chains of teams below their nearest common ancestor, innermost first."""
    mine, theirs = list(model.branch(claimant)), list(model.branch(victim))
    while mine and theirs and mine[-1] == theirs[-1]:
        mine.pop()
        theirs.pop()
    return mine, theirs


def _projected(model: Model, claimant: ModelJob) -> dict[str, int]:
    """GPUs of each team's branch, and under `own:TEAM` of its own jobs, claims counted as met."""
    use: dict[str, int] = {}
    stays = [job for job in model.holding.values() if not job.leaving]
    coming = [model.jobs[name] for name in model.claims if name != claimant.job]
    for job in (*stays, *coming):
        _count(use, model.branch(job.spec.team), job)
    return use


def _count(use: dict[str, int], branch: Iterable[str], job: ModelJob) -> None:
    own = f"own:{job.spec.team}"
    use[own] = use.get(own, 0) + job.spec.gpus
    for name in branch:
        use[name] = use.get(name, 0) + job.spec.gpus


def _own_part(model: Model, name: str) -> int:
    """What of a team's guarantee is no child's."""
    children = (team.guaranteed for team in model.teams.values() if team.parent == name)
    return max(0, model.teams[name].guaranteed - sum(children))


def _not_above(model: Model, use: dict[str, int], chain: Sequence[str], team: str) -> str:
    """A team of the victim's side that is not above its guarantee; empty for none."""
    if not chain:
        return "" if use.get(f"own:{team}", 0) > _own_part(model, team) else team
    return next((n for n in chain if use.get(n, 0) <= model.teams[n].guaranteed), "")


def _beyond(model: Model, use: dict[str, int], chain: Sequence[str], claimant: ModelJob) -> str:
    """A team of the claimant's side that would be beyond its guarantee; empty for none."""
    gpus, team = claimant.spec.gpus, claimant.spec.team
    if not chain:
        return "" if use.get(f"own:{team}", 0) + gpus <= _own_part(model, team) else team
    return next((n for n in chain if use.get(n, 0) + gpus > model.teams[n].guaranteed), "")
