"""Rules 3 and 4: what the core says of fleet and teams, against the second memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gangline.events.spec import UNLIMITED
from gangline.replay.broken_rule import BrokenRuleError, Rule

if TYPE_CHECKING:
    from gangline.replay.core_port import FleetNumbers, TeamNumbers
    from gangline.replay.model import Model, ModelNode
    from gangline.replay.world import World


class NodeCount(NamedTuple):
    """GPUs of a node: free for new work, and out because something is wrong."""

    unused: int
    unhealthy: int


class FleetCount:
    """The fleet counted from the decisions; only nodes that changed are counted again."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeCount] = {}
        self._unused = 0
        self._unhealthy = 0

    def check(self, model: Model, numbers: FleetNumbers) -> None:
        """Held, free and unhealthy GPUs are what the decisions say."""
        self._recount(model)
        held = len(model.holders)
        if numbers.held != held:
            raise BrokenRuleError(Rule.SUMS, f"held={numbers.held}, by the decisions {held}")
        if numbers.unhealthy != self._unhealthy:
            raise BrokenRuleError(
                Rule.SUMS, f"unhealthy={numbers.unhealthy}, by the decisions {self._unhealthy}"
            )
        kept = sum(seat.gpus for plan in model.reservations.values() for seat in plan.seats)
        if not max(0, self._unused - kept) <= numbers.free <= self._unused:
            raise BrokenRuleError(
                Rule.SUMS,
                f"free={numbers.free}, by the decisions {self._unused}, {kept} of them reserved",
            )

    def _recount(self, model: Model) -> None:
        for name in model.changed:
            before = self._nodes.pop(name, NodeCount(0, 0))
            node = model.nodes.get(name)
            now = _count(model, node) if node is not None else NodeCount(0, 0)
            self._nodes[name] = now
            self._unused += now.unused - before.unused
            self._unhealthy += now.unhealthy - before.unhealthy
        model.changed.clear()


def _count(model: Model, node: ModelNode) -> NodeCount:
    """The GPUs of one node."""
    if not node.in_service:
        return NodeCount(0, node.unhealthy)
    gpus = [(node.node, gpu) for gpu in range(node.gpus) if gpu not in node.bad]
    unused = sum(gpu not in model.holders and gpu not in model.lingering for gpu in gpus)
    return NodeCount(unused, node.unhealthy)


def check_teams(model: Model, world: World) -> None:
    """Use, borrowed and lent are what the decisions say, and fit together."""
    used = model.used()
    numbers = {name: world.core.team_numbers(world.state, name) for name in model.teams}
    for name, said in numbers.items():
        team = model.teams[name]
        inside = min(used[name], team.guaranteed)
        expected = (used[name], inside, used[name] - inside)
        if (said.used, said.guaranteed_used, said.borrowed) != expected:
            raise BrokenRuleError(
                Rule.LIMITS,
                f"{name} used={said.used} guaranteed_used={said.guaranteed_used} "
                f"borrowed={said.borrowed}, by the decisions {expected}",
            )
        if not 0 <= said.lent <= team.guaranteed - inside:
            raise BrokenRuleError(
                Rule.LIMITS, f"{name} lent={said.lent} of {team.guaranteed - inside} idle"
            )
    _check_sums(model, numbers)


def _check_sums(model: Model, numbers: dict[str, TeamNumbers]) -> None:
    """What teams lend is what others borrow, but for what nobody is guaranteed."""
    top = [name for name, team in model.teams.items() if not team.parent]
    lent = sum(numbers[name].lent for name in top)
    borrowed = sum(numbers[name].borrowed for name in top)
    capacity = sum(node.gpus for node in model.nodes.values())
    pool = max(0, capacity - sum(model.teams[name].guaranteed for name in top))
    limited = any(model.teams[name].lend != UNLIMITED for name in top)
    least = 0 if limited else max(0, borrowed - pool)
    if not least <= lent <= borrowed:
        raise BrokenRuleError(
            Rule.LIMITS, f"lent {lent}, borrowed {borrowed}, {pool} guaranteed to nobody"
        )
