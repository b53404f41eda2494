"""What operators state: teams, policy, nodes, and who may take new work.

Service is what operators want of a node; whether it is well is another matter (health.py).
Cordoning keeps *new* work off; draining also stops what still runs at its deadline; maintenance
does both in an announced window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.decisions import Service, StopCause
from gangline.events.spec import UNLIMITED
from gangline.scheduler.core import gangs, nodes, policy
from gangline.scheduler.core.entities import Node, Team
from gangline.scheduler.core.inputs import Fact
from gangline.scheduler.core.names import is_name
from gangline.scheduler.core.turn import Refusal, Turn

SERVICE: Final[Mapping[tuple[Service, type], Service]] = {
    (Service.OPEN, f.NodeCordoned): Service.CORDONED,
    (Service.OPEN, f.DrainRequested): Service.DRAINING,
    (Service.CORDONED, f.NodeUncordoned): Service.OPEN,
    (Service.CORDONED, f.DrainRequested): Service.DRAINING,
    (Service.DRAINING, f.NodeUncordoned): Service.OPEN,
    (Service.DRAINING, f.DrainRequested): Service.DRAINING,
    (Service.MAINTENANCE, f.NodeUncordoned): Service.OPEN,
}


def team_set(turn: Turn, fact: Fact, body: f.TeamSet) -> None:
    """A team is as said; keys not named keep their values."""
    state = turn.state
    old = state.teams.get(body.team) or Team(name=body.team, order=0)
    parent = old.parent if body.parent is None else body.parent
    refusal = _team_problem(turn, body, parent)
    if refusal is not None:
        turn.refuse(fact, refusal)
        return
    changed = d.TeamChanged(
        team=body.team,
        guaranteed=_kept(body.guaranteed, old.guaranteed),
        borrow=_kept(body.borrow, old.borrow),
        lend=_kept(body.lend, old.lend),
        weight=_kept(body.weight, old.weight),
        parent=parent,
        by_model={**old.by_model, **body.by_model},
        by=fact.actor,
    )
    by_model = sum(changed.by_model.values())
    if by_model > changed.guaranteed:
        detail = f"{by_model} guaranteed by model are more than the {changed.guaranteed} in all"
        turn.refuse(fact, Refusal.BAD_VALUE, detail)
        return
    same = (old.guaranteed, old.borrow, old.lend, old.weight, old.parent, old.by_model) == (
        changed.guaranteed,
        changed.borrow,
        changed.lend,
        changed.weight,
        changed.parent,
        changed.by_model,
    )
    if body.team in state.teams and same:
        turn.refuse(fact, Refusal.ALREADY_SO)
        return
    turn.decide(changed)


def _kept(value: int | None, old: int) -> int:
    return old if value is None else value


def _team_problem(turn: Turn, body: f.TeamSet, parent: str) -> Refusal | None:
    teams = turn.state.teams
    if not all(is_name(name) for name in (body.team, *body.by_model)):
        return Refusal.BAD_NAME
    numbers = (
        (body.guaranteed, 0),
        (body.borrow, UNLIMITED),
        (body.lend, UNLIMITED),
        (body.weight, 1),
        *((value, 0) for value in body.by_model.values()),
    )
    if any(value is not None and value < least for value, least in numbers):
        return Refusal.BAD_VALUE
    above = parent
    while above:
        if above == body.team:
            return Refusal.TEAM_CYCLE
        if above not in teams:
            return Refusal.NO_SUCH_TEAM
        above = teams[above].parent
    return None


def policy_set(turn: Turn, fact: Fact, body: f.PolicySet) -> None:
    """Policy keys get new values, all or none."""
    problems = [p for name, value in body.values.items() if (p := policy.problem(name, value))]
    if problems or not body.values:
        turn.refuse(fact, Refusal.BAD_VALUE, problems[0] if problems else "no keys")
        return
    current = turn.state.cell.policy
    values = {k: v for k, v in sorted(body.values.items()) if current[k] != v}
    if not values:
        turn.refuse(fact, Refusal.ALREADY_SO)
        return
    turn.decide(d.PolicyChanged(values=values, by=fact.actor))


def node_admitted(turn: Turn, fact: Fact, body: f.NodeAdmitted) -> None:
    """A node belongs to the fleet."""
    if body.node in turn.state.nodes:
        turn.refuse(fact, Refusal.DUPLICATE)
    else:
        nodes.admit(turn, fact, body)


def node_of(turn: Turn, fact: Fact, name: str) -> Node | None:
    """The node of that name; refused, and None, where there is none."""
    node = turn.state.nodes.get(name)
    if node is None:
        turn.refuse(fact, Refusal.NO_SUCH_NODE)
    return node


def node_withdrawn(turn: Turn, fact: Fact, body: f.NodeWithdrawn) -> None:
    """A node leaves the fleet for good; gangs on it go on elsewhere."""
    node = node_of(turn, fact, body.node)
    if node is None:
        return
    for job in nodes.gangs_on(turn, node):
        if all(end.node != node.name for end in job.ended):
            gangs.end_member(turn, job, node.name, presumed=True)
            gangs.after_end(turn, job)
    for name in list(turn.state.reserved_on.get(node.name, ())):
        turn.decide(d.ReservationReleased(job=name, why="withdrawn"))
    turn.decide(d.NodeDropped(node=node.name, why=body.why))


def service_asked(
    turn: Turn, fact: Fact, body: f.NodeCordoned | f.NodeUncordoned | f.DrainRequested
) -> None:
    """Cordon, uncordon, drain: as the table SERVICE says."""
    node = node_of(turn, fact, body.node)
    if node is None:
        return
    service = SERVICE.get((node.service, type(body)))
    announced = isinstance(body, f.NodeUncordoned) and bool(node.windows)
    if service is None and not announced:
        turn.refuse(fact, Refusal.ALREADY_SO)
        return
    deadline_ms = 0
    if isinstance(body, f.DrainRequested) and body.deadline_ms is not None:
        deadline_ms = max(1, fact.appended_ms + min(body.deadline_ms, policy.LONGEST))
    if service is node.service is Service.DRAINING and deadline_ms == node.deadline_ms:
        turn.refuse(fact, Refusal.ALREADY_SO)
        return
    turn.decide(
        d.NodeServiceChanged(
            node=node.name,
            service=service or Service.OPEN,
            cause="" if isinstance(body, f.NodeUncordoned) else body.why,
            by=fact.actor,
            deadline_ms=deadline_ms,
        )
    )


def maintenance_scheduled(turn: Turn, fact: Fact, body: f.MaintenanceScheduled) -> None:
    """A window in which a node is out of service."""
    node = node_of(turn, fact, body.node)
    if node is None:
        return
    from_ms = fact.appended_ms + body.in_ms
    until_ms = from_ms + body.for_ms
    if not 0 <= body.in_ms <= policy.LONGEST or not 1 <= body.for_ms <= policy.LONGEST:
        turn.refuse(fact, Refusal.BAD_VALUE)
        return
    if any(w.from_ms < until_ms and from_ms < w.until_ms for w in node.windows):
        turn.refuse(fact, Refusal.BAD_VALUE, "overlaps an announced maintenance")
        return
    turn.decide(
        d.MaintenanceAnnounced(
            node=node.name, from_ms=from_ms, until_ms=until_ms, why=body.why, by=fact.actor
        )
    )


def service_due(turn: Turn, node: Node) -> None:
    """A drain's deadline is there, or a maintenance is over."""
    if not node.deadline_ms or node.deadline_ms > turn.now_ms:
        return
    if node.service is Service.MAINTENANCE:
        over = d.NodeServiceChanged(
            node=node.name, service=Service.OPEN, cause="maintenance over", by="scheduler"
        )
        turn.decide(over)
    elif node.service is Service.DRAINING:
        turn.decide(
            d.NodeServiceChanged(
                node=node.name, service=Service.DRAINING, cause=node.service_why, by="scheduler"
            )
        )
        nodes.stop_members(turn, node, StopCause.DRAINED)


def window_due(turn: Turn, node: Node) -> None:
    """An announced maintenance begins: what still runs is stopped. A cordoned node stays so."""
    window = next((w for w in node.windows if w.from_ms <= turn.now_ms < w.until_ms), None)
    if window is None or node.service is Service.MAINTENANCE:
        return
    if node.service is Service.OPEN:
        turn.decide(
            d.NodeServiceChanged(
                node=node.name,
                service=Service.MAINTENANCE,
                cause=window.why,
                by=window.by,
                deadline_ms=window.until_ms,
            )
        )
    nodes.stop_members(turn, node, StopCause.MAINTENANCE)


def hand_over(_turn: Turn, _fact: Fact, _body: f.HandOverRequested) -> None:
    """The driver sees to it; the state does not change."""


HANDLERS: Final[Mapping[type, object]] = {
    f.TeamSet: team_set,
    f.PolicySet: policy_set,
    f.NodeAdmitted: node_admitted,
    f.NodeWithdrawn: node_withdrawn,
    f.NodeCordoned: service_asked,
    f.NodeUncordoned: service_asked,
    f.DrainRequested: service_asked,
    f.MaintenanceScheduled: maintenance_scheduled,
    f.HandOverRequested: hand_over,
}
