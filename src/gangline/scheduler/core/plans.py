"""Reservations: a time and a place for what cannot start now, and who must keep off.

A plan is made for the first few waiting jobs in order that have a known time to start: when the
gangs that run are sure to have left (their declared limit and grace, or the policy's default,
doubled each time it is outlived), place the gang in what is free then. Later jobs may use the hole
when they are sure to leave before it. A plan binds jobs behind it in order; the firm plan of a
large gang past its bound binds everybody. An announced maintenance binds everybody too. A plan
expires at its time, and is made again only when gangs came or went on its own nodes: at once where
it lacks what they took, else after a while.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from heapq import merge

from gangline.events import decisions as d
from gangline.scheduler.core.apply import is_same_plan
from gangline.scheduler.core.assumed import run_ms
from gangline.scheduler.core.entities import Job, Reservation
from gangline.scheduler.core.fleet import Place, Shape, Tree
from gangline.scheduler.core.keeping import (
    Keeping,
    binds,
    ends_ms,
    in_window,
    lacking,
    plans_in_order,
    wanted_by,
)
from gangline.scheduler.core.order import Order, is_past_bound
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn

MOST_TRIES = 64
MOST_REMADE = 8
"""So often one plan is made again in a step because others take what it needs."""


# --- making plans ---------------------------------------------------------------------------------


def drop_stale(turn: Turn) -> None:
    """Let go of plans whose time has come or whose nodes are gone or out.

    A firm plan whose time has come binds until its gang has been asked, as others are asked before.
    """
    state = turn.state
    for reservation in list(state.reservations.values()):
        if reservation.kind == "claim":
            continue
        if reservation.start_ms <= turn.now_ms:
            if reservation.kind == "firm":
                state.answered.pop(state.jobs[reservation.job].group, None)
            else:
                turn.decide(d.ReservationReleased(job=reservation.job, why="expired"))
        elif state.plans_doubted and not _stands(state, reservation):
            turn.decide(d.ReservationReleased(job=reservation.job, why="fault"))
    state.plans_doubted = False
    _drop_last(turn)


def drop_late(turn: Turn) -> None:
    """Let go of firm plans whose time has come, when their gangs were asked and have no other."""
    for reservation in list(turn.state.reservations.values()):
        if reservation.kind == "firm" and reservation.start_ms <= turn.now_ms:
            turn.decide(d.ReservationReleased(job=reservation.job, why="expired"))


def _drop_last(turn: Turn) -> None:
    """When the order has changed so much that twice as many have plans as may, the last go."""
    state = turn.state
    most = 2 * state.cell.policy["reservations"]
    if len(state.reservations) <= most:
        return
    plans = plans_in_order(turn, Order(state, turn.now_ms)).plans
    for reservation in plans[most:]:
        if reservation.kind != "firm":
            turn.decide(d.ReservationReleased(job=reservation.job, why="changed"))


def _stands(state: State, reservation: Reservation) -> bool:
    for seat in reservation.seats:
        node = state.nodes.get(seat.node)
        if node is None or node.usable.bit_count() < seat.gpus:
            return False
    return True


def plan(turn: Turn, job: Job, shape: Shape, order: Order) -> None:
    """Give a job that cannot start now a time and a place, if it is among the first and has one."""
    state = turn.state
    old = state.reservations.get(job.id)
    firm = is_past_bound(state, job, turn.now_ms)
    broken = turn.broken.pop(job.id, None) is not None
    if broken:
        turn.remade[job.id] = turn.remade.get(job.id, 0) + 1
    due = old is not None and _due(turn, old, firm=firm)
    if old is not None and not due and not broken:
        return
    if old is None and not firm and not among_first(turn, job, order):
        return
    found = _earliest(turn, job, shape, order)
    if found is None:
        if old is not None and due:
            turn.decide(d.ReservationReleased(job=job.id, why="changed"))
        return
    start_ms, place = found
    planned = d.ReservationPlanned(
        job=job.id,
        kind="firm" if firm else "plan",
        start_ms=start_ms,
        end_ms=start_ms + run_ms(state.cell.policy, job),
        seats=tuple(d.ReservedSeat(node=node.name, gpus=count) for node, count in place.parts),
    )
    if not due and old is not None and is_same_plan(old, planned):
        return
    turn.decide(planned)
    ask_broken(turn, [node.name for node, _ in place.parts], order)


def _due(turn: Turn, old: Reservation, *, firm: bool) -> bool:
    """Whether a plan is to be made again, which is then decided even if it comes out the same."""
    if firm and old.kind != "firm":
        return True
    late = old.start_ms <= turn.now_ms
    return late or (old.disturbed and turn.now_ms >= turn.state.again_ms(old))


# --- plans that lack something --------------------------------------------------------------------


def ask_broken(turn: Turn, nodes: Iterable[str], order: Order) -> None:
    """Somebody took or planned for GPUs of these nodes: whose plans now lack some are asked again.

    In this step: else those behind them would keep off what can come true no more, and take what
    is really needed.
    """
    state = turn.state
    for name in dict.fromkeys(job for node in nodes for job in state.reserved_on.get(node, ())):
        plan_ = state.reservations[name]
        if plan_.kind == "claim" or turn.remade.get(name, 0) >= MOST_REMADE:
            continue
        if _is_broken(turn, plan_, order):
            turn.broken[name] = len(turn.decisions)
            state.answered.pop(state.jobs[name].group, None)


def _is_broken(turn: Turn, plan_: Reservation, order: Order) -> bool:
    """Whether a node has too little for a plan, beside those that bind it at the same time."""
    state, now_ms = turn.state, turn.now_ms
    mine = order.key(state.jobs[plan_.job])
    for name in wanted_by(state, plan_, now_ms):
        beside = [
            other
            for job in state.reserved_on[name]
            if (other := state.reservations[job]).kind != "claim"
            and _is_beside(other, plan_)
            and binds(other, order.key(state.jobs[job]), mine)
        ]
        node = state.nodes.get(name)
        free = node.avail.bit_count() if node is not None else 0
        if lacking(state, name, [plan_, *beside], now_ms, during=plan_) > free:
            return True
    return False


def _is_beside(one: Reservation, other: Reservation) -> bool:
    """Whether they are two, and want GPUs at the same time."""
    return one is not other and one.start_ms < other.end_ms and other.start_ms < one.end_ms


def among_first(turn: Turn, job: Job, order: Order) -> bool:
    """Whether there is a plan to be had for it: fewer than allowed stand before it in order."""
    most = turn.state.cell.policy["reservations"]
    keys = plans_in_order(turn, order).keys
    return len(keys) < most or order.key(job) < keys[most - 1]


Parts = tuple[tuple[str, int], ...]
Event = tuple[int, int, Parts]


def _earliest(turn: Turn, job: Job, shape: Shape, order: Order) -> tuple[int, Place] | None:
    """The earliest time at which the gang fits, and where, by the gangs' assumed ends."""
    tree = turn.state.tree_for(shape.selector)
    sweep = Sweep(turn, job, shape, tree)
    try:
        sweep.keep_off(order)
        return sweep.run()
    finally:
        sweep.undo()


