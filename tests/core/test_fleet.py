"""Places in the fleet, against brute force on small random fleets."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.scheduler.core.entities import Node
from gangline.scheduler.core.fleet import Place, Shape, Tree, bits, lowest_bits, mask_of
from tests.core import make
from tests.support.examples import examples

LEVELS = ("spine", "block")
WIDEST = 4


def node(name: str, path: tuple[str, ...], order: int, gpus: int = WIDEST) -> Node:
    """A node that is all free."""
    return Node(
        name=name, order=order, path=path, levels=LEVELS, gpus=gpus, labels={}, public_key=b""
    )


def tree_of(free: Mapping[str, int]) -> Tree:
    """A tree of nodes named SPINE.BLOCK.NODE with so many free GPUs each."""
    tree = Tree()
    for order, (name, count) in enumerate(free.items(), start=1):
        spine, block, _ = name.split(".")
        one = node(name, (spine, block), order)
        tree.add(one)
        one.rank = tree.rank(one)
        tree.count(one, count)
    return tree


NAMES = st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2)).map(
    lambda at: f"s{at[0]}.b{at[1]}.n{at[2]}"
)
FLEETS = st.dictionaries(NAMES, st.integers(0, WIDEST), min_size=1, max_size=9)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """What a gang may need."""
    per_node = draw(st.integers(0, WIDEST))
    gpus = per_node * draw(st.integers(1, 6)) if per_node else draw(st.integers(1, 20))
    return Shape(gpus, per_node, draw(st.sampled_from(["", "spine", "block", "node"])))


def domains(free: Mapping[str, int], level: str) -> list[dict[str, int]]:
    """The free GPUs of each domain of a level; one of all nodes where there is none."""
    depth = {"": 0, "spine": 1, "block": 2, "node": 3}[level]
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for name, count in free.items():
        found.setdefault(tuple(name.split(".")[:depth]), {})[name] = count
    return list(found.values())


def could_hold(free: Mapping[str, int], shape: Shape) -> bool:
    """Whether the shape fits on these nodes, by counting."""
    if not shape.per_node:
        return sum(free.values()) >= shape.gpus
    return sum(1 for n in free.values() if n >= shape.per_node) * shape.per_node >= shape.gpus


def fewest(free: Mapping[str, int], gpus: int) -> int:
    """The fewest of these nodes that have so many GPUs free together."""
    sums = accumulate(sorted(free.values(), reverse=True))
    return next(i for i, total in enumerate(sums, start=1) if total >= gpus)


def taken(place: Place) -> dict[str, int]:
    """A place as GPUs by node."""
    return {node.name: count for node, count in place.parts}


@given(FLEETS, shapes())
@settings(max_examples=examples(100), deadline=None)
def test_a_place_is_found_exactly_when_there_is_one(free: dict[str, int], shape: Shape) -> None:
    """Within one domain of the level that it may not cross."""
    found = tree_of(free).find(shape)

    assert (found is not None) == any(could_hold(d, shape) for d in domains(free, shape.level))


@given(FLEETS, shapes())
@settings(max_examples=examples(100), deadline=None)
def test_a_place_is_what_was_asked_for(free: dict[str, int], shape: Shape) -> None:
    """All its GPUs, free ones, so many on each node, and no crossing of the required level."""
    found = tree_of(free).find(shape)

    if found is not None:
        parts = taken(found)
        assert sum(parts.values()) == shape.gpus
        assert all(0 < count <= free[name] for name, count in parts.items())
        assert not shape.per_node or set(parts.values()) == {shape.per_node}
        assert any(parts.keys() <= d.keys() for d in domains(free, shape.level))


@given(FLEETS, shapes())
@settings(max_examples=examples(100), deadline=None)
def test_a_gang_gets_the_lowest_domain_that_holds_it(free: dict[str, int], shape: Shape) -> None:
    """A node before a block, a block before a spine; and the fullest of those that do."""
    found = tree_of(free).find(shape)

    if found is not None:
        parts = taken(found)
        level = next(
            level
            for level in ("node", "block", "spine", "")
            if any(could_hold(d, shape) for d in domains(free, level))
        )
        inside = [d for d in domains(free, level) if parts.keys() <= d.keys()]
        assert inside
        able = [d for d in domains(free, level) if could_hold(d, shape)]
        assert sum(inside[0].values()) == min(sum(d.values()) for d in able) or shape.per_node


BLOCKS = st.lists(st.lists(st.integers(0, WIDEST), min_size=2, max_size=3), min_size=2, max_size=4)


@given(BLOCKS, st.integers(0, 2), st.integers(WIDEST + 1, 3 * WIDEST))
@settings(max_examples=examples(100), deadline=None)
def test_of_blocks_alike_the_fullest_is_taken(
    blocks: list[list[int]], per_node: int, gpus: int
) -> None:
    """So that large holes stay whole: fewest nodes that would do, then fewest free GPUs."""
    free = {
        f"s0.b{b}.n{n}": count for b, block in enumerate(blocks) for n, count in enumerate(block)
    }
    shape = Shape(gpus - gpus % (per_node or 1), per_node, "")
    able = [d for d in domains(free, "block") if could_hold(d, shape)]
    found = tree_of(free).find(shape)

    if able and found is not None and len(found.parts) > 1:
        (taken_from,) = [d for d in able if taken(found).keys() <= d.keys()]
        assert room(taken_from, per_node) == min(room(d, per_node) for d in able)


def room(domain: Mapping[str, int], per_node: int) -> tuple[int, int]:
    """Nodes that could take a member, where that is asked for, and free GPUs."""
    nodes = sum(1 for count in domain.values() if count >= per_node) if per_node else 0
    return nodes, sum(domain.values())


@given(FLEETS, shapes())
@settings(max_examples=examples(100), deadline=None)
def test_any_split_is_on_as_few_nodes_as_its_domain_allows(
    free: dict[str, int], shape: Shape
) -> None:
    """Where the gang does not say how many GPUs it wants on each node."""
    shape = shape._replace(per_node=0)
    found = tree_of(free).find(shape)

    if found is not None:
        parts = taken(found)
        level = "node" if found.domain is None else found.level
        level = "" if level == "fleet" else level
        (domain,) = [d for d in domains(free, level) if parts.keys() <= d.keys()]
        assert len(parts) == fewest(domain, shape.gpus)


@given(FLEETS, shapes())
@settings(max_examples=examples(100), deadline=None)
def test_members_stand_in_the_order_of_the_tree(free: dict[str, int], shape: Shape) -> None:
    """So that neighbours in a ring are near: no domain is entered twice."""
    found = tree_of(free).find(shape)

    if found is not None:
        for depth in (1, 2):
            walk = [tuple(n.name.split(".")[:depth]) for n, _ in found.parts]
            entered = [at for at, before in zip(walk, [None, *walk], strict=False) if at != before]
            assert len(entered) == len(set(entered))


CHANGES = st.lists(
    st.tuples(NAMES, st.integers(-1, WIDEST)),  # -1: the node leaves, or comes
    max_size=30,
)


@given(CHANGES)
@settings(max_examples=examples(100), deadline=None)
def test_counts_are_what_a_recount_gives(changes: list[tuple[str, int]]) -> None:
    """In every domain, after any changes, nodes that come and go included."""
    tree, free, nodes = Tree(), dict[str, int](), dict[str, Node]()
    for order, (name, count) in enumerate(changes):
        if name not in free:
            spine, block, _ = name.split(".")
            nodes[name] = node(name, (spine, block), order)
            tree.add(nodes[name])
            free[name] = 0
        elif count < 0:
            tree.remove(nodes[name])
            del free[name]
        if count >= 0:
            tree.count(nodes[name], count)
            free[name] = count

    for path, domain in tree.by_path.items():
        inside = [n for name, n in free.items() if tuple(name.split(".")[: len(path)]) == path]
        counted = [sum(1 for n in inside if n >= k) for k in range(len(domain.at_least))]
        assert domain.free == sum(inside)
        assert domain.at_least[1:] == counted[1:]


@given(FLEETS, shapes(), st.integers(0, 1), st.integers(0, 1))
@settings(max_examples=examples(100), deadline=None)
def test_a_search_within_a_domain_stays_there(
    free: dict[str, int], shape: Shape, spine: int, block: int
) -> None:
    """And finds a place exactly when that domain has one."""
    tree, path = tree_of(free), (f"s{spine}", f"b{block}")
    domain = tree.by_path.get(path)
    if domain is None:
        return
    inside = {name: n for name, n in free.items() if tuple(name.split(".")[:2]) == path}

    found = tree.find(shape, within=domain)

    able = [d for d in domains(inside, shape.level) if could_hold(d, shape)]
    assert (found is not None) == bool(able)
    assert found is None or taken(found).keys() <= inside.keys()


# --- GPUs of one node -----------------------------------------------------------------------------


@given(st.integers(0, 255), st.integers(1, 8))
@settings(max_examples=examples(100), deadline=None)
def test_gpus_are_taken_together_where_they_can_be(mask: int, count: int) -> None:
    """From the smallest run that holds them, so that long runs stay whole."""
    chosen = lowest_bits(mask, count)

    assert chosen & ~mask == 0
    assert chosen.bit_count() == min(count, mask.bit_count())
    runs = [(1 << count) - 1 << at for at in range(9 - count)]
    if any(run & mask == run for run in runs):
        assert chosen in runs


@pytest.mark.parametrize(
    ("free", "count", "chosen"),
    [
        ((0, 1, 2, 3, 4, 5, 6, 7), 2, (0, 1)),
        ((0, 1, 2, 4, 5), 2, (4, 5)),
        ((0, 2, 4, 6), 2, (0, 2)),
        ((0, 2, 3, 4, 6), 4, (0, 2, 3, 4)),
        ((1, 3), 5, (1, 3)),
    ],
)
def test_which_gpus_are_taken(free: tuple[int, ...], count: int, chosen: tuple[int, ...]) -> None:
    """Rows that a person can check."""
    assert bits(lowest_bits(mask_of(free), count)) == chosen


# --- stories --------------------------------------------------------------------------------------


def test_a_small_job_fills_the_node_that_it_fits_best() -> None:
    """Whole nodes stay whole for those who need them."""
    running = [make.gang("x", on="n1", gpus=6), make.gang("y", on="n2", gpus=5)]
    world = make.world(nodes=3, running=running)

    world.step(make.submitted("j", gpus=2))

    assert world.nodes_of("j") == {"n1"}


def test_a_gang_stays_in_one_block_when_one_holds_it() -> None:
    """Though a fuller mix of blocks would hold it too."""
    world = make.world(
        nodes={"s0/b0": 2, "s0/b1": 3},
        running=[make.gang("x", on="n0"), make.gang("y", on="n2", gpus=4)],
    )

    placed = make.only(world.step(make.submitted("j", gpus=16)), d.GangPlaced)

    assert world.nodes_of("j") == {"n3", "n4"}
    assert (placed.level, placed.crossed) == ("block", 2)


def test_a_gang_that_no_block_holds_crosses_as_few_as_it_can() -> None:
    """And says so."""
    world = make.world(nodes={"s0/b0": 2, "s0/b1": 2, "s1/b2": 2})

    placed = make.only(world.step(make.submitted("j", gpus=32)), d.GangPlaced)

    assert (placed.level, placed.crossed) == ("spine", 2)


@pytest.mark.parametrize(("level", "state"), [("block", "queued"), ("spine", "starting")])
def test_a_required_level_is_never_crossed(level: str, state: str) -> None:
    """The gang waits for room in one domain."""
    world = make.world(
        nodes={"s0/b0": 2, "s0/b1": 2},
        running=[make.gang("x", on="n0"), make.gang("y", on="n2")],
    )

    world.step(make.submitted("j", gpus=16, level=level))

    assert world.state_of("j") == state


def test_nodes_are_chosen_by_their_labels() -> None:
    """A job that selects a model waits for that model."""
    world = make.world(nodes=1)
    world.step(make.admitted("h", model="h100"), make.admitted("a", model="a100"))

    world.step(make.submitted("j", selector={"model": "a100"}))
    world.step(make.submitted("k", selector={"model": "a100"}))

    assert world.nodes_of("j") == {"a"}
    assert world.state_of("k") == "queued"
