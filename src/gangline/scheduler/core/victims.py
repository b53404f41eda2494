"""The search for victims: the cheapest of whom the claimant's whole place is proven.

Who may take from whom stands in rights.py.

Victims: lowest class first, then least GPU-time lost, then fewest GPUs, then fewest jobs. Greedy
choices, gang by gang and node by node, are pruned of everybody they do not need; then cheaper ones
are tried, all where the candidates are few, a bounded number where they are many.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final, NamedTuple

from gangline.events.spec import JobClass
from gangline.scheduler.core import quota
from gangline.scheduler.core.assumed import protected_until_ms
from gangline.scheduler.core.entities import Job, Kind, Node, Team
from gangline.scheduler.core.fleet import Domain, Place, Shape, mask_of
from gangline.scheduler.core.keeping import Keeping
from gangline.scheduler.core.names import gpus_in_words, place_in_words
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.rights import (
    Reach,
    evictable,
    kind_of,
    leaving_gpus,
    most_of_any,
    right_over,
)
from gangline.scheduler.core.turn import Turn

FEW: Final = 10
"""Up to so many candidates, every choice that could be cheaper is tried."""
ANY: Final = 0
MOST_TRIES: Final = 128
MANY: Final = 512
"""Where there are more, so many tries are shared by them: the more candidates, the fewer."""


class Victim(NamedTuple):
    """A gang that may be evicted, or is leaving.

    Cause: `class`, `reclaim`, or empty when it leaves anyway.
    """

    rank: tuple[int, int, int, int]
    job: Job
    cause: str


class Choice(NamedTuple):
    """Victims and the place that their leaving makes, and the best other choice in words."""

    cost: tuple[int, ...]
    victims: tuple[Victim, ...]
    place: Place
    rejected: str = ""


def lost_gpu_ms(victim: Job, now_ms: int) -> int:
    """GPU-time that evicting it really loses: nothing for a job that saves in its grace."""
    if victim.can_save or not victim.started_ms:
        return 0
    return victim.gpus * (now_ms - victim.started_ms + victim.resumed_ms - victim.saved_ms)


class Search:
    """The search for victims for one claimant."""

    def __init__(self, turn: Turn, claimant: Job, shape: Shape, order: Order) -> None:
        """For a claimant that does not fit as things stand."""
        self.turn = turn
        self.state = turn.state
        self.claimant = claimant
        self.model = turn.state.models.asked_by(claimant.spec)
        self.shape = shape
        self.tree = turn.state.tree_for(shape.selector)
        self.keeping = Keeping(turn, claimant, order)
        self.ignore_protection = False
        self.thorough = True
        self._tries = 0
        self._hope = False
        self._rights: dict[tuple[str, Kind], str] = {}

    def may(self, victim: Job) -> str:
        """The right over a victim as things stand in the search, protection included."""
        cause = self._right(victim)
        if not cause or not self._protects():
            return cause
        return (
            "" if protected_until_ms(self.state.cell.policy, victim) > self.turn.now_ms else cause
        )

    def _right(self, victim: Job) -> str:
        """The right over a victim, whatever protects it for now."""
        if not victim.spec.preemptible or victim.final or victim.id == self.claimant.claimant:
            return ""
        return self._right_over(victim.spec.team, kind_of(victim))

    def _right_over(self, team: str, kind: Kind) -> str:
        """The same for all of one team and kind, until somebody's use changes."""
        key = (team, kind)
        cause = self._rights.get(key)
        if cause is None:
            claimant = self.claimant
            cause = self._rights[key] = right_over(
                self.state, claimant, team, kind, gpus=claimant.gpus
            )
        return cause

    def _protects(self) -> bool:
        """Whether gangs that have not run their minimum time are spared."""
        return self.claimant.job_class is not JobClass.URGENT and not self.ignore_protection

    def in_reach(self) -> bool:
        """Whether enough GPUs are free, leaving, or held by those whom it may evict."""
        claimant = self.claimant
        wanted = claimant.gpus - self.keeping.left(self.tree).free
        if wanted <= 0:
            return True
        wanted -= leaving_gpus(self.turn)
        if wanted <= 0:
            return True
        protects = self._protects()
        if wanted > most_of_any(self.turn, claimant, protects=protects):
            return False
        return wanted <= Reach(self.turn, claimant, protects=protects).most()

    def candidates(self) -> list[Victim]:
        """Everybody who might leave for the claimant, cheapest first.

        Rights are judged again when somebody is chosen, as everybody who leaves changes them.
        """
        state = self.state
        taken = {v for r in state.reservations.values() for v in r.victims}
        found = [
            Victim((-1, 0, job.gpus, job.number), job, "")
            for job in state.leaving.values()
            if job.id not in taken
        ]
        now_ms = self.turn.now_ms
        for team in quota.teams_of(state, self.model).values():
            if not team.gangs or not self._any_right_over(team):
                continue
            for job in team.gangs.values():
                if job.stop_cause or not self.may(job):
                    continue
                lost = lost_gpu_ms(job, now_ms)
                found.append(Victim((int(job.job_class), lost, job.gpus, -job.number), job, "?"))
        found.sort(key=lambda victim: victim.rank)
        return found

    def _any_right_over(self, team: Team) -> bool:
        """Whether any gang of the team may be evicted for it."""
        kinds = evictable(self.turn, team, protects=self._protects(), model=self.model)
        return any(self._right_over(team.name, kind) for kind in kinds)

    # --- what if ----------------------------------------------------------------------------------

    def free(self, job: Job) -> None:
        """As if the gang were out."""
        for seat in job.seats:
            node = self.state.nodes.get(seat.node)
            if node is None or not node.usable:
                continue
            back = mask_of(seat.gpus) & node.usable & ~node.claimed
            self.state.set_avail(node, node.avail | back)
        self._use(job, -1)
        self.keeping.leave(job)

    def unfree(self, job: Job) -> None:
        """As if it were in again."""
        for seat in job.seats:
            node = self.state.nodes.get(seat.node)
            if node is not None and node.usable:
                self.state.set_avail(node, node.avail & ~mask_of(seat.gpus))
        self._use(job, 1)
        self.keeping.return_(job)

    def _use(self, job: Job, sign: int) -> None:
        self._rights.clear()
        for team in self.state.chain(job.spec.team):
            team.used += sign * job.gpus
        self.state.teams[job.spec.team].own += sign * job.gpus
        if job.by_model:
            self.state.models.use(job.spec.team, job.by_model, sign)
        if job.stop_cause:
            # It was leaving anyway, and is not to be counted off twice.
            self.state.pledge_gang(job, -sign)

    def place(self, domain: Domain | None) -> Place | None:
        """The proven place, with what is free in the search, in a domain or anywhere."""
        if not self.tree.holds(domain or self.tree.root, self.shape):
            return None
        if quota.barrier(self.state, self.claimant.spec):
            return None
        if quota.breaks_claim(self.state, self.claimant):
            return None
        found = self.tree.find(self.shape, within=domain)
        if found is not None and not self.keeping.allows(found):
            with self.keeping.without_kept(self.tree):
                found = self.tree.find(self.shape, within=domain)
        return found

    # --- choosing ---------------------------------------------------------------------------------

    def best(self) -> Choice | None:
        """The cheapest victims for which the whole placement is proven."""
        if not self.in_reach():
            return None
        candidates = [v for v in self.candidates() if self.keeping.gains_from(v.job)]
        reach = self.keeping.left(self.tree).free + sum(v.job.gpus for v in candidates)
        if not candidates or reach < self.claimant.gpus:
            return None
        choices = []
        for domain, inside in self._domains(candidates):
            choice = self._greedy(domain, inside)
            if choice is not None and self.thorough:
                choice = self._improved(domain, inside, choice)
            if choice is not None:
                choices.append((choice, domain))
        if not choices:
            return None
        choices.sort(key=lambda found: found[0].cost)
        rejected = _in_words(*choices[1]) if len(choices) > 1 else "no other domain gives its place"
        return choices[0][0]._replace(rejected=rejected)

    def _domains(self, candidates: list[Victim]) -> list[tuple[Domain | None, list[Victim]]]:
        """Where to look.

        Each domain of the required level that could hold the gang, else the whole fleet.
        """
        depth = self.tree.depth_of(self.shape.level)
        if not depth or depth >= len(self.tree.levels):
            return [(None, candidates)]
        by_domain: dict[Domain, list[Victim]] = {}
        gpus: dict[Domain, int] = {}
        for victim in candidates:
            for seat in victim.job.seats:
                domain = self._ancestor(seat.node, depth)
                if domain is None:
                    continue
                inside = by_domain.setdefault(domain, [])
                gpus[domain] = gpus.get(domain, 0) + len(seat.gpus)
                if not inside or inside[-1].job is not victim.job:
                    inside.append(victim)
        return [
            (domain, by_domain[domain])
            for domain in self.tree.levels[depth]
            if domain in by_domain and domain.free + gpus[domain] >= self.shape.gpus
        ]

    def _ancestor(self, node: str, depth: int) -> Domain | None:
        domain = self.tree.leaf_of.get(node)
        while domain is not None and domain.depth > depth:
            domain = domain.parent
        return domain

    def _greedy(self, domain: Domain | None, candidates: list[Victim]) -> Choice | None:
        """Add victims, cheapest first, until the place is proven.

        Then spare whoever is not needed.
        """
        chosen: list[Victim] = []
        place: Place | None = None
        for victim in candidates:
            if not self._choose(victim, chosen):
                continue
            self.free(victim.job)
            place = self.place(domain)
            if place is not None:
                break
        if place is not None:
            place = self._spare(domain, chosen, place)
        choice = None if place is None else Choice(cost_of(chosen), tuple(chosen), place)
        for victim in chosen:
            self.unfree(victim.job)
        return choice

    def _node_by_node(self, candidates: list[Victim]) -> list[Victim]:
        """Those who would have to go to make single nodes roomy enough, the cheapest node first."""
        on: dict[str, list[Victim]] = {}
        for victim in candidates:
            for seat in victim.job.seats:
                on.setdefault(seat.node, []).append(victim)
        nodes = []
        for name, there in on.items():
            node = self.state.nodes.get(name)
            chosen = [] if node is None else self._to_clear(node, there)
            if node is not None and chosen:
                nodes.append((cost_of(chosen), node.order, chosen))
        nodes.sort(key=itemgetter(0, 1))
        return list({v.job.id: v for _, _, chosen in nodes for v in chosen}.values())

    def _to_clear(self, node: Node, victims: list[Victim]) -> list[Victim]:
        """The cheapest of a node's gangs that leave enough of it; none where they cannot."""
        free = node.avail.bit_count()
        chosen: list[Victim] = []
        for victim in victims:
            if free >= self.shape.per_node:
                break
            seat = victim.job.seats[node.gangs[victim.job.id]]
            free += (mask_of(seat.gpus) & node.usable).bit_count()
            chosen.append(victim)
        return chosen if free >= self.shape.per_node else []

    def _spare(self, domain: Domain | None, chosen: list[Victim], place: Place) -> Place:
        for victim in sorted(chosen, key=lambda v: v.rank, reverse=True):
            self.unfree(victim.job)
            without = self.place(domain)
            if without is None:
                self.free(victim.job)
            else:
                chosen.remove(victim)
                place = without
        return self.place(domain) or place

    def _improved(self, domain: Domain | None, candidates: list[Victim], best: Choice) -> Choice:
        """The cheapest choice that can be found from one that is proven."""
        if 0 < self.shape.nodes <= FEW:
            other = self._greedy(domain, self._node_by_node(candidates))
            if other is not None and other.cost < best.cost:
                best = other
        return self._cheaper(domain, candidates, best)

    def _cheaper(self, domain: Domain | None, candidates: list[Victim], best: Choice) -> Choice:
        """Try every choice that is cheaper where the candidates are few.

        Else those of one victim, of two, and so on, as far as the tries go.
        """
        if len(candidates) <= FEW:
            self._tries = 1 << FEW
            return self._of(ANY, domain, candidates, 0, [], best)
        self._tries = min(MOST_TRIES, MANY // len(candidates))
        for count in range(1, len(candidates) + 1):
            self._hope = False
            best = self._of(count, domain, candidates, 0, [], best)
            if not self._hope:
                break
        return best

    def _of(
        self,
        count: int,
        domain: Domain | None,
        candidates: list[Victim],
        start: int,
        chosen: list[Victim],
        best: Choice,
    ) -> Choice:
        """The best of those chosen with so many more of the candidates from `start` on, or ANY."""
        rest = max(ANY, count - 1)
        for index in range(start, len(candidates) - rest):
            self._tries -= 1
            if self._tries < 0:
                break
            if not self._choose(candidates[index], chosen):
                continue
            if cost_of(chosen) < best.cost:
                self._hope = True
                self.free(chosen[-1].job)
                place = self.place(domain) if count <= 1 else None
                if place is not None:
                    best = Choice(cost_of(chosen), tuple(chosen), place)
                elif count != 1:
                    best = self._of(
                        max(ANY, count - 1), domain, candidates, index + 1, chosen, best
                    )
                self.unfree(chosen[-1].job)
            chosen.pop()
        return best

    def _choose(self, victim: Victim, chosen: list[Victim]) -> bool:
        """Add a victim, if there is a right over it as things stand in the search."""
        cause = self.may(victim.job) if victim.cause else ""
        if victim.cause and not cause:
            return False
        chosen.append(victim._replace(cause=cause))
        return True


def _in_words(choice: Choice, domain: Domain | None) -> str:
    """A choice that was not taken."""
    evicted = [victim.job for victim in choice.victims if victim.cause]
    gangs = "1 gang" if len(evicted) == 1 else f"{len(evicted)} gangs"
    where = place_in_words(domain.level, domain.path) if domain else "the fleet"
    return f"{gangs} of {gpus_in_words(sum(job.gpus for job in evicted))} in {where}"


def cost_of(victims: list[Victim]) -> tuple[int, ...]:
    """What evicting them costs, class by class from the highest: GPU-time lost, GPUs, jobs."""
    costs = [[0, 0, 0] for _ in JobClass]
    for victim in victims:
        if victim.cause:
            cost = costs[int(victim.job.job_class)]
            cost[0] += victim.rank[1]
            cost[1] += victim.job.gpus
            cost[2] += 1
    ordered = [number for cost in reversed(costs) for number in cost]
    return (*ordered, len(victims))
