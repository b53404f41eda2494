"""Counting by brute force: what fits where, and who may not be overtaken. Small fleets only."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gangline.events.spec import UNLIMITED, TopologyKind
from gangline.replay.rules_of_place import domain_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gangline.events.spec import Spec
    from gangline.replay.model import Model, ModelJob, ModelNode


def plainly_possible(model: Model, spec: Spec) -> bool:
    """Whether nobody could say that it never starts: any shape, a known team, no limits."""
    if spec.topology.kind is TopologyKind.REQUIRED or spec.gpus_per_node is not None:
        return False
    if spec.after or spec.selector or not spec.preemptible or spec.team not in model.teams:
        return False
    if spec.topology.level and all(
        spec.topology.level not in (*node.levels, "node") for node in model.nodes.values()
    ):
        return False
    if any(model.teams[name].borrow != UNLIMITED for name in model.branch(spec.team)):
        return False
    if any(team.lend != UNLIMITED for team in model.teams.values()):
        return False
    return 1 <= spec.gpus <= sum(node.gpus for node in model.nodes.values())


def free_gpus(model: Model) -> dict[str, int]:
    """GPUs of each node that new work may use, whoever they are kept for."""
    taken = Counter(node for node, _ in (*model.holders, *model.lingering))
    bad_and_taken = Counter(
        name for name, gpu in (*model.holders, *model.lingering) if gpu in model.nodes[name].bad
    )
    return {
        name: max(0, node.in_service - taken[name] + bad_and_taken[name])
        for name, node in model.nodes.items()
    }


def fits(model: Model, spec: Spec, free: Mapping[str, int]) -> bool:
    """Whether a gang of this shape fits into what is free."""
    required = spec.topology.kind is TopologyKind.REQUIRED
    room: Counter[str] = Counter()
    for name, gpus in free.items():
        domain = domain_of(model.nodes[name], spec.topology.level) if required else ""
        room[domain] += _part(model.nodes[name], spec, gpus)
    return any(gpus >= spec.gpus for gpus in room.values())


def _part(node: ModelNode, spec: Spec, free: int) -> int:
    if any(node.labels.get(key) != value for key, value in spec.selector.items()):
        return 0
    if spec.gpus_per_node is None:
        return free
    return spec.gpus_per_node if free >= spec.gpus_per_node else 0


def within_limits(model: Model, spec: Spec) -> bool:
    """Whether its team and all above it may hold so much more, whoever would have to lend it."""
    used = model.used()
    if spec.team not in model.teams:
        return False
    if not spec.preemptible and used[spec.team] + spec.gpus > model.teams[spec.team].guaranteed:
        return False
    for name in model.branch(spec.team):
        team = model.teams[name]
        if team.borrow != UNLIMITED and used[name] + spec.gpus > team.guaranteed + team.borrow:
            return False
    return True


def lends_are_limited(model: Model) -> bool:
    """Whether somebody lends only so much, so that idle GPUs may rightly stay idle."""
    return any(team.lend != UNLIMITED for team in model.teams.values())


def overtaken(model: Model, job: ModelJob, excused: Collection[str]) -> str:
    """Who of the same team should have had a job's place; empty for nobody.

    Somebody of a higher class, or earlier in the same class, who is content with any part of it.
    excused: jobs that may not start yet. While room is kept for anybody, who is short goes first.
    """
    if model.claims or model.reservations:
        return ""
    for other in model.waiting.values():
        if other is job or other.spec.team != job.spec.team:
            continue
        if other.held_by or other.job in excused:
            continue
        if other.job_class < job.job_class or not _content(other.spec, job.spec):
            continue
        earlier = other.job_class > job.job_class or other.number < job.number
        large = job.spec.gpus >= model.policy.get("large_gang_gpus", 128)
        if earlier and not model.unfinished(other) and not large:
            return f"{other.job} ({other.spec.gpus} GPUs, {other.job_class}) came before it"
    return ""


def _content(spec: Spec, place: Spec) -> bool:
    """Whether it could take any place of the other's."""
    plain = spec.gpus_per_node is None and not spec.selector and spec.preemptible
    return plain and spec.topology.kind is not TopologyKind.REQUIRED and spec.gpus <= place.gpus
