"""The fleet as a tree of domains with free GPUs counted in each, and the search for a place in it.

Levels from the root down, as the nodes' paths name them (say spine, block), then `node`. Each
domain keeps how many GPUs are free in it and, for each k, how many of its nodes have at least k
free; both change with a node's free GPUs, so that whether a gang fits is a look-up.

A gang gets the lowest domain that holds it whole; among those of a level the fullest (best fit), so
that large holes stay whole. Inside it, whole sub-domains go first and the rest to the fullest
sub-domain that takes it, down to nodes. Without `gpus_per_node` the number of nodes is the least
the domain allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from gangline.scheduler.core.entities import Node

NODE_LEVEL: Final = "node"
ROOT_LEVEL: Final = "fleet"


@dataclass(slots=True, eq=False)
class Domain:
    """A part of the tree. at_least[k]: how many of its nodes have at least k free GPUs."""

    name: str
    level: str
    depth: int
    parent: Domain | None
    index: int = 0
    free: int = 0
    at_least: list[int] = field(default_factory=lambda: [0])
    children: list[Domain] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    @property
    def path(self) -> tuple[str, ...]:
        """Its name and those of the domains above it, outermost first, without the root."""
        path: list[str] = []
        at: Domain | None = self
        while at is not None and at.parent is not None:
            path.append(at.name)
            at = at.parent
        return tuple(reversed(path))


class Shape(NamedTuple):
    """What a gang needs of the tree. per_node: exactly so many on each node, 0 for any split.

    level: of the domain it may not cross, empty for the whole fleet. selector: labels a node must
    have.
    """

    gpus: int
    per_node: int
    level: str
    selector: tuple[tuple[str, str], ...] = ()

    @property
    def nodes(self) -> int:
        """How many nodes, where that is fixed; 0 otherwise."""
        return self.gpus // self.per_node if self.per_node else 0


class Place(NamedTuple):
    """Where a gang would stand.

    (node, GPUs there) in rank order, and the lowest domain that holds it.
    """

    parts: tuple[tuple[Node, int], ...]
    domain: Domain | None

    @property
    def level(self) -> str:
        """The level of the lowest domain that holds it whole."""
        return NODE_LEVEL if self.domain is None else self.domain.level


class Tree:
    """The domains of all nodes that match one selector."""

    def __init__(self) -> None:
        """Begin empty."""
        self.root = Domain("", ROOT_LEVEL, 0, None)
        self.by_path: dict[tuple[str, ...], Domain] = {(): self.root}
        self.levels: list[list[Domain]] = [[self.root]]
        self.leaf_of: dict[str, Domain] = {}
        self.counted: dict[str, int] = {}

    def add(self, node: Node) -> None:
        """Take a node in, with nothing free yet."""
        domain = self.root
        for depth, (level, name) in enumerate(zip(node.levels, node.path, strict=True), start=1):
            key = node.path[:depth]
            child = self.by_path.get(key)
            if child is None:
                child = Domain(name, level, depth, domain, index=len(domain.children))
                domain.children.append(child)
                self.by_path[key] = child
                while len(self.levels) <= depth:
                    self.levels.append([])
                self.levels[depth].append(child)
            domain = child
        domain.nodes.append(node)
        self.leaf_of[node.name] = domain
        self.counted[node.name] = 0
        self._widen(domain, node.gpus)

    def rank(self, node: Node) -> tuple[int, ...]:
        """Its place in a walk of the tree: neighbours in the tree are neighbours in rank."""
        path = [node.order]
        at: Domain | None = self.leaf_of[node.name]
        while at is not None and at.parent is not None:
            path.append(at.index)
            at = at.parent
        return tuple(reversed(path))

    @staticmethod
    def _widen(domain: Domain | None, gpus: int) -> None:
        while domain is not None:
            domain.at_least.extend([0] * (gpus + 1 - len(domain.at_least)))
            domain = domain.parent

    def remove(self, node: Node) -> None:
        """Let a node go."""
        self.count(node, 0)
        self.leaf_of.pop(node.name).nodes.remove(node)
        del self.counted[node.name]

    def count(self, node: Node, free: int) -> None:
        """Say how many of a node's GPUs are free now."""
        before = self.counted[node.name]
        if before == free:
            return
        self.counted[node.name] = free
        low, high, step = (before, free, 1) if free > before else (free, before, -1)
        change = free - before
        domain: Domain | None = self.leaf_of[node.name]
        while domain is not None:
            domain.free += change
            at_least = domain.at_least
            for k in range(low + 1, high + 1):
                at_least[k] += step
            domain = domain.parent

    # --- the search -------------------------------------------------------------------------------

    def holds(self, domain: Domain, shape: Shape) -> bool:
        """Whether the shape fits in the domain now."""
        if not shape.per_node:
            return domain.free >= shape.gpus
        per_node = shape.per_node
        at_least = domain.at_least
        return len(at_least) > per_node and at_least[per_node] * per_node >= shape.gpus

    def depth_of(self, level: str) -> int | None:
        """How deep a level is (root 0, nodes deepest); None for an unknown level."""
        if level in ("", ROOT_LEVEL):
            return 0
        if level == NODE_LEVEL:
            return len(self.levels)
        for depth, domains in enumerate(self.levels):
            if domains and domains[0].level == level:
                return depth
        return None

    def fits(self, shape: Shape) -> bool:
        """Whether `find` would find a place."""
        if not self.holds(self.root, shape):
            return False
        limit = self.depth_of(shape.level)
        if not limit:
            return limit is not None
        single = shape.gpus if shape.nodes in (0, 1) else 0
        if single and single < len(self.root.at_least) and self.root.at_least[single]:
            return True
        return limit < len(self.levels) and any(self.holds(d, shape) for d in self.levels[limit])

    def find(self, shape: Shape, *, within: Domain | None = None) -> Place | None:
        """The best place for the shape among free GPUs, in a domain or anywhere.

        None when there is none.
        """
        limit = self.depth_of(shape.level)
        top = within or self.root
        if limit is None or not self.holds(top, shape):
            return None
        single = shape.gpus if shape.nodes in (0, 1) else 0
        if single and single < len(top.at_least) and top.at_least[single]:
            return self._on_one_node(single, top)
        for depth in range(len(self.levels) - 1, max(limit, top.depth) - 1, -1):
            domain = self._fullest(depth, shape, within)
            if domain is not None:
                parts = self._split(domain, shape)
                return Place(tuple(sorted(parts, key=_by_rank)), domain)
        return None

    def _on_one_node(self, gpus: int, top: Domain) -> Place:
        """The node whose free GPUs are the fewest that do, in the fullest domains."""
        at_least = top.at_least
        exact = gpus
        while exact + 1 < len(at_least) and at_least[exact] == at_least[exact + 1]:
            exact += 1
        domain = top
        while domain.children:
            domain = min(
                (c for c in domain.children if _withexactly(c, exact)),
                key=lambda c: (c.free, c.index),
            )
        node = min(
            (n for n in domain.nodes if self.counted[n.name] == exact),
            key=lambda n: (len(n.strikes), n.order),
        )
        return Place(((node, gpus),), None)

    def _fullest(self, depth: int, shape: Shape, within: Domain | None) -> Domain | None:
        """Of the domains of a depth that hold the shape, the one with the least room."""
        best: Domain | None = None
        best_key: tuple[int, int] = (0, 0)
        per_node = shape.per_node
        for domain in self.levels[depth]:
            if not self.holds(domain, shape) or not is_part(domain, within):
                continue
            key = (domain.at_least[per_node] if per_node else domain.free, domain.free)
            if best is None or key < best_key:
                best, best_key = domain, key
        return best

    def _split(self, domain: Domain, shape: Shape) -> list[tuple[Node, int]]:
        if shape.per_node:
            return self._take_nodes(domain, shape.nodes, shape.per_node)
        return self._fewest_nodes(domain, shape.gpus)

    def _take_nodes(self, domain: Domain, wanted: int, per_node: int) -> list[tuple[Node, int]]:
        """`wanted` nodes with `per_node` free.

        Roomiest sub-domains first, the rest where it fits best.
        """
        if not domain.children:
            able = [n for n in domain.nodes if self.counted[n.name] >= per_node]
            able.sort(key=lambda n: (self.counted[n.name], len(n.strikes), n.order))
            return [(n, per_node) for n in able[:wanted]]
        parts: list[tuple[Node, int]] = []
        room = {
            c.index: c.at_least[per_node] for c in domain.children if len(c.at_least) > per_node
        }
        while wanted:
            whole = [c for c in domain.children if room.get(c.index, 0) >= wanted]
            if whole:
                child = min(whole, key=lambda c: (room[c.index], c.free, c.index))
            else:
                able_children = [c for c in domain.children if room.get(c.index, 0)]
                child = max(able_children, key=lambda c: (room[c.index], -c.free, -c.index))
            taken = min(wanted, room.pop(child.index))
            parts += self._take_nodes(child, taken, per_node)
            wanted -= taken
        return parts

    def _fewest_nodes(self, domain: Domain, gpus: int) -> list[tuple[Node, int]]:
        """Any split: the roomiest nodes first, the rest on the node that it fills best."""
        plan, last, rest = _node_plan(domain.at_least, gpus)
        parts = self._nodes_of(domain, plan)
        if rest:
            at = max(i for i, (_, free) in enumerate(parts) if free == last)
            parts[at] = (parts[at][0], rest)
        return parts

    def _nodes_of(self, domain: Domain, plan: dict[int, int]) -> list[tuple[Node, int]]:
        """Nodes with exactly so many free as the plan wants (free -> how many).

        In as few domains as may be.
        """
        if not domain.children:
            found = []
            left = dict(plan)
            for node in sorted(domain.nodes, key=lambda n: (len(n.strikes), n.order)):
                free = self.counted[node.name]
                if left.get(free):
                    left[free] -= 1
                    found.append((node, free))
            return found
        left = dict(plan)
        found = []
        # What a child covers only shrinks as others are taken, so an old figure is a bound.
        heap = [(-_covers(c, left), c.free, c.index) for c in domain.children]
        heapify(heap)
        while any(left.values()):
            covers, free, index = heappop(heap)
            child = domain.children[index]
            now = -_covers(child, left)
            if now > covers:
                heappush(heap, (now, free, index))
                continue
            part = {f: min(n, exactly(child, f)) for f, n in left.items() if n}
            found += self._nodes_of(child, {f: n for f, n in part.items() if n})
            for size, count in part.items():
                left[size] -= count
        return found


