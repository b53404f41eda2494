"""How well gangs are placed: against the lowest level that could hold them in the empty fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangline.replay.measures.fold import Fold
    from gangline.replay.measures.records import NodeRecord

NODE: Final = "node"
FLEET: Final = "fleet"


def placement_of(fold: Fold) -> dict[str, Any]:
    """The share of gangs at their best level, and how many levels they cross on average.

    A gang on one node crosses none, in one domain of the lowest level one, and so on. `multi_node`
    is the share among gangs that no node could hold.
    """
    order = [NODE, *reversed(fold.levels), FLEET]
    nodes = list(fold.nodes.values())
    best_of: dict[tuple[int, int], int] = {}
    gangs = best = wide = wide_best = crossed = 0
    for (gpus, per_node, level), count in fold.placed.items():
        shape = (gpus, per_node)
        if shape not in best_of:
            best_of[shape] = _best_level(nodes, gpus, per_node, depth=len(fold.levels))
        at = order.index(level) if level in order else len(order) - 1
        gangs += count
        crossed += at * count
        good = count if at <= best_of[shape] else 0
        best += good
        if best_of[shape]:
            wide += count
            wide_best += good
    return {
        "best_level": round(best / gangs, 6) if gangs else 1.0,
        "best_level_multi_node": round(wide_best / wide, 6) if wide else 1.0,
        "mean_levels_crossed": round(crossed / gangs, 6) if gangs else 0.0,
        "gangs": gangs,
    }


def _best_level(nodes: Sequence[NodeRecord], gpus: int, per_node: int, *, depth: int) -> int:
    """0 for a node, 1 for a domain of the lowest level, and so on; the fleet is the last."""
    if any(_holds([node], gpus, per_node) for node in nodes):
        return 0
    for up in range(1, depth + 1):
        domains: dict[tuple[str, ...], list[NodeRecord]] = {}
        for node in nodes:
            domains.setdefault(node.path[: depth - up + 1], []).append(node)
        if any(_holds(domain, gpus, per_node) for domain in domains.values()):
            return up
    return depth + 1


def _holds(nodes: Iterable[NodeRecord], gpus: int, per_node: int) -> bool:
    if per_node:
        return sum(per_node for node in nodes if node.gpus >= per_node) >= gpus
    return sum(node.gpus for node in nodes) >= gpus
