"""What a placement says of itself, worked out again: level, domains, ranks, loans, policy."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from gangline.events.spec import UNLIMITED
from gangline.replay.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gangline.events.decisions import GangPlaced
    from gangline.replay.model import ModelJob, ModelNode

FLEET = "fleet"
NODE = "node"


def placement_problems(model: Model, job: ModelJob, placed: GangPlaced) -> Iterator[str]:
    """What a placement says that is not so. Ask before it is folded."""
    nodes = [model.nodes[seat.node] for seat in placed.seats]
    for what, said, found in (
        ("level", placed.level, span(nodes)[0]),
        ("domains crossed", placed.crossed, span(nodes)[1]),
        ("GPUs borrowed", placed.borrowed, _borrowed(model, job)),
    ):
        if said != found:
            yield f"it says {what} {said}, by the decisions {found}"
    rank = 0
    for seat in placed.seats:
        if seat.first_rank != rank:
            yield f"the ranks on {seat.node} begin at {seat.first_rank}, not at {rank}"
        rank += len(seat.gpus)


def span(nodes: Sequence[ModelNode]) -> tuple[str, int]:
    """The lowest level that holds all nodes, and how many domains just below it they use."""
    if len(nodes) == 1:
        return NODE, 1
    shared = len(list(takewhile(_one_name, zip(*(node.path for node in nodes), strict=False))))
    level = nodes[0].levels[shared - 1] if shared else FLEET
    if all(len(node.path) == shared for node in nodes):
        return level, len(nodes)
    return level, len({node.path[: shared + 1] for node in nodes})


def _one_name(names: tuple[str, ...]) -> bool:
    return len(set(names)) == 1


def _borrowed(model: Model, job: ModelJob) -> int:
    """How many of its GPUs are beyond the guarantee of its team."""
    team = model.teams[job.spec.team]
    used = model.used()[team.team]
    return max(0, used + job.spec.gpus - team.guaranteed) - max(0, used - team.guaranteed)


def lending_problem(model: Model, job: ModelJob) -> str:
    """Whose lend limit a gang would break; empty for nobody's. Ask before it is folded.

    What a team does not lend of its idle guarantee is as good as used. A gang that stays inside
    the guarantee of its outermost team asks nobody.
    """
    if all(team.lend == UNLIMITED for team in model.teams.values()):
        return ""
    own = dict(model.own)
    own[job.spec.team] = own.get(job.spec.team, 0) + job.spec.gpus
    chain = list(model.branch(job.spec.team))
    for name in chain:
        team = model.teams[name]
        needs = _inside(model, name, own)
        if team.borrow != UNLIMITED and needs > team.guaranteed + team.borrow:
            return f"{name} and what its members keep: {needs} of {team.guaranteed + team.borrow}"
    if not chain or _inside(model, chain[-1], own) <= model.teams[chain[-1]].guaranteed:
        return ""
    capacity = sum(node.gpus for node in model.nodes.values())
    needs = sum(_needs(model, name, own) for name, team in model.teams.items() if not team.parent)
    return f"used and kept back: {needs} GPUs, there are {capacity}" if needs > capacity else ""


def _inside(model: Model, name: str, own: dict[str, int]) -> int:
    """What a branch uses, its own members' kept guarantees counted as used."""
    children = (child for child, team in model.teams.items() if team.parent == name)
    return own.get(name, 0) + sum(_needs(model, child, own) for child in children)


def _needs(model: Model, name: str, own: dict[str, int]) -> int:
    """What nobody outside a branch can have: its use, or what it does not lend."""
    team = model.teams[name]
    inside = _inside(model, name, own)
    return inside if team.lend == UNLIMITED else max(inside, team.guaranteed - team.lend)