class Sweep:
    """A walk through the times at which GPUs become free, on the tree's own counts.

    Undone at the end.

    free: GPUs of a node at the time reached, less what is kept there for others; may be negative.
    """

    def __init__(self, turn: Turn, job: Job, shape: Shape, tree: Tree) -> None:
        """For a gang that does not fit now."""
        self.turn = turn
        self.state = turn.state
        self.job = job
        self.shape = shape
        self.tree = tree
        self.takes_ms = run_ms(turn.state.cell.policy, job)
        self.free: dict[str, int] = {}
        self.changed: dict[str, None] = {}
        self.total = tree.root.free
        self.counted: dict[str, None] = {}
        self.later: list[Event] = []

    def keep_off(self, order: Order) -> None:
        """Take off what reservations ahead keep, until they end."""
        keeping = Keeping(self.turn, self.job, order)
        for reservation in self.state.reservations.values():
            if reservation.job == self.job.id:
                continue
            claim = reservation.kind == "claim"
            if not claim and not keeping.binds(reservation):
                continue
            other = self.state.jobs[reservation.job]
            parts = tuple((s.node, s.gpus) for s in reservation.seats)
            for seat in reservation.seats:
                # What a claim holds is not free, and of what its victims leave it takes the rest.
                self._add(seat.node, seat.held.bit_count() - seat.gpus)
            self.later.append((reservation.end_ms, other.number, parts))
        self.later.sort()
        for name in self.state.windowed:
            self._add(name, 0)

    def _add(self, name: str, gpus: int) -> None:
        """So many GPUs of a node become free."""
        free = self.free.get(name)
        if free is None:
            free = self.tree.counted.get(name)
            if free is None:
                return
        now = self.free[name] = free + gpus
        self.changed[name] = None
        self.total += max(0, now) - max(0, free)

    def _holds(self) -> bool:
        """Whether the gang may fit now; only then the tree is made to count what is free."""
        if self.total < self.shape.gpus:
            return False
        for name in self.changed:
            self.tree.count(self.state.nodes[name], max(0, self.free[name]))
        self.counted.update(self.changed)
        self.changed.clear()
        return self.tree.holds(self.tree.root, self.shape)

    def undo(self) -> None:
        """Count again what is really free."""
        for name in self.counted:
            node = self.state.nodes[name]
            self.tree.count(node, node.avail.bit_count())

    def run(self) -> tuple[int, Place] | None:
        """The first time at which the whole gang fits."""
        tries = 0
        at_ms = 0
        for event_ms, _, parts in self._events():
            if event_ms != at_ms and at_ms and self._holds():
                place = self._place(at_ms)
                tries += 1
                if place is not None or tries >= MOST_TRIES:
                    return None if place is None else (self._not_past(at_ms), place)
            at_ms = event_ms
            for name, gpus in parts:
                self._add(name, gpus)
        if not at_ms or not self._holds():
            return None
        place = self._place(at_ms)
        return None if place is None else (self._not_past(at_ms), place)

    def _not_past(self, at_ms: int) -> int:
        if at_ms > self.turn.now_ms:
            return at_ms
        return self.turn.now_ms + self.state.cell.policy["stop_timeout"]

    def _place(self, at_ms: int) -> Place | None:
        """A place at that time, on nodes that no announced maintenance takes meanwhile."""
        hidden = []
        for name in self.state.windowed:
            node = self.state.nodes.get(name)
            if node is None or not in_window(node, at_ms, at_ms + self.takes_ms):
                continue
            if self.tree.counted.get(name):
                hidden.append((node, self.tree.counted[name]))
                self.tree.count(node, 0)
        place = self.tree.find(self.shape)
        for node, counted in hidden:
            self.tree.count(node, counted)
        return place

    def _events(self) -> Iterator[Event]:
        """When GPUs become free, in order of time: gangs that end, reservations that end."""
        yield from merge(self._ends(), self.later)

    def _ends(self) -> Iterator[Event]:
        now_ms = self.turn.now_ms
        overdue: list[Event] = []
        for end_ms, number, gang in self.state.ends.order:
            parts = tuple(
                (seat.node, len(seat.gpus))
                for seat in gang.seats
                if (node := self.state.nodes.get(seat.node)) is not None and node.usable
            )
            if end_ms <= now_ms:
                insort(overdue, (ends_ms(self.state, gang, now_ms), number, parts))
                continue
            while overdue and overdue[0][:2] < (end_ms, number):
                yield overdue.pop(0)
            yield end_ms, number, parts
        yield from overdue
