"""Rules 1 and 2: what a place must be like, by the second memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events.spec import UNLIMITED, TopologyKind
from gangline.replay.broken_rule import BrokenRuleError, Rule
from gangline.replay.model import gpus_of
from gangline.replay.model_guarantees import guarantee, guaranteed_model, used_of

if TYPE_CHECKING:
    from gangline.events.decisions import GangPlaced, Seat
    from gangline.events.spec import Spec
    from gangline.replay.model import Model, ModelJob, ModelNode


def check_placed(model: Model, job: ModelJob, decision: GangPlaced) -> None:
    """A gang gets a place: nobody else's, whole, in the shape it asked for, within its limits."""
    if job.holds:
        raise BrokenRuleError(Rule.WHOLE_GANGS, f"{job.job} is placed twice")
    for gpu in gpus_of(decision.seats):
        taken = model.holders.get(gpu) or model.lingering.get(gpu)
        if taken is not None:
            raise BrokenRuleError(
                Rule.ONE_HOLDER, f"{gpu[0]} GPU {gpu[1]} of {taken[0]} given to {job.job}"
            )
    for seat in decision.seats:
        problem = _seat_problem(model, job.spec, seat)
        if problem:
            raise BrokenRuleError(Rule.WHOLE_GANGS, f"{job.job} on {seat.node}: {problem}")
    problem = _shape_problem(model, job.spec, decision.seats)
    if problem:
        raise BrokenRuleError(Rule.WHOLE_GANGS, f"{job.job} placed {problem}")
    _check_limits(model, job)
    _check_model(model, job)


def _seat_problem(model: Model, spec: Spec, seat: Seat) -> str:
    """Why a member cannot stand there; empty for no reason."""
    node = model.nodes.get(seat.node)
    if node is None:
        return "no such node"
    if not node.in_service:
        return f"the node is {node.health} and {node.service}"
    if node.bad.intersection(seat.gpus) or any(not 0 <= g < node.gpus for g in seat.gpus):
        return f"GPUs {seat.gpus} are not all there"
    if any(node.labels.get(key) != value for key, value in spec.selector.items()):
        return "the node lacks a label"
    if spec.gpus_per_node is not None and len(seat.gpus) != spec.gpus_per_node:
        return f"{len(seat.gpus)} GPUs, not {spec.gpus_per_node}"
    return ""


def _shape_problem(model: Model, spec: Spec, seats: tuple[Seat, ...]) -> str:
    """What is wrong with the place as a whole; empty for nothing."""
    total = sum(len(seat.gpus) for seat in seats)
    if total != spec.gpus or len({seat.node for seat in seats}) != len(seats):
        return f"with {total} GPUs on {len(seats)} seats, not {spec.gpus}"
    if spec.topology.kind is not TopologyKind.REQUIRED:
        return ""
    domains = {domain_of(model.nodes[seat.node], spec.topology.level) for seat in seats}
    return f"across {len(domains)} {spec.topology.level}s" if len(domains) > 1 else ""


def domain_of(node: ModelNode, level: str) -> str:
    """The domain of a level that a node is in; itself for the level `node`."""
    return node.path[node.levels.index(level)] if level in node.levels else node.node


def _check_limits(model: Model, job: ModelJob) -> None:
    """With the new gang, no branch above it is beyond its guarantee and borrow limit."""
    used = model.used()
    for name in model.branch(job.spec.team):
        team = model.teams[name]
        now = used[name] + job.spec.gpus
        if team.borrow != UNLIMITED and now > team.guaranteed + team.borrow:
            limit = team.guaranteed + team.borrow
            raise BrokenRuleError(Rule.LIMITS, f"{name} at {now} GPUs, its limit is {limit}")
        if not job.spec.preemptible and name == job.spec.team and now > team.guaranteed:
            raise BrokenRuleError(
                Rule.LIMITS, f"{job.job} cannot be preempted and is beyond {name}'s guarantee"
            )


def _check_model(model: Model, job: ModelJob) -> None:
    """Nobody could take back what such a gang borrowed of a model."""
    kind = "" if job.spec.preemptible else guaranteed_model(model, job.spec)
    team = job.spec.team
    if not kind or used_of(model, kind)[team] + job.spec.gpus <= guarantee(model, team, kind):
        return
    raise BrokenRuleError(
        Rule.LIMITS, f"{job.job} cannot be preempted and is beyond {team}'s guarantee of {kind}"
    )
