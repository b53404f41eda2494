"""Reservations: a time and a place for what cannot start now, and who must keep off.

A plan is made for the first few waiting jobs in order that have a known time to start: when the
gangs that run are sure to have left (their declared limit and grace, or the policy's default,
doubled each time it is outlived), place the gang in what is free then. Later jobs may use the hole
when they are sure to leave before it. A plan binds jobs behind it in order; the firm plan of a
large gang past its bound binds everybody. An announced maintenance binds everybody too. A plan
expires at its time, and is made again only when gangs came or went on its own nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gangline.events import decisions as d
from gangline.scheduler.core.entities import Job, Node, Reservation
from gangline.scheduler.core.fleet import Place, Shape, Tree
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.order import Order, is_past_bound
from gangline.scheduler.core.state import State, take_bits
from gangline.scheduler.core.turn import Turn

MOST_TRIES = 64


def grace_ms(state: State, job: Job) -> int:
    """Its own grace, or the policy's."""
    own = job.spec.grace_ms
    return state.cell.policy["preemption_grace"] if own is None else own


def run_ms(state: State, job: Job, elapsed_ms: int = 0) -> int:
    """How long an attempt is assumed to run from its start, grace included."""
    if job.spec.limit_ms is not None:
        left = max(0, job.spec.limit_ms - (job.resumed_ms if job.started_ms else job.saved_ms))
    else:
        left = state.cell.policy["default_limit"]
        while left <= elapsed_ms:
            left *= 2
    return left + grace_ms(state, job)


def ends_ms(state: State, job: Job, now_ms: int) -> int:
    """When a gang that holds GPUs is assumed to be out; may be past for one that is overdue."""
    if job.phase is Phase.STOPPING:
        return job.stop_ms + job.stop_grace_ms
    if job.phase is Phase.STARTING:
        return job.placed_ms + run_ms(state, job)
    return job.started_ms + run_ms(state, job, now_ms - job.started_ms)


class Keeping:
    """Who must keep off what, as one waiting job sees it."""

    def __init__(self, turn: Turn, job: Job, order: Order) -> None:
        """For a job that would start now and be out at the latest at `end_ms`."""
        self.turn = turn
        self.state = turn.state
        self.job = job
        self.order = order
        self.mine = order.key(job)
        self.end_ms = turn.now_ms + run_ms(self.state, job)

    def binds(self, reservation: Reservation) -> bool:
        """Whether this reservation is to be respected by the job."""
        if reservation.job == self.job.id or reservation.kind == "claim":
            return False
        if reservation.start_ms >= self.end_ms:
            return False
        return reservation.kind == "firm" or self.ahead(reservation)

    def ahead(self, reservation: Reservation) -> bool:
        """Whether the one it is for stands before the job in order."""
        return self.order.key(self.state.jobs[reservation.job]) < self.mine

    def kept(self, node: Node) -> int:
        """How many of the node's free GPUs the job must leave alone."""
        if node.windows and in_window(node, self.turn.now_ms, self.end_ms):
            return node.gpus
        kept = 0
        for name in self.state.reserved_on.get(node.name, ()):
            reservation = self.state.reservations[name]
            if self.binds(reservation):
                wanted = sum(s.gpus for s in reservation.seats if s.node == node.name)
                kept += max(0, wanted - self._leaving(node, reservation.start_ms))
        return kept

    def _leaving(self, node: Node, by_ms: int) -> int:
        """GPUs of the node whose gangs are assumed to be out by then."""
        leaving = 0
        for name, index in node.gangs.items():
            gang = self.state.jobs[name]
            if ends_ms(self.state, gang, self.turn.now_ms) <= by_ms:
                leaving += len(gang.seats[index].gpus)
        return leaving

    def allows(self, place: Place) -> bool:
        """Whether the place leaves alone what is kept."""
        return all(
            node.avail.bit_count() - count >= self.kept(node)
            for node, count in place.parts
            if node.windows or node.name in self.state.reserved_on
        )

    @contextmanager
    def without_kept(self) -> Iterator[None]:
        """The fleet as the job may use it."""
        names = dict.fromkeys([*self.state.reserved_on, *self.state.windowed])
        before: list[tuple[Node, int]] = []
        for name in names:
            node = self.state.nodes.get(name)
            kept = self.kept(node) if node is not None and node.avail else 0
            if node is not None and kept:
                before.append((node, node.avail))
                left = max(0, node.avail.bit_count() - kept)
                self.state.set_avail(node, take_bits(node.avail, left))
        try:
            yield
        finally:
            for node, avail in before:
                self.state.set_avail(node, avail)


def in_window(node: Node, from_ms: int, until_ms: int) -> bool:
    """Whether an announced maintenance of the node meets this stretch of time."""
    return any(w.from_ms < until_ms and from_ms < w.until_ms for w in node.windows)


# --- making plans ---------------------------------------------------------------------------------


