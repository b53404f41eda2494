"""The order of the queue: a total one, that ends in the order of acceptance.

Priority class; then large gangs past their bound; then teams that use less than their guarantee;
then teams below their share; then age; then the job's number. Shares are what decayed past use
would be, split over the teams with demand by weight (water-filling, level by level of the tree); a
team is below its share or not, which is no ratio.
"""

from __future__ import annotations

from gangline.scheduler.core.entities import Job, Team
from gangline.scheduler.core.state import State
from gangline.scheduler.core.usage import water_fill

OrderKey = tuple[int, int, int, tuple[int, ...], int, int]


def is_past_bound(state: State, job: Job, now_ms: int) -> bool:
    """Whether a large gang has waited for longer than its bound."""
    policy = state.cell.policy
    return (
        job.gpus >= policy["large_gang_gpus"]
        and now_ms - job.queued_ms >= policy["large_gang_wait_bound"]
    )


class Order:
    """The order at one moment.

    Shares are as of the last recorded decision, so that time alone changes nothing.
    """

    def __init__(self, state: State, now_ms: int) -> None:
        """Look at the state now; use that changes later changes only the keys of its own team."""
        self.state = state
        self.now_ms = now_ms
        self._shares: dict[str, tuple[int, ...]] | None = None

    def key(self, job: Job) -> OrderKey:
        """Smaller comes first."""
        team = self.state.teams[job.spec.team]
        return (
            -int(job.job_class),
            0 if is_past_bound(self.state, job, self.now_ms) else 1,
            0 if team.used < team.guaranteed else 1,
            self.share(team.name),
            job.submitted_ms,
            job.number,
        )

    def share(self, team: str) -> tuple[int, ...]:
        """For each team from the root down to this one: 0 below its share, 1 not."""
        if self._shares is None:
            self._shares = shares(self.state)
        return self._shares[team]


def shares(state: State) -> dict[str, tuple[int, ...]]:
    """Below (0) or not below (1) its share, for each team, outermost ancestor first."""
    result: dict[str, tuple[int, ...]] = {}
    demands = demand_by_team(state)
    half_life = state.cell.policy["usage_half_life"]

    def descend(children: list[Team], capacity: int, above: tuple[int, ...]) -> None:
        claims = [(c.weight, demands[c.name]) for c in children]
        entitled = water_fill(capacity, claims)
        use = [
            state.usage_of(c, half_life) if wanted else 0
            for c, (_, wanted) in zip(children, claims, strict=True)
        ]
        total_use, total_entitled = sum(use), sum(entitled)
        for child, used, share in zip(children, use, entitled, strict=True):
            below = used * total_entitled < share * total_use or (used == 0 and share > 0)
            flags = (*above, 0 if below else 1)
            result[child.name] = flags
            descend(child.children, share, flags)

    descend(state.root.children, state.capacity, ())
    return result


def demand_by_team(state: State) -> dict[str, int]:
    """GPUs that each branch holds or waits for."""
    demands: dict[str, int] = {}

    def add(team: Team) -> int:
        own = team.own + team.wanted
        demands[team.name] = own + sum(add(child) for child in team.children)
        return demands[team.name]

    for team in state.root.children:
        add(team)
    return demands
