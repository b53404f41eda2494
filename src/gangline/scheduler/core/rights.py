"""Who may take GPUs from whom, and how many at most.

- A class right: `urgent` and `high` from lower classes; out of another team's guarantee only
`urgent`.
- The owner's right, of every class: a gang that is whole inside its team's guarantee takes back
what was borrowed from it, from any class but `urgent`, as long as the victim's team is above its
guarantee. Both are judged below the two teams' nearest common ancestor.
- Who wants a guaranteed model (models.py) is judged, and judges, by what stands on that model
alone, and takes only from gangs that do. From others, what stands inside another team's guarantee
of a model is safe as well.

A `preemptible=no` job is never a victim, an attempt is protected for its minimum run time (not from
`urgent`), nobody evicts the one it was evicted for before it has started again, and gangs that are
leaving anyway are waited for, not evicted twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gangline.events.spec import JobClass
from gangline.scheduler.core import quota
from gangline.scheduler.core.assumed import NEVER, protected_until_ms
from gangline.scheduler.core.entities import Evictable, Job, Kind, Team
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn


def right_over(state: State, claimant: Job, team: str, kind: Kind, *, gpus: int) -> str:
    """By which right a team's gangs of one kind may go: `class`, `reclaim`, or none (empty).

    Those of them that may be evicted at all. gpus: that the claimant comes to hold.
    """
    model = state.models.asked_by(claimant.spec)
    if model and model not in kind.models:
        return ""
    parts = quota.sides(state, claimant.spec.team, team, model)
    same_team = claimant.spec.team == team
    strong = kind.job_class < claimant.job_class and claimant.job_class >= JobClass.HIGH
    if strong and (same_team or claimant.job_class is JobClass.URGENT):
        return "class"
    if same_team or kind.job_class == JobClass.URGENT:
        return ""
    if not quota.above(parts) or not (model or _above_in_each(state, claimant, team, kind)):
        return ""
    if strong:
        return "class"
    return "reclaim" if quota.inside(parts, gpus) else ""


def _above_in_each(state: State, claimant: Job, team: str, kind: Kind) -> bool:
    """Whether a team is above its guarantee of each guaranteed model on which its gangs stand.

    Else what it is guaranteed of a model would go to whoever wants any GPU, and be taken back, for
    ever. As no team is guaranteed more by model than in all, what it borrows can be had elsewhere.
    """
    mine = claimant.spec.team
    return all(quota.above(quota.sides(state, mine, team, model)) for model in kind.models)


def may_claim(state: State, job: Job) -> bool:
    """Whether any right is thinkable: a class right, or the owner's inside its own guarantee."""
    if job.chain >= state.cell.policy["preemption_chain"]:
        return False
    if job.job_class >= JobClass.HIGH:
        return True
    team = quota.teams_of(state, state.models.asked_by(job.spec))[job.spec.team]
    if quota.projected(team) + job.gpus <= team.guaranteed:
        return True
    return bool(team.children) and quota.own_guarantee(team) >= job.gpus