def drop_stale(turn: Turn) -> None:
    """Let go of plans whose time has come or whose nodes are gone or out."""
    for reservation in list(turn.state.reservations.values()):
        if reservation.kind == "claim":
            continue
        if reservation.start_ms <= turn.now_ms:
            turn.decide(d.ReservationReleased(job=reservation.job, why="expired"))
        elif not _stands(turn.state, reservation):
            turn.decide(d.ReservationReleased(job=reservation.job, why="fault"))


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
    if old is not None and not _due(turn, old, firm=firm):
        return
    if old is None and not firm and not _among_first(turn, job, order):
        return
    found = _earliest(turn, job, shape, order)
    if found is None:
        if old is not None:
            turn.decide(d.ReservationReleased(job=job.id, why="changed"))
        return
    start_ms, place = found
    seats = tuple(d.ReservedSeat(node=node.name, gpus=count) for node, count in place.parts)
    kind = "firm" if firm else "plan"
    turn.decide(
        d.ReservationPlanned(
            job=job.id,
            kind=kind,
            start_ms=start_ms,
            end_ms=start_ms + run_ms(state, job),
            seats=seats,
        )
    )


def _due(turn: Turn, old: Reservation, *, firm: bool) -> bool:
    """Whether a plan is to be made again, which is then decided even if it comes out the same."""
    if firm and old.kind != "firm":
        return True
    return old.disturbed and turn.now_ms >= turn.state.again_ms(old)


def _among_first(turn: Turn, job: Job, order: Order) -> bool:
    mine = order.key(job)
    jobs = turn.state.jobs
    ahead = sum(
        1
        for r in turn.state.reservations.values()
        if r.kind != "claim" and order.key(jobs[r.job]) < mine
    )
    return ahead < turn.state.cell.policy["reservations"]


def _earliest(turn: Turn, job: Job, shape: Shape, order: Order) -> tuple[int, Place] | None:
    """The earliest time at which the gang fits, and where, by the gangs' assumed ends."""
    state = turn.state
    tree = state.tree_for(shape.selector)
    before = dict(tree.counted)
    free = {name: free_on(state, name) for name in before}
    events = _events(turn, job, order, free)
    try:
        for name, count in free.items():
            tree.count(state.nodes[name], _clear(state, name, count, turn.now_ms, turn.now_ms))
        return _sweep(turn, job, shape, tree, events=events, free=free)
    finally:
        for name, count in before.items():
            tree.count(state.nodes[name], count)


def free_on(state: State, name: str) -> int:
    """GPUs of a node that are free now."""
    return state.nodes[name].avail.bit_count()


def _clear(state: State, name: str, count: int, from_ms: int, until_ms: int) -> int:
    """What of a node's free GPUs counts: none where a maintenance meets the time."""
    node = state.nodes[name]
    if node.windows and in_window(node, from_ms, until_ms):
        return 0
    return max(0, count)


def _events(
    turn: Turn, job: Job, order: Order, free: dict[str, int]
) -> list[tuple[int, int, tuple[tuple[str, int], ...]]]:
    """When GPUs become free: (time, tie, ((node, GPUs)…)).

    Reservations ahead are taken off `free` until they end.
    """
    state = turn.state
    events: list[tuple[int, int, tuple[tuple[str, int], ...]]] = []
    claimed = {v for r in state.reservations.values() if r.kind == "claim" for v in r.victims}
    for gang in state.holding.values():
        if gang.id in claimed:
            continue
        parts = tuple(
            (seat.node, len(seat.gpus))
            for seat in gang.seats
            if seat.node in free and state.nodes[seat.node].usable
        )
        events.append((ends_ms(state, gang, turn.now_ms), gang.number, parts))
    keeping = Keeping(turn, job, order)
    for reservation in state.reservations.values():
        other = state.jobs[reservation.job]
        parts = tuple((s.node, s.gpus) for s in reservation.seats if s.node in free)
        if reservation.kind == "claim":
            events.append((reservation.end_ms, other.number, parts))
        elif reservation.job != job.id and (
            reservation.kind == "firm" or keeping.ahead(reservation)
        ):
            for name, gpus in parts:
                free[name] -= gpus
            events.append((reservation.end_ms, other.number, parts))
    events.sort()
    return events


def _sweep(
    turn: Turn,
    job: Job,
    shape: Shape,
    tree: Tree,
    *,
    events: list[tuple[int, int, tuple[tuple[str, int], ...]]],
    free: dict[str, int],
) -> tuple[int, Place] | None:
    state = turn.state
    takes_ms = run_ms(state, job)
    tries = 0
    for index, (at_ms, _, parts) in enumerate(events):
        for name, gpus in parts:
            free[name] += gpus
            tree.count(state.nodes[name], _clear(state, name, free[name], at_ms, at_ms + takes_ms))
        if index + 1 < len(events) and events[index + 1][0] == at_ms:
            continue
        if not tree.holds(tree.root, shape):
            continue
        place = tree.find(shape)
        if place is not None:
            return max(at_ms, turn.now_ms + 1), place
        tries += 1
        if tries >= MOST_TRIES:
            return None
    return None
