"""Preemption as a transaction.

Prove the whole placement, tell the victims, keep what they leave for the claimant.

Who may take from whom stands in rights.py.

Victims: lowest class first, then least GPU-time lost, then fewest GPUs, then fewest jobs. A greedy
choice is pruned of everybody it does not need; where the candidates are few, every smaller choice
is tried too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gangline.events import decisions as d
from gangline.events.decisions import Certificate, Health, Service
from gangline.events.spec import JobClass
from gangline.scheduler.core import quota
from gangline.scheduler.core.assumed import grace_ms, protected_until_ms, run_ms
from gangline.scheduler.core.entities import Job, Reservation
from gangline.scheduler.core.fleet import Domain, Place, Shape, bits, mask_of, take_bits
from gangline.scheduler.core.keeping import Keeping, ends_ms
from gangline.scheduler.core.names import gpus_in_words
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.policy import HOUR
from gangline.scheduler.core.rights import (
    Reach,
    leaving_gpus,
    may_claim,
    most_of_any,
    right_over,
)
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn

FEW: Final = 10


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
        self.shape = shape
        self.tree = turn.state.tree_for(shape.selector)
        self.keeping = Keeping(turn, claimant, order)
        self.ignore_protection = False
        self._rights: dict[tuple[str, int], str] = {}

    def may(self, victim: Job) -> str:
        """The right over a victim as things stand in the search, protection included."""
        cause = self._right(victim)
        if not cause or self.ignore_protection or self.claimant.job_class is JobClass.URGENT:
            return cause
        return (
            "" if protected_until_ms(self.state.cell.policy, victim) > self.turn.now_ms else cause
        )

    def _right(self, victim: Job) -> str:
        """The right over a victim, whatever protects it for now."""
        if not victim.spec.preemptible or victim.final or victim.id == self.claimant.claimant:
            return ""
        return self._right_over(victim.spec.team, victim.job_class)

    def _right_over(self, team: str, job_class: int) -> str:
        """The same for all of one team and class, until somebody's use changes."""
        key = (team, int(job_class))
        cause = self._rights.get(key)
        if cause is None:
            claimant = self.claimant
            cause = self._rights[key] = right_over(
                self.state, claimant, team, job_class, gpus=claimant.gpus
            )
        return cause

    def in_reach(self) -> bool:
        """Whether enough GPUs are free, leaving, or held by those whom it may evict."""
        claimant = self.claimant
        wanted = claimant.gpus - self.keeping.left(self.tree).free
        if wanted <= 0:
            return True
        wanted -= leaving_gpus(self.turn)
        if wanted <= 0:
            return True
        protects = claimant.job_class is not JobClass.URGENT and not self.ignore_protection
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
        for team in state.teams.values():
            for job in team.gangs.values():
                if job.stop_cause or not self._right(job):
                    continue
                lost = lost_gpu_ms(job, now_ms)
                found.append(Victim((int(job.job_class), lost, job.gpus, -job.number), job, "?"))
        found.sort(key=lambda victim: victim.rank)
        return found

    # --- what if ----------------------------------------------------------------------------------

    def free(self, job: Job) -> None:
        """As if the gang were out."""
        for seat in job.seats:
            node = self.state.nodes.get(seat.node)
            if node is None or not node.usable:
                continue
            back = mask_of(seat.gpus) & node.usable & ~node.claimed
            self.state.set_avail(node, node.avail | back)
        self._use(job, -job.gpus)
        self.keeping.leave(job)

    def unfree(self, job: Job) -> None:
        """As if it were in again."""
        for seat in job.seats:
            node = self.state.nodes.get(seat.node)
            if node is not None and node.usable:
                self.state.set_avail(node, node.avail & ~mask_of(seat.gpus))
        self._use(job, job.gpus)
        self.keeping.return_(job)

    def _use(self, job: Job, gpus: int) -> None:
        self._rights.clear()
        for team in self.state.chain(job.spec.team):
            team.used += gpus
        self.state.teams[job.spec.team].own += gpus
        if job.stop_cause:
            # It was leaving anyway, and is not to be counted off twice.
            self.state.pledge(job.spec.team, -gpus)

    def place(self, domain: Domain | None) -> Place | None:
        """The proven place, with what is free in the search, in a domain or anywhere."""
        spec = self.claimant.spec
        if quota.barrier(self.state, spec.team, spec.gpus, preemptible=spec.preemptible):
            return None
        if quota.breaks_claim(self.state, self.claimant):
            return None
        within = domain or self.tree.root
        if not self.tree.holds(within, self.shape):
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
        candidates = self.candidates()
        reach = self.tree.root.free + sum(victim.job.gpus for victim in candidates)
        if not candidates or reach < self.claimant.gpus:
            return None
        choices = []
        for domain, inside in self._domains(candidates):
            choice = self._greedy(domain, inside)
            if choice is not None and len(inside) <= FEW:
                choice = self._exact(domain, inside, choice)
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
            cause = self.may(victim.job) if victim.cause else ""
            if victim.cause and not cause:
                continue
            self.free(victim.job)
            chosen.append(victim._replace(cause=cause))
            place = self.place(domain)
            if place is not None:
                break
        if place is not None:
            place = self._spare(domain, chosen, place)
        choice = None if place is None else Choice(cost_of(chosen), tuple(chosen), place)
        for victim in chosen:
            self.unfree(victim.job)
        return choice

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

    def _exact(self, domain: Domain | None, candidates: list[Victim], best: Choice) -> Choice:
        """Try every choice that is cheaper than the best so far."""
        stack: list[Victim] = []

        def descend(start: int, incumbent: Choice) -> Choice:
            for index in range(start, len(candidates)):
                victim = candidates[index]
                cause = self.may(victim.job) if victim.cause else ""
                if victim.cause and not cause:
                    continue
                stack.append(victim._replace(cause=cause))
                if cost_of(stack) < incumbent.cost:
                    self.free(victim.job)
                    place = self.place(domain)
                    if place is not None:
                        incumbent = Choice(cost_of(stack), tuple(stack), place)
                    else:
                        incumbent = descend(index + 1, incumbent)
                    self.unfree(victim.job)
                stack.pop()
            return incumbent

        return descend(0, best)


