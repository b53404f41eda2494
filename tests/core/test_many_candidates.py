"""Victims among more than ten candidates: how far from the cheapest they may be."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gangline.events.spec import JobClass
from gangline.scheduler.core.entities import Job
from gangline.scheduler.core.victims import FEW, lost_gpu_ms
from tests.core import make
from tests.core.test_claims import cost, preempted
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(0)

NODES: Final = 4
GPUS: Final = 4
LARGEST: Final = 2
FLEETS: Final = 300
PER_NODE: Final = (0, 0, 1, 2, 3, GPUS)
GANGS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, LARGEST]),  # its GPUs
        st.integers(0, NODES - 1),  # its node
        st.sampled_from([make.LOW, make.NORMAL, make.HIGH]),
        st.integers(1, 4),  # minutes that it has run
        st.booleans(),  # whether it saves
    ),
    min_size=14,
    max_size=20,
)
Cost = tuple[int, ...]


def added(one: Cost, other: Cost) -> Cost:
    """Two costs together."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def to_free(world: make.World, jobs: Sequence[Job]) -> dict[int, Cost]:
    """What it costs at least to free so many GPUs of those that these hold.

    As the order of costs does not change when the same is added to both, what is cheapest for a
    number is made of what is cheapest for fewer.
    """
    found = {0: cost(world, ())}
    for job in jobs:
        for freed, costs in sorted(found.items(), reverse=True):
            more, dearer = freed + job.gpus, added(costs, cost(world, [job]))
            found[more] = min(found.get(more, dearer), dearer)
    return found


def cheapest(world: make.World, jobs: Sequence[Job], gpus: int, per_node: int) -> Cost:
    """What victims for such a claimant cost at least."""
    if not per_node:
        free = sum(node.avail.bit_count() for node in world.state.nodes.values())
        return min(c for freed, c in to_free(world, jobs).items() if freed + free >= gpus)
    by_node = []
    for name, node in world.state.nodes.items():
        there = to_free(world, [job for job in jobs if job.seats[0].node == name])
        free = node.avail.bit_count()
        by_node.append(min(c for freed, c in there.items() if freed + free >= per_node))
    total = cost(world, ())
    for costs in sorted(by_node)[: gpus // per_node]:
        total = added(total, costs)
    return total


def asked(world: make.World, gpus: int, per_node: int) -> tuple[Cost, Cost, list[Job]]:
    """What the victims of such a claimant cost, what the cheapest would, and who could be one."""
    before = list(world.state.jobs.values())
    if per_node:
        gpus = max(per_node, min(gpus, NODES * per_node) // per_node * per_node)
    least = cheapest(world, before, gpus, per_node)
    told = world.step(
        make.submitted("j", gpus, job_class=make.URGENT, gpus_per_node=per_node or None)
    )
    return cost(world, [one for one in before if one.id in preempted(told)]), least, before


@given(GANGS, st.integers(1, NODES * GPUS), st.sampled_from(PER_NODE))
@settings(max_examples=examples(120), deadline=None)
def test_victims_among_many_are_nearly_the_cheapest(
    gangs: Sequence[Any], gpus: int, per_node: int
) -> None:
    """In the highest class in which they are not, the gap is small.

    At most the GPUs of one gang more, a gang more on each node, and the GPU-time that two gangs
    would lose. No class is hit that need not be.
    """
    world = make.crowd(gangs, nodes=NODES, gpus=GPUS)
    assume(len(world.state.jobs) > FEW)

    hit, least, before = asked(world, gpus, per_node)

    assert hit >= least
    differs = next(
        (at for at in range(0, len(hit), 3) if hit[at : at + 3] != least[at : at + 3]), 0
    )
    lost, taken, jobs = (hit[differs + part] - least[differs + part] for part in range(3))
    most = max(lost_gpu_ms(one, world.now_ms) for one in before)
    assert (lost <= 2 * most, taken <= LARGEST, jobs <= NODES) == (True, True, True)
    assert any(least[differs : differs + 3]) or not any(hit[differs : differs + 3])


@pytest.mark.parametrize(
    ("classes", "part"), [((make.LOW, make.NORMAL, make.HIGH), 95), ((make.NORMAL,), 80)]
)
def test_victims_among_many_are_mostly_the_cheapest(classes: Sequence[JobClass], part: int) -> None:
    """On the same few hundred fleets each time; in so many of a hundred."""
    found = []
    for seed in range(FLEETS):
        chance = random.Random(seed)  # noqa: S311 - a seeded draw
        world = make.crowd(drawn(chance, classes), nodes=NODES, gpus=GPUS)
        if len(world.state.jobs) > FEW:
            hit, least, _ = asked(world, chance.randint(1, 16), chance.choice(PER_NODE))
            found.append(hit == least)

    assert len(found) > FLEETS // 2
    assert sum(found) >= len(found) * part // 100


def drawn(
    chance: random.Random, classes: Sequence[JobClass]
) -> list[tuple[int, int, JobClass, int, bool]]:
    """Gangs as `GANGS` has them, by a seed."""
    return [
        (
            chance.choice([1, 1, 1, LARGEST]),
            chance.randrange(NODES),
            chance.choice(classes),
            chance.randint(1, 4),
            chance.random() < 1 / 2,
        )
        for _ in range(chance.randint(14, 20))
    ]
