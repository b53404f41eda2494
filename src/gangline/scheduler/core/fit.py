"""Whether a job could ever start, with everybody else gone and every node well."""

from __future__ import annotations

from gangline.events.spec import Spec, TopologyKind
from gangline.scheduler.core import quota
from gangline.scheduler.core.entities import Job, Node
from gangline.scheduler.core.fleet import NODE_LEVEL, Shape
from gangline.scheduler.core.keys import matches
from gangline.scheduler.core.names import gpus_in_words
from gangline.scheduler.core.state import State

Answer = tuple[str, str, str]


def shape_of_spec(spec: Spec) -> Shape:
    """What a spec needs of the tree."""
    topology = spec.topology
    return Shape(
        gpus=spec.gpus,
        per_node=spec.gpus_per_node or 0,
        level=topology.level if topology.kind is TopologyKind.REQUIRED else "",
        selector=tuple(sorted(spec.selector.items())) if spec.selector else (),
    )


def shape_of(job: Job) -> Shape:
    """The same of a job, remembered with it."""
    if isinstance(job.shape, Shape):
        return job.shape
    shape = job.shape = shape_of_spec(job.spec)
    return shape


def never_fits(state: State, spec: Spec) -> Answer | None:
    """Why a spec can never start: code, text, the nearest that could; None when it could.

    Counts nodes out of service and GPUs that are bad, as they may come back.
    """
    limit = quota.never(state, spec)
    shape = shape_of_spec(spec)
    most = most_gpus(state, shape)
    if limit is not None:
        needs = gpus_in_words(spec.gpus, limit.model)
        text = f"team {limit.team} may never hold {needs}, at most {limit.most}"
        most = min(most, quota.most_ever(state, spec))
        most -= most % (shape.per_node or 1)
        return "quota", text, f"gpus={most}" if most else ""
    if most >= spec.gpus:
        return None
    where = f"within one {shape.level}" if shape.level else "in the fleet"
    each = f" with {shape.per_node} on each node" if shape.per_node else ""
    text = (
        f"needs {gpus_in_words(spec.gpus)}{each} {where}, which holds at most {most} of that shape"
    )
    return "topology" if shape.level else "fleet", text, _nearest(state, shape, most)


def _nearest(state: State, shape: Shape, most: int) -> str:
    """The nearest request that could start."""
    if shape.level and most_gpus(state, shape._replace(level="")) >= shape.gpus:
        return f"gpus={shape.gpus} topology=any"
    if shape.per_node and most_gpus(state, shape._replace(per_node=0)) >= shape.gpus:
        return f"gpus={shape.gpus} without gpus_per_node"
    return f"gpus={most}" if most else ""


def most_gpus(state: State, shape: Shape) -> int:
    """The most GPUs of a shape's kind that the whole fleet, empty and well, could give one gang."""
    key = shape._replace(gpus=0)
    cached = state.fits.get(key)
    if isinstance(cached, int):
        return cached
    nodes = [n for n in state.nodes.values() if matches(n, shape.selector)]
    depth = state.tree.depth_of(shape.level)
    by_domain: dict[tuple[str, ...], int] = {}
    for node in nodes if depth is not None else ():
        domain = (*node.path, node.name) if shape.level == NODE_LEVEL else node.path[:depth]
        by_domain[domain] = by_domain.get(domain, 0) + _part(node, shape.per_node)
    most = max(by_domain.values(), default=0)
    state.fits[key] = most
    return most


def _part(node: Node, per_node: int) -> int:
    if not per_node:
        return node.gpus
    return per_node if node.gpus >= per_node else 0
