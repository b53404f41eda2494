"""Whether a group of waiting jobs could get anything now: a cheap look before the real question.

Whoever is refused here would neither start nor claim after the whole search: the quota's room, the
GPUs that plans ahead leave, and what a claim could reach are all taken at their most. A plan is not
sought for everybody, only as far down the order as plans are likely to be had. What does not depend
on the group alone is remembered until the next decision, so that a look costs a few microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from gangline.events.spec import JobClass
from gangline.scheduler.core import quota, rights
from gangline.scheduler.core.assumed import run_ms
from gangline.scheduler.core.entities import Job
from gangline.scheduler.core.fit import shape_of
from gangline.scheduler.core.fleet import Domain, Tree
from gangline.scheduler.core.keeping import bound_of, left_by, plans_in_order
from gangline.scheduler.core.keys import GroupKey
from gangline.scheduler.core.models import MODEL
from gangline.scheduler.core.order import Order, OrderKey
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn


class Prospects:
    """A look at groups, for one pass."""

    def __init__(self, turn: Turn, order: Order, asked: Sequence[GroupKey]) -> None:
        """As things stand; not to be kept beyond the next decision."""
        self.turn = turn
        self.state = turn.state
        self.order = order
        self.plans = plans_in_order(turn, order)
        self.planned = {turn.state.jobs[r.job].group for r in self.plans.plans}
        self.keys = {group: order.key(turn.state.groups[group][0][2]) for group in asked}
        self.last = self._last()

    def _last(self) -> OrderKey | None:
        """The last in order that may get a plan; None when anybody may.

        Where there are plans left, twice as many are asked as would be enough, as there is not a
        plan to be had for everybody.
        """
        keys, most = self.plans.keys, self.state.cell.policy["reservations"]
        if len(keys) >= most > 0:
            return keys[most - 1]
        unplanned = sorted(key for group, key in self.keys.items() if group not in self.planned)
        enough = 2 * most - len(keys)
        return unplanned[enough - 1] if 0 < enough < len(unplanned) else None

    def any(self, group: GroupKey) -> bool:
        """Whether some job of the group might start, claim, or have its plan made or changed."""
        key = self.keys[group]
        if group in self.planned or self.last is None or key <= self.last:
            return True
        head = self.state.groups[group][0][2]
        can_claim = rights.may_claim(self.state, head)
        may_take = self._may_take(head)
        if not may_take and not can_claim:
            return False
        if self.state.windowed:
            return True
        left = self._left(group, head, key)
        if may_take and self._tree(head).holds(left, shape_of(head)):
            return True
        return can_claim and self._claim(head, left.free)

    def _may_take(self, head: Job) -> bool:
        """Whether quota leaves it so many more GPUs."""
        spec = head.spec
        addable = self.turn.remember(
            ("addable", spec.team, spec.preemptible, spec.selector.get(MODEL, "")),
            lambda: quota.addable(self.state, spec),
        )
        return addable is None or spec.gpus <= addable

    def _tree(self, head: Job) -> Tree:
        return self.state.tree_for(shape_of(head).selector)

    def _left(self, group: GroupKey, head: Job, key: OrderKey) -> Domain:
        """What plans leave for the one of the group that is out soonest."""
        end_ms = self.turn.now_ms + shortest_ms(self.state, group)
        bound = bound_of(self.plans, key, end_ms)
        return left_by(self.turn, self.order, bound, self._tree(head))

    def _claim(self, head: Job, free: int) -> bool:
        """Whether those whom it may evict hold enough."""
        wanted = head.gpus - free - rights.leaving_gpus(self.turn)
        if wanted <= 0:
            return True
        protects = head.job_class is not JobClass.URGENT
        return wanted <= rights.most_of_any(self.turn, head, protects=protects)


def shortest_ms(state: State, group: GroupKey) -> int:
    """How soon the one of a group that is out soonest would be out."""
    found = state.shortest.get(group)
    if found is None:
        policy = state.cell.policy
        found = min(run_ms(policy, job) for _, _, job in state.groups[group])
        state.shortest[group] = found
    return found