def is_part(domain: Domain, within: Domain | None) -> bool:
    """Whether a domain is another one, or lies in it; everything lies in None."""
    if within is None:
        return True
    at: Domain | None = domain
    while at is not None and at.depth > within.depth:
        at = at.parent
    return at is within


def _by_rank(part: tuple[Node, int]) -> tuple[int, ...]:
    return part[0].rank


def exactly(domain: Domain, free: int) -> int:
    """How many nodes of a domain have exactly so many GPUs free."""
    at_least = domain.at_least
    if free >= len(at_least):
        return 0
    return at_least[free] - (at_least[free + 1] if free + 1 < len(at_least) else 0)


def _withexactly(domain: Domain, free: int) -> bool:
    return exactly(domain, free) > 0


def _covers(domain: Domain, plan: dict[int, int]) -> int:
    return sum(free * min(n, exactly(domain, free)) for free, n in plan.items() if n)


def _node_plan(at_least: list[int], gpus: int) -> tuple[dict[int, int], int, int]:
    """How many nodes of each free count make up `gpus` with the fewest nodes.

    Returns the plan, and for the one node that is not filled: its free count and what is taken
    there (0, 0: none).
    """
    plan: dict[int, int] = {}
    left = gpus
    top = len(at_least) - 1
    exact = [at_least[k] - (at_least[k + 1] if k < top else 0) for k in range(top + 1)]
    for free in range(top, 0, -1):
        use = min(exact[free], left // free)
        if use:
            plan[free] = use
            exact[free] -= use
            left -= use * free
        if not left:
            return plan, 0, 0
        # What is left is less than this free count, or nothing of it is left: one more node may end
        # it.
        if exact[free] and left < free:
            last = next(k for k in range(left, free + 1) if exact[k])
            plan[last] = plan.get(last, 0) + 1
            return plan, last, (left if left < last else 0)
    return plan, 0, 0


def lowest_bits(mask: int, count: int) -> int:
    """`count` bits of the mask that lie together where they can.

    The smallest run that does, else the lowest.
    """
    runs = []
    start = -1
    for bit in range(mask.bit_length() + 1):
        if mask >> bit & 1:
            start = bit if start < 0 else start
        elif start >= 0:
            runs.append((bit - start, start))
            start = -1
    fitting = [r for r in runs if r[0] >= count]
    if fitting:
        return ((1 << count) - 1) << min(fitting)[1]
    chosen = 0
    for length, begin in sorted(runs, key=lambda r: (-r[0], r[1])):
        take = min(length, count)
        chosen |= ((1 << take) - 1) << begin
        count -= take
        if not count:
            break
    return chosen


def take_bits(mask: int, count: int) -> int:
    """The lowest `count` bits of the mask, or all where there are fewer."""
    taken = 0
    while mask and count:
        low = mask & -mask
        taken |= low
        mask &= ~low
        count -= 1
    return taken


def bits(mask: int) -> tuple[int, ...]:
    """The indices of the mask's bits, ascending."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def mask_of(indices: tuple[int, ...]) -> int:
    """The mask of some indices."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask
