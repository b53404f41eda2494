"""The best alternative that a placement rejected, in words, for its certificate."""

from __future__ import annotations

from gangline.scheduler.core.entities import Node
from gangline.scheduler.core.fleet import Domain, Place, Shape, Tree, exactly
from gangline.scheduler.core.names import gpus_in_words, place_in_words


def runner_up(tree: Tree, shape: Shape, place: Place) -> str:
    """Where the gang would have gone without its place; to be asked before that is taken."""
    if place.domain is None:
        return _other_node(tree, place.parts[0][0])
    return _other_domain(tree, shape, place.domain)


def _other_node(tree: Tree, chosen: Node) -> str:
    """The next larger hole, or one of the same size."""
    free = tree.counted[chosen.name]
    same = exactly(tree.root, free) - 1
    if same:
        where = f"{same} other node{'s' if same > 1 else ''} with {gpus_in_words(free)} free"
        return f"{where}: in emptier domains, or later in order"
    for more in range(free + 1, len(tree.root.at_least)):
        if exactly(tree.root, more):
            return f"a node with {gpus_in_words(more)} free: leaves more of it unused"
    return "no other node holds it"


def _other_domain(tree: Tree, shape: Shape, chosen: Domain) -> str:
    """The domain of the same level with the next least room."""
    others = [d for d in tree.levels[chosen.depth] if d is not chosen and tree.holds(d, shape)]
    if not others:
        return f"no other {chosen.level} holds it" if chosen.depth else "no smaller domain holds it"
    per_node = shape.per_node

    def room(domain: Domain) -> tuple[int, int]:
        return (domain.at_least[per_node] if per_node else domain.free, domain.free)

    best = min(others, key=room)
    why = "is kept for jobs before it" if room(best) < room(chosen) else "has no less room"
    where = place_in_words(best.level, best.path)
    return f"{where} with {gpus_in_words(best.free)} free: {why}"