def _in_words(choice: Choice, domain: Domain | None) -> str:
    """A choice that was not taken."""
    evicted = [victim.job for victim in choice.victims if victim.cause]
    gangs = "1 gang" if len(evicted) == 1 else f"{len(evicted)} gangs"
    where = f"{domain.level} {'/'.join(domain.path)}" if domain else "the fleet"
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


def claim(turn: Turn, job: Job, shape: Shape, order: Order) -> bool:
    """Evict for the job if it has the right and its whole place is proven; whether it did."""
    state = turn.state
    if not may_claim(state, job):
        return False
    search = Search(turn, job, shape, order)
    choice = search.best()
    # Whoever waits only for gangs that leave anyway needs no rights.
    if choice is None or not any(victim.cause for victim in choice.victims):
        return False
    if not _within_cap(turn, job, choice):
        return False
    _evict(turn, job, choice)
    return True


def _within_cap(turn: Turn, job: Job, choice: Choice) -> bool:
    """The operator's cap on preempted GPU-hours an hour; `urgent` is not bound by it."""
    cap = turn.state.cell.policy["preempted_gpu_hours_cap"]
    if cap < 0 or job.job_class is JobClass.URGENT:
        return True
    since = turn.now_ms - HOUR
    spent = sum(s.gpu_ms for s in turn.state.cell.preempted if s.at_ms > since)
    for victim in choice.victims:
        if victim.cause and victim.job.started_ms:
            spent += victim.job.gpus * (turn.now_ms - victim.job.started_ms)
    return spent <= cap * HOUR


def _evict(turn: Turn, job: Job, choice: Choice) -> None:
    """Tell the victims, and keep the place."""
    state = turn.state
    if job.id in state.reservations:
        turn.decide(d.ReservationReleased(job=job.id, why="changed"))
    free_before = {node.name: node.avail for node, _ in choice.place.parts}
    latest = turn.now_ms
    certificate = Certificate(
        binding="cheapest victims of a proven place",
        tie=str(choice.cost),
        alternative=choice.rejected,
        policy_version=state.cell.policy_version,
    )
    for victim in choice.victims:
        if victim.cause:
            grace = grace_ms(state.cell.policy, victim.job) if victim.job.started_ms else 0
            turn.decide(
                d.GangPreempted(
                    job=victim.job.id,
                    attempt=victim.job.attempt,
                    claimant=job.id,
                    claimant_attempt=job.attempt + 1,
                    cause=victim.cause,
                    grace_ms=grace,
                    certificate=certificate,
                )
            )
        latest = max(latest, ends_ms(state, victim.job, turn.now_ms))
    seats = tuple(
        d.ReservedSeat(
            node=node.name, gpus=count, held=bits(take_bits(free_before[node.name], count))
        )
        for node, count in choice.place.parts
    )
    turn.decide(
        d.ReservationPlanned(
            job=job.id,
            kind="claim",
            start_ms=latest,
            end_ms=latest + run_ms(state.cell.policy, job),
            seats=seats,
            victims=tuple(victim.job.id for victim in choice.victims),
        )
    )


# --- when the victims are out ---------------------------------------------------------------------


def settle(turn: Turn) -> list[Reservation]:
    """Claims that are complete and may start; those whose place was broken are let go."""
    ready = []
    for reservation in list(turn.state.reservations.values()):
        if reservation.kind != "claim" or reservation.victims:
            continue
        verdict = _verdict(turn.state, reservation)
        if verdict == "ready":
            ready.append(reservation)
        elif verdict != "wait":
            turn.decide(d.ReservationReleased(job=reservation.job, why=verdict))
    return ready


def _verdict(state: State, reservation: Reservation) -> str:
    """`ready`, `wait` (a node is silent, and may be heard again), or why the place is broken."""
    job = state.jobs[reservation.job]
    verdict = "ready"
    if quota.barrier_without_claim(state, job, quota.projected) is not None:
        return "withdrawn"
    if quota.barrier_without_claim(state, job) is not None:
        verdict = "wait"  # for gangs of its own branch that are leaving
    for seat in reservation.seats:
        node = state.nodes.get(seat.node)
        if node is None or node.health in (Health.LOST, Health.QUARANTINED):
            return "fault"
        if node.unready_until_ms or seat.held & ~node.sound:
            return "fault"
        if node.service is not Service.OPEN:
            return "withdrawn"
        if seat.held.bit_count() < seat.gpus:
            return "fault"
        if node.silent_ms:
            verdict = "wait"
    return verdict
