"""What is guaranteed of single GPU models, and who stands on them, by the second memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangline.events.decisions import ReservedSeat, Seat
    from gangline.events.spec import Spec
    from gangline.replay.model import Model

LABEL = "model"


def guaranteed_models(model: Model) -> list[str]:
    """The models of which some team is guaranteed any."""
    found = (kind for team in model.teams.values() for kind, n in team.by_model.items() if n)
    return sorted(set(found))


def guaranteed_model(model: Model, spec: Spec) -> str:
    """The one of them that a job wants; empty for none."""
    wanted = spec.selector.get(LABEL, "")
    return wanted if wanted in guaranteed_models(model) else ""


def guarantee(model: Model, team: str, kind: str) -> int:
    """What a team is guaranteed of a model, or of all GPUs where that is empty.

    Who names no number for a model has what the teams under it have.
    """
    said = model.teams[team]
    if not kind:
        return said.guaranteed
    children = (t.team for t in model.teams.values() if t.parent == team)
    return said.by_model.get(kind, 0) or sum(guarantee(model, child, kind) for child in children)


def stands_on(model: Model, seats: Sequence[Seat | ReservedSeat], kind: str) -> int:
    """How many GPUs of a place are of a model."""
    return sum(_count(seat.gpus) for seat in seats if _model_of(model, seat.node) == kind)


def _model_of(model: Model, node: str) -> str:
    known = model.nodes.get(node)
    return known.labels.get(LABEL, "") if known is not None else ""


def _count(gpus: Iterable[int] | int) -> int:
    return gpus if isinstance(gpus, int) else len(list(gpus))


def used_of(model: Model, kind: str) -> dict[str, int]:
    """GPUs of a model that each team's branch holds."""
    used = dict.fromkeys(model.teams, 0)
    for job in model.holding.values():
        gpus = stands_on(model, job.seats, kind)
        for name in model.branch(job.spec.team):
            used[name] += gpus
    return used
