"""What plans and maintenance keep on nodes, as one waiting job sees it.

A job may use a node's free GPUs, less those that a plan before it in order wants there by the time
at which the job may still run, less what will have left the node by then. Many jobs are bound by
the same plans, so what these keep is added up once a set of plans, and remembered until the next
decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gangline.scheduler.core.assumed import grace_ms, run_ms
from gangline.scheduler.core.entities import Job, Node, Reservation
from gangline.scheduler.core.fleet import Domain, Place, Shape, Tree
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn

Bound = tuple[tuple[str, ...], tuple[str, ...]]
"""Who keeps something from a job: the jobs of plans, and nodes with a maintenance in its time."""


def ends_ms(state: State, job: Job, now_ms: int) -> int:
    """When a gang that holds GPUs is assumed to be out.

    Without a declared limit, the default is doubled each time it is outlived; other gangs that are
    overdue are given the time in which they must report.
    """
    if job.ends_ms > now_ms:
        return job.ends_ms
    if job.spec.limit_ms is not None or job.phase is Phase.STOPPING:
        return now_ms + state.cell.policy["stop_timeout"]
    grace = grace_ms(state.cell.policy, job)
    since = job.started_ms or job.placed_ms
    left = job.ends_ms - since - grace
    while since + left + grace <= now_ms:
        left *= 2
    return since + left + grace


class Keeping:
    """Who must keep off what, as one waiting job sees it."""

    def __init__(self, turn: Turn, job: Job, order: Order) -> None:
        """For a job that would start now and be out at the latest at `end_ms`."""
        self.turn = turn
        self.state = turn.state
        self.job = job
        self.order = order
        self.mine = order.key(job)
        self.end_ms = turn.now_ms + run_ms(self.state.cell.policy, job)
        self._kept: dict[str, int] | None = None
        self._bound: Bound = ((), ())

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

    def kept(self) -> dict[str, int]:
        """How many GPUs the job must leave alone on each node; nodes that are not named: none."""
        if self._kept is None:
            state, now_ms = self.state, self.turn.now_ms
            plans = tuple(r.job for r in state.reservations.values() if self.binds(r))
            windows = tuple(
                name
                for name in state.windowed
                if (node := state.nodes.get(name)) and in_window(node, now_ms, self.end_ms)
            )
            self._bound = (plans, windows)
            self._kept = kept_by(self.turn, self._bound)
        return self._kept

    def allows(self, place: Place) -> bool:
        """Whether the place leaves alone what is kept."""
        kept = self.kept()
        if not kept:
            return True
        return all(
            node.avail.bit_count() - count >= kept.get(node.name, 0) for node, count in place.parts
        )

    def leaves(self, tree: Tree, shape: Shape) -> bool:
        """Whether the GPUs that are not kept could be enough, wherever they are.

        Not for use in what-if searches: it is remembered until the next decision.
        """
        kept = self.kept()
        if not kept:
            return tree.holds(tree.root, shape)
        memo = self.turn.remembered
        key = ("left", self._bound, shape.selector)
        left = memo.get(key)
        if left is None:
            left = memo[key] = _left(tree, kept)
        return tree.holds(left, shape)

    @contextmanager
    def without_kept(self, tree: Tree) -> Iterator[None]:
        """The fleet as the job may use it, in the counts of a tree."""
        before: list[tuple[Node, int]] = []
        counted = tree.counted
        for name, kept in self.kept().items():
            free = counted.get(name)
            if free:
                node = self.state.nodes[name]
                before.append((node, free))
                tree.count(node, max(0, free - kept))
        try:
            yield
        finally:
            for node, free in before:
                tree.count(node, free)


def kept_by(turn: Turn, bound: Bound) -> dict[str, int]:
    """What plans and maintenance keep on each node; remembered until the next decision."""
    found = turn.remembered.get(bound)
    if found is None:
        found = turn.remembered[bound] = _kept_by(turn, bound)
    return found


def _kept_by(turn: Turn, bound: Bound) -> dict[str, int]:
    state = turn.state
    kept: dict[str, int] = {}
    plans, windows = bound
    for name in plans:
        reservation = state.reservations[name]
        for seat in reservation.seats:
            node = state.nodes.get(seat.node)
            if node is None:
                continue
            stays = seat.gpus - _leaving(turn, node, reservation.start_ms)
            if stays > 0:
                kept[seat.node] = kept.get(seat.node, 0) + stays
    for name in windows:
        kept[name] = state.nodes[name].gpus
    return kept


def _leaving(turn: Turn, node: Node, by_ms: int) -> int:
    """GPUs of the node whose gangs are assumed to be out by then."""
    state, now_ms = turn.state, turn.now_ms
    leaving = 0
    for name, index in node.gangs.items():
        gang = state.jobs[name]
        if (gang.ends_ms if gang.ends_ms > now_ms else ends_ms(state, gang, now_ms)) <= by_ms:
            leaving += len(gang.seats[index].gpus)
    return leaving


def _left(tree: Tree, kept: dict[str, int]) -> Domain:
    """The whole fleet's counts less what is kept."""
    root = tree.root
    at_least = list(root.at_least)
    free = root.free
    for name, many in kept.items():
        counted = tree.counted.get(name, 0)
        left = max(0, counted - many)
        free -= counted - left
        for k in range(left + 1, counted + 1):
            at_least[k] -= 1
    return Domain(root.name, root.level, 0, None, free=free, at_least=at_least)


def in_window(node: Node, from_ms: int, until_ms: int) -> bool:
    """Whether an announced maintenance of the node meets this stretch of time."""
    return any(w.from_ms < until_ms and from_ms < w.until_ms for w in node.windows)
