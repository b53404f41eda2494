"""Who may take from whom in the tree of teams, by what they hold as the decisions say.

Use counts as it will be when all orders to stop are followed and all claims are met. Whoever wants
a model of GPU that is guaranteed to somebody is judged by what stands on that model alone; and what
stands inside another team's guarantee of a model is for those only who want the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events.spec import JobClass
from gangline.replay.model_guarantees import (
    guarantee,
    guaranteed_model,
    guaranteed_models,
    stands_on,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangline.events.decisions import GangPreempted
    from gangline.replay.model import Model, ModelJob


def right_problem(model: Model, pair: tuple[ModelJob, ModelJob], decision: GangPreempted) -> str:
    """Why the quotas give no such right; empty when they do. pair: victim and claimant."""
    victim, claimant = pair
    wanted = guaranteed_model(model, claimant.spec)
    if wanted and not stands_on(model, victim.seats, wanted):
        return f"{victim.job} has no GPU of {wanted}"
    own = decision.cause == "class" and claimant.spec.team == victim.spec.team
    if own or claimant.job_class == JobClass.URGENT:
        return ""
    mine, theirs = _parted(model, claimant.spec.team, victim.spec.team)
    for kind in (wanted,) if wanted else ("", *_guaranteed_under(model, victim)):
        inside = _not_above(model, _projected(model, claimant, kind), theirs, victim, kind)
        if inside:
            return f"{victim.job} is inside the guarantee{_of(kind)} of {inside}"
    will_use = _projected(model, claimant, wanted)
    beyond = _beyond(model, will_use, mine, claimant, wanted)
    if decision.cause == "class" or not beyond:
        return ""
    return f"{claimant.job} would not be inside the guarantee{_of(wanted)} of {beyond}"


def _of(kind: str) -> str:
    return f" of {kind}" if kind else ""


def _guaranteed_under(model: Model, victim: ModelJob) -> list[str]:
    """The guaranteed models on which a gang stands."""
    return [kind for kind in guaranteed_models(model) if stands_on(model, victim.seats, kind)]


def _parted(model: Model, claimant: str, victim: str) -> tuple[list[str], list[str]]:
    """Both chains of teams below their nearest common ancestor, innermost first."""
    mine, theirs = list(model.branch(claimant)), list(model.branch(victim))
    while mine and theirs and mine[-1] == theirs[-1]:
        mine.pop()
        theirs.pop()
    return mine, theirs


def _projected(model: Model, claimant: ModelJob, kind: str) -> dict[str, int]:
    """GPUs of each team's branch, and under `own:TEAM` of its own jobs, claims counted as met.

    kind: the model of GPU that counts; empty for all.
    """
    use: dict[str, int] = {}
    stays = [job for job in model.holding.values() if not job.leaving]
    for job in stays:
        gpus = stands_on(model, job.seats, kind) if kind else job.spec.gpus
        _count(use, model.branch(job.spec.team), job, gpus)
    for name in model.claims:
        if name != claimant.job:
            job, room = model.jobs[name], model.reservations.get(name)
            seats = room.seats if room is not None else ()
            gpus = stands_on(model, seats, kind) if kind else job.spec.gpus
            _count(use, model.branch(job.spec.team), job, gpus)
    return use


def _count(use: dict[str, int], branch: Iterable[str], job: ModelJob, gpus: int) -> None:
    own = f"own:{job.spec.team}"
    use[own] = use.get(own, 0) + gpus
    for name in branch:
        use[name] = use.get(name, 0) + gpus


def _own_part(model: Model, name: str, kind: str) -> int:
    """What of a team's guarantee is no child's."""
    children = (t.team for t in model.teams.values() if t.parent == name)
    theirs = sum(guarantee(model, child, kind) for child in children)
    return max(0, guarantee(model, name, kind) - theirs)


def _not_above(
    model: Model, use: dict[str, int], chain: Sequence[str], victim: ModelJob, kind: str
) -> str:
    """A team of the victim's side that is not above its guarantee; empty for none."""
    team = victim.spec.team
    if not chain:
        return "" if use.get(f"own:{team}", 0) > _own_part(model, team, kind) else team
    return next((n for n in chain if use.get(n, 0) <= guarantee(model, n, kind)), "")


def _beyond(
    model: Model, use: dict[str, int], chain: Sequence[str], claimant: ModelJob, kind: str
) -> str:
    """A team of the claimant's side that would be beyond its guarantee; empty for none."""
    gpus, team = claimant.spec.gpus, claimant.spec.team
    if not chain:
        return "" if use.get(f"own:{team}", 0) + gpus <= _own_part(model, team, kind) else team
    return next((n for n in chain if use.get(n, 0) + gpus > guarantee(model, n, kind)), "")
