"""What plans and maintenance keep on nodes, as one waiting job sees it.

A job may use a node's free GPUs, less those that plans before it in order lack there by the time
at which the job may still run: what they want at one time, less what will have left the node by
then. What leaves is counted once, however many plans wait for it. Many jobs are bound by the same
plans, so what these keep is added up once a set of plans, and remembered until the next decision.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Final, NamedTuple

from gangline.scheduler.core.assumed import NEVER, grace_ms, run_ms
from gangline.scheduler.core.ends import Wanted, Wants
from gangline.scheduler.core.entities import Job, Node, Reservation, Window
from gangline.scheduler.core.fleet import Domain, Place, Shape, Tree
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.order import Order, OrderKey
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn


class Bound(NamedTuple):
    """What binds a job.

    ahead: of how many plans in order all bind it. firm: of how many those that are firm do.
    starting: how many of all plans begin before it is out. own: itself, if it has a plan. windows:
    nodes with a maintenance in its time.
    """

    ahead: int
    firm: int
    starting: int
    own: str
    windows: tuple[str, ...]


class KeptOff(NamedTuple):
    """GPUs kept on nodes, and the plans that keep any, in order."""

    on: dict[str, int]
    whose: list[Reservation]


class PlansInOrder(NamedTuple):
    """Plans by the order of their jobs, with the keys, and all the times at which they start."""

    plans: list[Reservation]
    keys: list[OrderKey]
    starts: list[int]


NOTHING: Final = Bound(0, 0, 0, "", ())


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
        self._bound = NOTHING
        self._gone: dict[str, Job] = {}
        self._more: dict[str, int] = {}
        self._doubted: dict[str, None] = {}

    def binds(self, reservation: Reservation) -> bool:
        """Whether the job has to keep off a plan."""
        other = self.order.key(self.state.jobs[reservation.job])
        return binds(reservation, other, self.mine)

    def binding(self) -> list[Reservation]:
        """The plans that keep something from the job now, in order."""
        return kept_by(self.turn, self.order, self._find_bound()).whose

    def windows(self) -> list[Window]:
        """Announced maintenance that meets the job's time, on whatever node."""
        return [window for _, window in self._announced()]

    def _announced(self) -> Iterator[tuple[str, Window]]:
        for name in self.state.windowed:
            for window in self.state.nodes[name].windows:
                if meets(window, self.turn.now_ms, self.end_ms):
                    yield name, window

    def kept(self) -> dict[str, int]:
        """How many GPUs the job must leave alone on each node; nodes that are not named: none.

        By the order as it stood when this was first asked.
        """
        if self._kept is None:
            self._bound = self._find_bound()
            self._kept = kept_by(self.turn, self.order, self._bound).on
        return self._with_more(self._kept) if self._doubted or self._more else self._kept

    # --- what if ----------------------------------------------------------------------------------

    def leave(self, gang: Job) -> None:
        """As if a gang left for the job: what plans expect of the gang's end comes no more."""
        self._gone[gang.id] = gang
        self._count_again(gang)

    def return_(self, gang: Job) -> None:
        """As if it stayed."""
        del self._gone[gang.id]
        self._count_again(gang)

    def gains_from(self, gang: Job) -> bool:
        """Whether the job may have any GPU of a gang that leaves, or all are wanted by plans."""
        reserved_on = self.state.reserved_on
        wanted = [seat for seat in gang.seats if seat.node in reserved_on]
        if len(wanted) < len(gang.seats):
            return True
        self._gone = {gang.id: gang}
        gains = any(len(s.gpus) > self._lacking(self.state.nodes[s.node]) for s in wanted)
        self._gone = {}
        return gains

    def _count_again(self, gang: Job) -> None:
        for seat in gang.seats:
            if seat.node in self.state.reserved_on:
                self._doubted[seat.node] = None

    def _with_more(self, kept: dict[str, int]) -> dict[str, int]:
        """What is kept, with what plans lack as gangs are gone."""
        for name in self._doubted:
            self._more.pop(name, None)
            more = self._lacking(self.state.nodes[name])
            if more:
                self._more[name] = kept.get(name, 0) + more
        self._doubted.clear()
        return {**kept, **self._more}

    def _lacking(self, node: Node) -> int:
        """GPUs that plans which bind the job lack on a node when all that are gone do not come."""
        plans = [
            plan
            for name in self.state.reserved_on[node.name]
            if name != self.job.id
            and (plan := self.state.reservations[name]).kind != "claim"
            and plan.start_ms < self.end_ms
            and self.binds(plan)
        ]
        if not plans:
            return 0
        now_ms = self.turn.now_ms
        more = lacking(
            self.state, node.name, plans, now_ms, gone=lambda at: self._gone_by(node, at)
        )
        return more - lacking(self.state, node.name, plans, now_ms)

    def _gone_by(self, node: Node, by_ms: int) -> int:
        """GPUs of the node that gangs which are gone would have left by then."""
        return sum(
            len(gang.seats[index].gpus)
            for name, index in node.gangs.items()
            if (gang := self._gone.get(name)) is not None
            and ends_ms(self.state, gang, self.turn.now_ms) <= by_ms
        )

    # --- what stands ------------------------------------------------------------------------------

    def _find_bound(self) -> Bound:
        """Of the plans sorted by order: how many are ahead; and of all starts: how many before."""
        plans = plans_in_order(self.turn, self.order)
        if not plans.plans and not self.state.windowed:
            return NOTHING
        windows = tuple(dict.fromkeys(name for name, _ in self._announced()))
        own = self.job.id if self.job.id in self.state.reservations else ""
        return bound_of(plans, self.mine, self.end_ms)._replace(own=own, windows=windows)

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
        return tree.holds(self.left(tree), shape)

    def left(self, tree: Tree) -> Domain:
        """The whole fleet's counts less what is kept; see `leaves`."""
        kept = self.kept()
        if not kept:
            return tree.root
        return left_by(self.turn, self.order, self._bound, tree)

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


