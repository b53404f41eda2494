"""The smallest change that would start a waiting job: whoever makes it starts the job."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gangline.events import facts as f
from gangline.events.spec import Topology, TopologyKind
from gangline.events.terms import WaitCause
from gangline.scheduler.core import causes
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.remedies import Change
from gangline.scheduler.core.turn import Turn
from tests.core import make
from tests.core.test_plans import pass_time, settle
from tests.support.examples import examples

BLOCKS = {"s0/b0": 2, "s0/b1": 2, "s1/b0": 1}


def required(level: str) -> Topology:
    """Within one domain of the level; anywhere for none."""
    return Topology(kind=TopologyKind.REQUIRED, level=level) if level else Topology()


SHAPES = st.sampled_from(
    [
        {"gpus": gpus, "gpus_per_node": per_node, "topology": required(level)}
        for gpus, per_node in [
            (4, None),
            (8, None),
            (13, None),
            (16, 8),
            (8, 4),
            (24, 8),
            (30, None),
        ]
        for level in ("", "block", "spine", "node")
        if level != "node" or gpus <= 8
    ]
)
RUNNING = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9)), min_size=1, max_size=12)
OUT = st.sets(st.sampled_from([f"n{i}" for i in range(5)]), max_size=2)


def full(running: Iterable[tuple[int, int]], out: Iterable[str]) -> make.World:
    """A fleet with gangs that nobody may evict, and nodes that are out of service."""
    world = make.world(nodes=BLOCKS, cause_interval=make.DAY)
    for index, (gpus, tens) in enumerate(running):
        limit_ms = tens * 10 * make.MINUTE
        world.step(make.submitted(f"r{index}", gpus, job_class=make.HIGH, limit_ms=limit_ms))
        settle(world)
    for job in list(world.state.jobs.values()):
        if job.phase is Phase.QUEUED:
            world.step(f.JobCancelRequested(job=job.id))
    settle(world)
    for name in out:
        world.step(f.NodeCordoned(node=name))
    return world


def why(world: make.World, name: str) -> causes.Answer:
    """Why a job waits, with the change that would start it."""
    job = world.job(name)
    turn = Turn(world.state, world.now_ms, caught_up=True)
    return causes.explain(turn, job, Order(world.state, world.now_ms))


def within(world: make.World, change: Change) -> list[str]:
    """The nodes in service of the domain that the change names."""
    depth = len(change.within)
    return [
        node.name
        for node in world.state.nodes.values()
        if (*node.path, node.name)[:depth] == change.within and node.usable
    ]


def release(world: make.World, change: Change, chance: random.Random, per_node: int) -> None:
    """Gangs end, whichever they are, until as much is free as the change asks for."""
    lacking = [n for n in within(world, change) if world.node(n).avail.bit_count() < per_node]
    for name in chance.sample(lacking, change.nodes):
        for gang in list(world.node(name).gangs):
            if gang != "j":
                world.exits(gang)


def release_gpus(world: make.World, change: Change, chance: random.Random) -> None:
    """The same, counted in GPUs."""
    nodes = within(world, change)
    lacking = change.gpus
    gangs = sorted({gang for name in nodes for gang in world.node(name).gangs})
    for name in chance.sample(gangs, len(gangs)):
        lacking -= sum(len(s.gpus) for s in world.job(name).seats if s.node in nodes)
        world.exits(name)
        if lacking <= 0:
            return
    raise AssertionError(f"{change} asks for more than is held")


def make_it_so(world: make.World, change: Change, chance: random.Random, per_node: int) -> None:
    """Whatever the change says."""
    for name in change.back:
        world.step(f.NodeUncordoned(node=name))
    if change.nodes:
        release(world, change, chance, per_node)
    if change.gpus:
        release_gpus(world, change, chance)


@given(RUNNING, OUT, SHAPES, st.randoms(use_true_random=False))
@settings(max_examples=examples(120), deadline=None)
def test_who_makes_the_change_starts_the_job(
    running: Any, out: Any, shape: Any, chance: random.Random
) -> None:
    """Releases so many GPUs wherever it likes in the place named, or brings those nodes back."""
    world = full(running, out)
    world.step(make.submitted("j", **shape))
    assume(world.state_of("j") == "queued")
    answer = why(world, "j")
    asks = answer.change.gpus or answer.change.nodes or answer.change.back
    assert asks or "more nodes of its kind" in answer.text

    if asks:
        make_it_so(world, answer.change, chance, shape["gpus_per_node"] or 0)
        assert world.state_of("j") == "starting"


@given(RUNNING, st.integers(1, 16), st.integers(1, 30))
@settings(max_examples=examples(120), deadline=None)
def test_with_the_limit_that_is_named_it_starts_at_once(running: Any, gpus: int, tens: int) -> None:
    """A large gang has a plan; who is out before it may use the hole."""
    world = full(running, ())
    world.step(make.submitted("wide", 40, job_class=make.HIGH))
    limit_ms = tens * 10 * make.MINUTE
    world.step(make.submitted("j", gpus, limit_ms=limit_ms, grace_ms=0))
    assume(world.state_of("j") == "queued")
    answer = why(world, "j")
    assume(answer.cause is WaitCause.RESERVATION and answer.change.limit_ms)

    world.step(make.submitted("k", gpus, limit_ms=answer.change.limit_ms, grace_ms=0))

    assert answer.change.limit_ms < limit_ms
    assert world.state_of("k") == "starting"


@given(st.lists(st.integers(1, 8), min_size=5, max_size=9), st.integers(1, 5), st.integers(0, 9))
@settings(max_examples=examples(60), deadline=None)
def test_an_owner_starts_when_the_minimum_time_is_over(
    gangs: list[int], nodes: int, minutes: int
) -> None:
    """What was borrowed from it is protected for now; at the time named it is evicted."""
    teams = [make.team("a", 40), make.team("b", 0)]
    world = make.world(nodes=BLOCKS, teams=teams, cause_interval=make.DAY)
    for index, size in enumerate(gangs):
        world.step(make.submitted(f"r{index}", size, team="b"))
        settle(world)
        pass_time(world, world.now_ms + minutes * 20_000)
    world.step(make.submitted("j", 8 * nodes, gpus_per_node=8))
    assume(world.state_of("j") == "queued")
    answer = why(world, "j")
    assume(answer.change.at_ms)

    pass_time(world, answer.change.at_ms)

    assert world.state_of("j") != "queued"


def test_the_holder_and_the_place_are_named() -> None:
    """Of the block that lacks least."""
    world = make.world(
        nodes=BLOCKS,
        running=[
            make.gang("all", on=["n0", "n1"], gpus=16, job_class=make.HIGH),
            make.gang("part", on="n2", gpus=4, job_class=make.HIGH),
            make.gang("last", on="n4", job_class=make.HIGH),
        ],
    )
    world.step(make.submitted("j", 16, topology=required("block")))

    answer = why(world, "j")

    assert answer.change == Change(
        "starts when 4 more are released in block s0/b1", gpus=4, within=("s0", "b1")
    )
    assert answer.text.endswith("; most there is held by part (4)")


def test_the_nodes_that_would_do_are_named_with_what_ails_them() -> None:
    """Fewest first."""
    world = make.world(nodes=3, running=[make.gang("old", on="n0", job_class=make.HIGH)])
    world.step(f.NodeCordoned(node="n1"), f.NodeCordoned(node="n2"))
    world.step(make.submitted("j", 8))

    assert why(world, "j").change == Change(
        "starts when n1 (cordoned) is back in service", back=("n1",)
    )


def test_what_is_idle_and_not_lent_is_no_use_of_the_team() -> None:
    """An owner that gives back what it may not lend helps nobody: it has to be what is borrowed."""
    teams = [make.team("a", 16, lend=4), make.team("b", 0), make.team("c", 0)]
    world = make.world(nodes=2, teams=teams)
    for name, gpus, team in (("a1", 4, "a"), ("c1", 2, "c")):
        world.step(make.submitted(name, gpus, team=team))
    settle(world)
    world.step(make.submitted("j", 3, team="b"))

    text = why(world, "j").text
    world.exits("a1")
    waits = world.state_of("j")
    world.exits("c1")

    assert "of 16 in all, 14 are used, or idle and not lent" in text
    assert text.endswith("starts when 1 that are borrowed is released")
    assert (waits, world.state_of("j")) == ("queued", "starting")


def test_each_limit_that_stands_in_the_way_is_named() -> None:
    """Its team's and its parent's: what one of them has to release is not enough."""
    teams = [
        make.team("p", 0, borrow=16),
        make.team("c", 0, borrow=8, parent="p"),
        make.team("d", 0, parent="p"),
        make.team("z", 32),
    ]
    world = make.world(nodes=4, teams=teams)
    for name, gpus, team in (("c1", 2, "c"), ("c2", 4, "c"), ("d1", 10, "d")):
        world.step(make.submitted(name, gpus, team=team))
    settle(world)
    world.step(make.submitted("j", 4, team="c"))

    text = why(world, "j").text

    assert text.endswith("starts when 2 of team c are released and 4 of team p are released")


def test_the_limit_is_the_longest_that_does() -> None:
    """Of two nodes with announced maintenance it may have the one that goes later."""
    world = make.world(nodes=2)
    for node, hours in (("n0", 3), ("n1", 5)):
        world.step(f.MaintenanceScheduled(node=node, in_ms=hours * make.HOUR, for_ms=2 * make.HOUR))
    world.step(make.submitted("j", 8, gpus_per_node=8, limit_ms=10 * make.HOUR, grace_ms=0))

    limit_ms = why(world, "j").change.limit_ms
    world.step(make.submitted("k", 8, gpus_per_node=8, limit_ms=limit_ms, grace_ms=0))

    assert limit_ms == 5 * make.HOUR
    assert world.nodes_of("k") == {"n1"}