class Reach:
    """What a claimant could get by its rights at most."""

    def __init__(self, turn: Turn, claimant: Job, *, protects: bool, gpus: int = 0) -> None:
        """As things stand. protects: whether protected gangs count out.

        gpus: that the claimant comes to hold, its own if not said.
        """
        self.turn = turn
        self.state = turn.state
        self.claimant = claimant
        self.protects = protects
        self.gpus = gpus or claimant.gpus
        self.model = self.state.models.asked_by(claimant.spec)

    def most(self) -> int:
        """GPUs that it may get from all teams at most."""
        return sum(self._most_from(team) for team in self._teams() if team.gangs)

    def _teams(self) -> Iterable[Team]:
        return quota.teams_of(self.state, self.model).values()

    def _evictable(self, team: Team, *, protects: bool) -> Iterable[tuple[Kind, Evictable]]:
        return evictable(self.turn, team, protects=protects, model=self.model).items()

    def everybody(self) -> int:
        """GPUs of everybody whom it has a right to evict now, protected or not."""
        return sum(
            open_to.gpus
            for team in self._teams()
            for kind, open_to in self._evictable(team, protects=False)
            if self._right_over(team.name, kind)
        )

    def _right_over(self, team: str, kind: Kind) -> str:
        return right_over(self.state, self.claimant, team, kind, gpus=self.gpus)

    def _most_from(self, team: Team) -> int:
        """GPUs that it may get from a team at most.

        By a right over what is above the guarantee: what is above it, and what the last gang
        brings beyond.
        """
        everything = limited = largest = 0
        for kind, open_to in self._evictable(team, protects=self.protects):
            cause = self._right_over(team.name, kind)
            if not cause:
                continue
            if self._bounded(team, cause):
                limited += open_to.gpus
                largest = max(largest, open_to.largest)
            else:
                everything += open_to.gpus
        if limited:
            parts = quota.sides(self.state, self.claimant.spec.team, team.name, self.model)
            limited = min(limited, quota.excess(parts) + largest - 1)
        return everything + limited

    def _bounded(self, team: Team, cause: str) -> bool:
        """Whether the right ends when the team is down to its guarantee."""
        claimant = self.claimant
        own_or_urgent = claimant.job_class is JobClass.URGENT or team.name == claimant.spec.team
        return cause == "reclaim" or not own_or_urgent


def most_of_any(turn: Turn, claimant: Job, *, protects: bool) -> int:
    """GPUs that any gang of its team and class may get by rights at most.

    Remembered until the next decision. protects: whether protected gangs count out.
    """
    model = turn.state.models.asked_by(claimant.spec)
    key = ("most", claimant.spec.team, int(claimant.job_class), protects, model)
    return turn.remember(key, lambda: Reach(turn, claimant, gpus=1, protects=protects).most())


NOBODY: Final = Evictable(0, 0)
PLAIN: Final = {job_class: Kind(int(job_class), ()) for job_class in JobClass}


def leaving_gpus(turn: Turn) -> int:
    """GPUs of gangs that leave anyway, and not for somebody; remembered until the next decision."""

    def find() -> int:
        taken = {v for r in turn.state.reservations.values() for v in r.victims}
        return sum(job.gpus for job in turn.state.leaving.values() if job.id not in taken)

    return turn.remember("leaving", find)


def evictable(turn: Turn, team: Team, *, protects: bool, model: str = "") -> dict[Kind, Evictable]:
    """What a team could lose, by kind; remembered until its gangs, or who is protected, change.

    protects: without those that are protected for now. model: whose tree the team is of.
    """
    until_ms, found = team.reach.get(protects, (0, {}))
    if turn.now_ms >= until_ms:
        until_ms, found = _evictable(turn, team, protects=protects, model=model)
        team.reach[protects] = until_ms, found
    return found


def kind_of(job: Job) -> Kind:
    """On what the rights over a gang depend, beside its team."""
    return Kind(int(job.job_class), tuple(job.by_model)) if job.by_model else PLAIN[job.job_class]


def _evictable(
    turn: Turn, team: Team, *, protects: bool, model: str
) -> tuple[int, dict[Kind, Evictable]]:
    found: dict[Kind, Evictable] = {}
    until_ms = NEVER
    policy = turn.state.cell.policy
    for job in team.gangs.values():
        if not job.spec.preemptible or job.stop_cause:
            continue
        if protects:
            protected_ms = protected_until_ms(policy, job)
            if protected_ms > turn.now_ms:
                until_ms = min(until_ms, protected_ms)
                continue
        kind = kind_of(job)
        gpus, largest = found.get(kind, NOBODY)
        more = job.by_model[model] if model else job.gpus
        found[kind] = Evictable(gpus + more, max(largest, more))
    return until_ms, found