def binds(plan: Reservation, other: OrderKey, mine: OrderKey) -> bool:
    """Whether a job of the key `mine` has to keep off a plan: of a job before it, or a firm one.

    other: the key of the plan's job. A large gang past its bound keeps off the firm plans of those
    before it only.
    """
    firm = plan.kind == "firm"
    if past_bound(mine):
        return firm and other < mine
    return firm or other < mine


def past_bound(key: OrderKey) -> bool:
    """Whether a key is that of a large gang which has waited for longer than its bound."""
    return not key[1]


def bound_of(plans: PlansInOrder, key: OrderKey, end_ms: int) -> Bound:
    """What binds a job of this key, that has no plan itself and is out at `end_ms` at the latest.

    Everybody keeps off firm plans and off those of jobs before it, but a large gang past its bound
    only off what is both.
    """
    starting = bisect_left(plans.starts, end_ms)
    ahead = bisect_left(plans.keys, key)
    if past_bound(key):
        return Bound(0, ahead, starting, "", ())
    return Bound(ahead, len(plans.keys), starting, "", ())


def kept_by(turn: Turn, order: Order, bound: Bound) -> KeptOff:
    """What plans and maintenance keep on each node; remembered until the next decision."""
    return turn.remember(bound, lambda: _kept_by(turn, order, bound))


def _kept_by(turn: Turn, order: Order, bound: Bound) -> KeptOff:
    state, now_ms = turn.state, turn.now_ms
    kept: dict[str, int] = {}
    keeping: dict[str, None] = {}
    shared = turn.remember("shared", lambda: _shared(state))
    meeting: dict[str, list[Reservation]] = {}
    plans = _bound_plans(turn, order, bound)
    for plan in plans:
        for name, wanted in wanted_by(state, plan, now_ms).items():
            if name in shared:
                meeting.setdefault(name, []).append(plan)
            elif wanted.lacks > 0:
                kept[name] = wanted.lacks
                keeping[plan.job] = None
    known = turn.remember("lacking", dict[tuple[str, ...], int])
    for name, met in meeting.items():
        asked = (name, *[plan.job for plan in met])
        if asked not in known:
            known[asked] = lacking(state, name, met, now_ms)
        many = known[asked]
        if many:
            kept[name] = many
            keeping.update(dict.fromkeys(plan.job for plan in met))
    for name in bound.windows:
        kept[name] = state.nodes[name].gpus
    return KeptOff(kept, [plan for plan in plans if plan.job in keeping])


def _shared(state: State) -> set[str]:
    """Nodes on which several reservations want GPUs."""
    return {name for name, jobs in state.reserved_on.items() if len(jobs) > 1}


def _bound_plans(turn: Turn, order: Order, bound: Bound) -> list[Reservation]:
    """The plans that bind a job, in order."""
    in_order = plans_in_order(turn, order)
    return [
        plan
        for index, plan in enumerate(in_order.plans)
        if index < (bound.firm if plan.kind == "firm" else bound.ahead)
        and plan.job != bound.own
        and bisect_left(in_order.starts, plan.start_ms) < bound.starting
    ]


