"""The cycle: who starts now, for whom others leave, who gets a plan.

Jobs that want the same (a group) get the same answer, so each group is asked once until something
makes room: its head is tried in order; a place that leaves reservations alone starts it; else its
rights of eviction are tried; else it may get a plan. A group that was answered no is asked again
only after `State.freed`, or when a job joins it.

The cycle runs at the end of every step that has read its inputs to their ends. What makes it ask
again stands in the fold (`freed`, timers), never in what an earlier cycle found out, so that a
replay of the batches alone decides the same.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from gangline.events import decisions as d
from gangline.events.decisions import Certificate
from gangline.scheduler.core import claims, plans, quota, rights
from gangline.scheduler.core.assumed import run_ms
from gangline.scheduler.core.entities import Job, Reservation
from gangline.scheduler.core.fit import shape_of
from gangline.scheduler.core.fleet import ROOT_LEVEL, Place, Shape, bits, lowest_bits
from gangline.scheduler.core.keeping import Keeping
from gangline.scheduler.core.keys import GroupKey
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.prospects import Prospects
from gangline.scheduler.core.rejected import runner_up
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn

PLACED: Final = "placed"
GROUP_WAITS: Final = "group waits"
JOB_WAITS: Final = "job waits"


def cycle(turn: Turn) -> None:
    """Decide until nothing more can start."""
    for ready in claims.settle(turn):
        start_claim(turn, ready)
    plans.drop_stale(turn)
    while _pass(turn):
        pass
    plans.drop_late(turn)


def _pass(turn: Turn) -> bool:
    """Try every group that has no answer yet; whether any had none."""
    state = turn.state
    asked = [group for group in state.groups if must_ask(state, group)]
    if not asked:
        return False
    turn.considered += len(asked)
    order = Order(state, turn.now_ms)
    prospects = Prospects(turn, order, asked)
    hopeful = []
    for group in asked:
        if prospects.any(group):
            hopeful.append(group)
        else:
            state.answered[group] = state.epoch
    if hopeful:
        Asking(turn, order, hopeful).run()
    return True


def must_ask(state: State, group: GroupKey) -> bool:
    """Whether a group's answer may be another one than it was.

    More room is no news for gangs that want more than all that is free, unless they may claim.
    """
    answered = state.answered.get(group, -1)
    if answered == state.epoch:
        return False
    head = state.groups[group][0][2]
    known = max(state.all_epoch, state.team_epochs.get(head.spec.team, 0))
    if answered < known or head.gpus <= state.tree.root.free or rights.may_claim(state, head):
        return True
    state.answered[group] = state.epoch
    return False


class Asking:
    """One pass over the groups that are to be asked, their jobs in order.

    A group is closed when no job of it can start. Where only what is kept for others stands in the
    way, those of its jobs that are out sooner are asked too. The others may still get plans.
    """

    def __init__(self, turn: Turn, order: Order, asked: list[GroupKey]) -> None:
        """For groups that have no answer yet."""
        self.turn = turn
        self.state = turn.state
        self.epoch = turn.state.epoch
        self.order = order
        self.shortest: dict[GroupKey, int] = {}
        self.plans_left = True
        self.heap = [(self.order.key(self.state.groups[g][0][2]), g, 0) for g in asked]
        heapify(self.heap)
        self.asked_at: dict[GroupKey, int] = {}

    def run(self) -> None:
        """Ask until every group has its answer."""
        while self.heap:
            key, group, index = heappop(self.heap)
            self.asked_at.setdefault(group, len(self.turn.decisions))
            members = self.state.groups.get(group, [])
            if index >= len(members):
                self._answered(group)
                continue
            job = members[index][2]
            now_key = self.order.key(job)
            if now_key > key:
                heappush(self.heap, (now_key, group, index))
            elif self._may_start(group, job):
                self._try(group, index, job)
            else:
                self._plan(group, index, job)

    def _answered(self, group: GroupKey) -> None:
        """It has its answer, unless one of its plans was broken since it was first asked."""
        state, since = self.state, self.asked_at.get(group, 0)
        for name, found in self.turn.broken.items():
            if found > since and state.jobs[name].group == group:
                return  # the next pass asks it again
        if group in state.groups:
            state.answered[group] = self.epoch

    def _may_start(self, group: GroupKey, job: Job) -> bool:
        """Whether what keeps the jobs before it in its group from starting may let it start."""
        shortest = self.shortest.get(group)
        if shortest is None:
            return True
        if not shortest:
            return False
        has_plan = job.id in self.state.reservations
        return has_plan or run_ms(self.state.cell.policy, job) < shortest

    def _try(self, group: GroupKey, index: int, job: Job) -> None:
        outcome = attempt(self.turn, job, self.order)
        if outcome == PLACED:
            self._push(group, index)
            return
        if outcome == GROUP_WAITS:
            self.shortest[group] = 0
        else:
            runs_ms = run_ms(self.state.cell.policy, job)
            self.shortest[group] = min(runs_ms, self.shortest.get(group, runs_ms))
        self._push(group, index + 1)

    def _plan(self, group: GroupKey, index: int, job: Job) -> None:
        """It cannot start; it gets a plan while there are any to be had."""
        if job.id not in self.state.reservations and not plans.among_first(
            self.turn, job, self.order
        ):
            self.plans_left = False
        elif quota.barrier(self.state, job.spec) is None:
            plans.plan(self.turn, job, shape_of(job), self.order)
        self._push(group, index + 1)

    def _push(self, group: GroupKey, index: int) -> None:
        """The next of the group for which there is anything to ask."""
        members = self.state.groups.get(group, ())
        for at in range(index, len(members)):
            job = members[at][2]
            if self.plans_left or job.id in self.state.reservations or self._may_start(group, job):
                heappush(self.heap, (self.order.key(job), group, at))
                return
        self._answered(group)


def attempt(turn: Turn, job: Job, order: Order) -> str:
    """Start it, evict for it, or plan for it."""
    state = turn.state
    shape = shape_of(job)
    stopped = quota.barrier(state, job.spec)
    kept_off = False
    if stopped is None:
        tree = state.tree_for(shape.selector)
        if tree.fits(shape):
            waits = quota.breaks_claim(state, job)
            place = None if waits else _free_place(turn, job, shape, order)
            if place is not None:
                start(turn, job, place, order)
                return PLACED
            kept_off = True
    if claims.claim(turn, job, shape, order):
        return PLACED
    if stopped is None:
        plans.plan(turn, job, shape, order)
    elif job.id in state.reservations:
        turn.decide(d.ReservationReleased(job=job.id, why="changed"))
    return JOB_WAITS if kept_off else GROUP_WAITS


def _free_place(turn: Turn, job: Job, shape: Shape, order: Order) -> Place | None:
    """The best place that leaves alone what is kept from the job."""
    keeping = Keeping(turn, job, order)
    tree = turn.state.tree_for(shape.selector)
    if not keeping.leaves(tree, shape):
        return None
    place = tree.find(shape)
    if place is not None and not keeping.allows(place):
        with keeping.without_kept(tree):
            place = tree.find(shape)
    return place


def start(turn: Turn, job: Job, place: Place, order: Order) -> None:
    """The gang holds its place from now on; its members are to make ready."""
    chosen = tuple((node.name, bits(lowest_bits(node.avail, count))) for node, count in place.parts)
    shape = shape_of(job)
    certificate = Certificate(
        binding="lowest domain that holds it, fullest first",
        tie=str(order.key(job)),
        alternative=runner_up(turn.state.tree_for(shape.selector), shape, place),
        policy_version=turn.state.cell.policy_version,
    )
    _place(turn, job, chosen, certificate)
    plans.ask_broken(turn, [name for name, _ in chosen], order)


def start_claim(turn: Turn, ready: Reservation) -> None:
    """All victims are out: the claimant takes exactly what was proven and kept."""
    job = turn.state.jobs[ready.job]
    chosen = tuple((seat.node, bits(seat.held)) for seat in ready.seats)
    certificate = Certificate(
        binding="kept for it while its victims left",
        policy_version=turn.state.cell.policy_version,
    )
    _place(turn, job, chosen, certificate)


Chosen = tuple[tuple[str, tuple[int, ...]], ...]


def _place(turn: Turn, job: Job, chosen: Chosen, certificate: Certificate) -> None:
    state = turn.state
    seats = []
    rank = 0
    for name, gpus in sorted(chosen, key=lambda part: state.nodes[part[0]].rank):
        seats.append(d.Seat(node=name, gpus=gpus, first_rank=rank))
        rank += len(gpus)
    level, crossed = span(turn, [name for name, _ in chosen])
    team = state.teams[job.spec.team]
    before = max(0, team.used - team.guaranteed)
    after = max(0, team.used + job.gpus - team.guaranteed)
    reserved = job.id in state.reservations
    turn.decide(
        d.GangPlaced(
            job=job.id,
            attempt=job.attempt + 1,
            seats=tuple(seats),
            level=level,
            crossed=crossed,
            borrowed=after - before,
            certificate=certificate,
        )
    )
    if reserved:
        turn.decide(d.ReservationReleased(job=job.id, why="started"))


def span(turn: Turn, names: list[str]) -> tuple[str, int]:
    """The lowest level that holds all the nodes.

    And how many domains of the level below it they use.
    """
    if len(names) == 1:
        return "node", 1
    tree = turn.state.tree
    domains = dict.fromkeys(tree.leaf_of[name] for name in names)
    crossed = len(names)
    while len(domains) > 1:
        crossed = len(domains)
        above = [domain.parent for domain in domains]
        domains = dict.fromkeys(parent for parent in above if parent is not None)
    lowest = next(iter(domains))
    return (lowest.level or ROOT_LEVEL), crossed
