"""A large gang past its bound starts when it was told to, whoever comes meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.events.spec import JobClass
from tests.core import make
from tests.core.test_plans import pass_time, plans, settle
from tests.support.examples import examples

RUNNING = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 9)), min_size=2, max_size=5)
CLASSES = st.sampled_from([make.LOW, make.NORMAL, make.HIGH, make.HIGH])
LATER = st.lists(
    st.tuples(
        st.integers(0, 40),  # minutes after the one before
        st.integers(1, 12),  # GPUs
        st.one_of(st.none(), st.integers(1, 20)),  # its limit in tens of minutes
        CLASSES,
    ),
    max_size=8,
)

# Whoever runs when the plan becomes firm has a limit: without one it may outlive what plans assume.
EARLY = st.lists(st.tuples(st.just(0), st.integers(1, 12), st.integers(1, 20), CLASSES), max_size=3)


def told_of(world: make.World) -> list[Any]:
    """Everything that was decided from now on is appended to this list."""
    told: list[Any] = []
    take = world.take

    def noted(given: make.Inputs) -> list[Any]:
        decisions = take(given)
        told.extend((given.now_ms, one) for one in decisions)
        return decisions

    world.take = noted  # type: ignore[method-assign]
    return told


def submit(world: make.World, name: str, gpus: int, tens: int | None, **fields: Any) -> None:
    """A job whose limit is in tens of minutes; whoever may start does."""
    limit_ms = None if tens is None else tens * 10 * make.MINUTE
    world.step(make.submitted(name, gpus, limit_ms=limit_ms, grace_ms=0, **fields))
    settle(world)


def waiting(running: Sequence[Any], later: Sequence[Any]) -> tuple[make.World, list[Any]]:
    """A cell with gangs that run, jobs that wait, and a large gang that is past its bound."""
    world = make.world(
        nodes=2, min_runtime=0, large_gang_gpus=16, large_gang_wait_bound=make.MINUTE
    )
    for index, (gpus, tens) in enumerate(running):
        submit(world, f"r{index}", gpus, tens)
    world.step(make.submitted("wide", 16, limit_ms=make.HOUR))
    for index, (_, gpus, tens, job_class) in enumerate(later):
        submit(world, f"early{index}", gpus, tens, job_class=job_class)
    told = told_of(world)
    pass_time(world, world.now_ms + make.MINUTE)
    return world, told


@pytest.mark.timeout(0)
@given(RUNNING, EARLY, LATER)
@example(
    [(2, 1), (2, 1)], [(0, 9, 2, JobClass.HIGH)],
    [(0, 1, None, JobClass.HIGH), (1, 6, 1, JobClass.HIGH)],
)  # fmt: skip
@settings(max_examples=examples(40), deadline=None)
def test_nobody_delays_a_firm_plan(
    running: Sequence[Any], early: Sequence[Any], later: Sequence[Any]
) -> None:
    """Of whatever class, by a free place or by eviction, asked for before it was firm or after."""
    world, told = waiting(running, early)
    firm = next((one for _, one in told if getattr(one, "kind", "") == "firm"), None)
    for index, (minutes, gpus, tens, job_class) in enumerate(later):
        pass_time(world, world.now_ms + minutes * make.MINUTE)
        submit(world, f"j{index}", gpus, tens, job_class=job_class)

    if firm is not None:
        pass_time(world, max(world.now_ms, firm.start_ms))
        placed = [at for at, one in told if isinstance(one, d.GangPlaced) and one.job == "wide"]
        assert placed[:1]
        assert placed[0] <= firm.start_ms


def test_a_plain_plan_becomes_firm_at_the_bound() -> None:
    """At the same place and time, when nothing else has changed."""
    world, told = waiting([(8, 3), (8, 6)], [])

    (firm,) = plans([one for _, one in told])

    assert (firm.job, firm.kind) == ("wide", "firm")
    assert firm.start_ms == world.now_ms - make.MINUTE + 60 * make.MINUTE


def test_firm_plans_on_the_same_nodes_leave_each_other_alone() -> None:
    """A plan that comes out as it was is no news for the others: hours bring no more decisions."""
    world = make.world(
        nodes=2, min_runtime=0, large_gang_gpus=16, large_gang_wait_bound=make.MINUTE
    )
    submit(world, "r0", 16, 60)
    submit(world, "a", 16, 6)
    submit(world, "b", 16, 6)
    world.wait(5 * make.MINUTE)
    settle(world)
    assert sorted(one.kind for one in world.state.reservations.values()) == ["firm", "firm"]
    told = told_of(world)

    world.wait(3 * make.HOUR)

    assert [one for _, one in told if isinstance(one, d.ReservationPlanned)] == []
