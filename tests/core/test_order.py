"""The order of the queue: total, and each of its keys in its place."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.events.spec import JobClass
from gangline.scheduler.core.entities import Job
from gangline.scheduler.core.order import Order, shares
from tests.core import make
from tests.support.examples import examples

TEAMS = [make.team("a", 8), make.team("b", 0), make.team("c", 0, weight=3)]


def busy(*waiting: Any, after_ms: int = 0, **policy: int) -> make.World:
    """A full node on which teams `b` and `c` hold 4 GPUs each, and what waits for it.

    Each waiting job is submitted in a step of its own, a millisecond after the one before.
    """
    running = [make.gang(f"old-{team}", on="n0", gpus=4, team=team) for team in ("b", "c")]
    world = make.world(nodes=1, teams=TEAMS, running=running, preemption_chain=0, **policy)
    for one in waiting:
        world.later(1).step(one)
    world.later(after_ms)
    return world


def in_order(world: make.World) -> list[str]:
    """The waiting jobs as the scheduler would try them."""
    order = Order(world.state, world.now_ms)
    waiting = [job for job in world.state.jobs.values() if not job.seats]
    return [job.id for job in sorted(waiting, key=order.key)]


def test_class_comes_first() -> None:
    """Whatever the age."""
    classes = [make.LOW, make.NORMAL, make.HIGH, make.URGENT]
    world = busy(*(make.submitted(one.word, 1, team="b", job_class=one) for one in classes))

    assert in_order(world) == ["urgent", "high", "normal", "low"]


def test_within_a_class_a_large_gang_past_its_bound_comes_first() -> None:
    """Before teams that are below their guarantee."""
    world = busy(
        make.submitted("guaranteed", 1, team="a"),
        make.submitted("large", 8, team="b"),
        make.submitted("urgent", 1, team="b", job_class=make.URGENT),
        large_gang_gpus=8,
        large_gang_wait_bound=make.HOUR,
    )
    assert in_order(world) == ["urgent", "guaranteed", "large"]

    assert in_order(world.later(make.HOUR)) == ["urgent", "large", "guaranteed"]


def test_then_teams_that_use_less_than_their_guarantee() -> None:
    """Whatever their share."""
    world = busy(make.submitted("borrows", 1, team="b"), make.submitted("inside", 1, team="a"))

    assert in_order(world) == ["inside", "borrows"]


def test_then_teams_below_their_share() -> None:
    """`c` weighs three times as much, and has used as much as `b`."""
    world = busy(make.submitted("b", 4, team="b"), make.submitted("c", 4, team="c"))

    assert in_order(world) == ["c", "b"]


def test_then_age() -> None:
    """By the log's time of the submission, also after a requeue."""
    world = busy(*(make.submitted(name, 1, team="b") for name in ("z", "m", "a")))

    assert in_order(world) == ["z", "m", "a"]


def test_then_the_number() -> None:
    """Of two of one instant, whoever stands first in the log."""
    world = busy()
    world.step(*(make.submitted(name, 1, team="b") for name in ("z", "m", "a")))

    assert in_order(world) == ["z", "m", "a"]


JOBS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(list(JobClass)),
        st.integers(1, 8),
        st.integers(0, 2),
    ),
    max_size=8,
)


@given(JOBS, st.randoms(use_true_random=False))
@settings(max_examples=examples(40), deadline=None)
def test_any_two_jobs_have_an_order_and_it_is_one(jobs: list[Any], chance: Any) -> None:
    """However they were listed, they sort the same, and no two keys are equal."""
    world = busy(large_gang_gpus=4, large_gang_wait_bound=2)
    for index, (team, job_class, gpus, later) in enumerate(jobs):
        one = make.submitted(f"j{index}", gpus, team=team, job_class=job_class)
        world.later(later).step(one)
    order = Order(world.state, world.now_ms)
    mixed: list[Job] = list(world.state.jobs.values())
    chance.shuffle(mixed)

    once = sorted(world.state.jobs.values(), key=order.key)

    assert sorted(mixed, key=order.key) == once
    assert all(order.key(one) < order.key(other) for one, other in pairwise(once))
    assert all(order.key(job)[-1] == job.number for job in once)


def test_a_team_without_demand_has_no_share() -> None:
    """What it does not want goes to the others by weight."""
    world = busy(make.submitted("b", 4, team="b"), make.submitted("c", 4, team="c"))

    assert shares(world.state) == {"a": (1,), "b": (1,), "c": (0,)}


def test_shares_are_split_level_by_level() -> None:
    """Of two parents alike, the one that used less comes first, whatever its children did."""
    world = make.world(
        nodes=1,
        teams=[
            make.team("p"),
            make.team("q"),
            make.team("busy", parent="p"),
            make.team("new", parent="p"),
            make.team("calm", parent="q"),
        ],
        running=[
            make.gang("one", on="n0", gpus=6, team="busy"),
            make.gang("two", on="n0", gpus=2, team="calm"),
        ],
        preemption_chain=0,
    )
    world.step(*(make.submitted(team, 4, team=team) for team in ("busy", "new", "calm")))

    assert in_order(world) == ["calm", "new", "busy"]


def test_past_use_is_forgotten_by_half_lives() -> None:
    """What was used days ago counts for little."""
    world = make.world(
        nodes=1,
        teams=[make.team("early"), make.team("late")],
        running=[make.gang("x", on="n0", team="early", ran_ms=make.HOUR)],
        preemption_chain=0,
    )
    world.exits("x")
    world.wait(5 * make.DAY)
    world.run(make.gang("y", on="n0", team="late"))
    world.later(make.HOUR).step(
        make.submitted("late", 8, team="late"), make.submitted("early", 8, team="early")
    )

    assert in_order(world) == ["early", "late"]


@pytest.mark.parametrize("gap_ms", [1, make.SECOND, make.MINUTE])
def test_use_counts_however_often_gangs_come_and_go(gap_ms: int) -> None:
    """A team of many short jobs has used as much as one with a long one."""
    world = make.world(nodes=1, teams=[make.team("a")])
    for index in range(20):
        world.run(make.gang(f"j{index}", on="n0"))
        world.later(gap_ms).exits(f"j{index}")

    used = world.state.usage_of(world.team("a"), make.DAY, world.now_ms)

    assert abs(used - 20 * gap_ms * 8) <= 20 * gap_ms * 8 // 100 + 40
