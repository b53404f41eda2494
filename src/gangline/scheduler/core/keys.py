"""What names entities, and what makes jobs alike."""

from __future__ import annotations

from gangline.scheduler.core.entities import Cell, Done, Entity, Job, Node, Reservation

GroupKey = tuple[object, ...]


def key_of(entity: Entity) -> tuple[str, str]:
    """What names an entity: its class and its own name."""
    kind = type(entity).__name__
    if isinstance(entity, Cell):
        return kind, ""
    if isinstance(entity, Reservation):
        return kind, entity.job
    if isinstance(entity, Job | Done):
        return kind, entity.id
    return kind, entity.name


def matches(node: Node, selector: tuple[tuple[str, str], ...]) -> bool:
    """Whether a node has all the labels."""
    return all(node.labels.get(key) == value for key, value in selector)


def selector_of(job: Job) -> tuple[tuple[str, str], ...]:
    """A job's selector in a form that can be a key."""
    return tuple(sorted(job.spec.selector.items())) if job.spec.selector else ()


def group_of(job: Job) -> GroupKey:
    """Jobs of one group get the same answer from one state of the fleet."""
    spec = job.spec
    return (
        spec.team,
        int(job.job_class),
        spec.gpus,
        spec.gpus_per_node or 0,
        job.required_level,
        spec.preemptible,
        selector_of(job),
    )