def lacking(
    state: State,
    name: str,
    plans: Sequence[Reservation],
    now_ms: int,
    *,
    gone: Callable[[int], int] | None = None,
    during: Reservation | None = None,
) -> int:
    """GPUs of a node that some plans lack at most at one time, beside what leaves it by then.

    gone: how many of those that leave by a time do not come. during: only while this plan lasts.
    """
    wanted = [(plan, wanted_by(state, plan, now_ms)[name]) for plan in plans]
    jobs = state.reserved_on[name]
    held: list[Reservation] = []
    if len(jobs) > len(plans):
        found = (state.reservations[job] for job in jobs)
        held = [reservation for reservation in found if reservation.kind == "claim"]
    most = 0
    for plan, own in wanted:
        at_ms = plan.start_ms
        if during is not None and not during.start_ms <= at_ms < during.end_ms:
            continue
        lacks = own.lacks if gone is None else own.lacks + gone(at_ms)
        for its, other in wanted:
            if its is not plan and its.start_ms <= at_ms < its.end_ms:
                lacks += other.gpus
        for claim in held:
            lacks -= _given_back(claim, name, at_ms)
        most = max(most, lacks)
    return most


def _given_back(claim: Reservation, name: str, by_ms: int) -> int:
    """GPUs that a claim holds and will have left by then, less those that it gets and will not.

    Its victims count as leaving, wherever what they leave goes.
    """
    back = 0
    for seat in claim.seats:
        if seat.node == name:
            held = seat.held.bit_count()
            back += held if claim.end_ms <= by_ms else held - seat.gpus
    return back


def plans_in_order(turn: Turn, order: Order) -> PlansInOrder:
    """All plans that are no claims; remembered until the next decision."""
    return turn.remember("plans", lambda: _plans_in_order(turn.state, order))


def _plans_in_order(state: State, order: Order) -> PlansInOrder:
    plans = [r for r in state.reservations.values() if r.kind != "claim"]
    keyed = sorted(((order.key(state.jobs[r.job]), r) for r in plans), key=itemgetter(0))
    return PlansInOrder(
        [reservation for _, reservation in keyed],
        [key for key, _ in keyed],
        sorted(r.start_ms for r in plans),
    )


def wanted_by(state: State, reservation: Reservation, now_ms: int) -> dict[str, Wanted]:
    """What one plan wants on each of its nodes; remembered while nothing changes there."""
    wants = state.ends.wants.get(reservation.job)
    if wants is None or now_ms >= wants.until_ms:
        wants = state.ends.wants[reservation.job] = _wanted_by(state, reservation, now_ms)
    return wants.on


def _wanted_by(state: State, reservation: Reservation, now_ms: int) -> Wants:
    on: dict[str, Wanted] = {}
    until_ms = NEVER
    for seat in reservation.seats:
        node = state.nodes.get(seat.node)
        if node is None:
            continue
        leaving, changes_ms = _leaving(state, node, now_ms, by_ms=reservation.start_ms)
        until_ms = min(until_ms, changes_ms)
        on[seat.node] = Wanted(seat.gpus, seat.gpus - leaving)
    return Wants(until_ms, on)


def _leaving(state: State, node: Node, now_ms: int, *, by_ms: int) -> tuple[int, int]:
    """GPUs of the node whose gangs are assumed to be out by then.

    And when time alone may make that another number.
    """
    leaving = 0
    changes_ms = NEVER
    for name, index in node.gangs.items():
        gang = state.jobs[name]
        end_ms = gang.ends_ms
        if end_ms <= now_ms:
            end_ms = ends_ms(state, gang, now_ms)
            if end_ms <= by_ms:
                changes_ms = min(changes_ms, now_ms + 1)
        if end_ms <= by_ms:
            changes_ms = min(changes_ms, end_ms)
            leaving += len(gang.seats[index].gpus)
    return leaving, changes_ms


def left_by(turn: Turn, order: Order, bound: Bound, tree: Tree) -> Domain:
    """The whole fleet's counts less what is kept; remembered until the next decision."""
    return turn.remember((bound, tree), lambda: _left(tree, kept_by(turn, order, bound).on))


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
    return any(meets(window, from_ms, until_ms) for window in node.windows)


def meets(window: Window, from_ms: int, until_ms: int) -> bool:
    """Whether a maintenance meets this stretch of time."""
    return window.from_ms < until_ms and from_ms < window.until_ms
