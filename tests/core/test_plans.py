"""Plans: a time and a place for what cannot start now, and who keeps off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.scheduler import core
from gangline.scheduler.core.lifecycle import Phase
from tests.core import make
from tests.support.examples import examples


def plans(decisions: Sequence[Any], job: str = "wide") -> list[Any]:
    """What was planned for a job."""
    return [one for one in make.of_kind(decisions, d.ReservationPlanned) if one.job == job]


def hole(**policy: Any) -> make.World:
    """Two nodes: one free, one busy for two hours more; a gang that needs both waits."""
    world = make.world(
        nodes=2,
        running=[
            make.gang(
                "old", on="n0", ran_ms=0, limit_ms=2 * make.HOUR, grace_ms=0, preemptible=False
            )
        ],
        **policy,
    )
    world.step(make.submitted("wide", 16))
    return world


def test_a_plan_is_for_when_the_gangs_that_run_are_sure_to_have_left() -> None:
    """By their declared limit and grace; and until its own end at the latest."""
    world = make.world(
        nodes=1,
        running=[make.gang("old", on="n0", ran_ms=0, limit_ms=make.HOUR, grace_ms=make.MINUTE)],
    )

    told = world.step(make.submitted("wide", 8, limit_ms=2 * make.HOUR, grace_ms=0))

    (plan,) = plans(told)
    assert (plan.kind, plan.start_ms - world.now_ms) == ("plan", make.HOUR + make.MINUTE)
    assert plan.end_ms - plan.start_ms == 2 * make.HOUR
    assert plan.seats == (d.ReservedSeat(node="n0", gpus=8),)


def test_a_gang_without_a_limit_is_assumed_to_run_for_the_default() -> None:
    """Doubled each time it is outlived."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0", ran_ms=30 * make.HOUR)])

    (plan,) = plans(world.step(make.submitted("wide", 8)))

    assert plan.start_ms - world.now_ms == (48 - 30) * make.HOUR + make.MINUTE


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"limit_ms": make.HOUR, "grace_ms": 0}, "starting"),
        ({"limit_ms": 2 * make.HOUR, "grace_ms": 0}, "starting"),
        ({"limit_ms": 2 * make.HOUR, "grace_ms": 1}, "queued"),
        ({"limit_ms": 3 * make.HOUR, "grace_ms": 0}, "queued"),
        ({}, "queued"),
    ],
)
def test_a_later_job_uses_the_hole_when_it_is_sure_to_have_left(
    fields: dict[str, Any], state: str
) -> None:
    """Its limit and grace end before the plan starts."""
    world = hole()

    world.step(make.submitted("small", 8, **fields))

    assert world.state_of("small") == state


def test_a_job_ahead_in_order_does_not_keep_off() -> None:
    """A plan binds those behind it."""
    world = hole()

    world.step(make.submitted("high", 8, job_class=make.HIGH))

    assert world.state_of("high") == "starting"


def test_the_firm_plan_of_a_large_gang_binds_everybody() -> None:
    """Of any class, as long as its bound is past."""
    world = hole(large_gang_gpus=16, large_gang_wait_bound=make.HOUR)

    told = world.wait(make.HOUR)
    world.step(make.submitted("high", 8, job_class=make.HIGH))

    assert [one.kind for one in plans(told)] == ["firm"]
    assert world.state_of("high") == "queued"


def test_also_a_firm_plan_leaves_the_hole_to_the_short() -> None:
    """Who has left before it starts delays nobody."""
    world = hole(large_gang_gpus=16, large_gang_wait_bound=make.HOUR)
    world.wait(make.HOUR)

    world.step(make.submitted("small", 8, limit_ms=30 * make.MINUTE, grace_ms=0))

    assert world.state_of("small") == "starting"


def test_a_plan_expires_at_its_time() -> None:
    """When the gang that was to leave has not left; then it is made again."""
    world = make.world(
        nodes=1, running=[make.gang("old", on="n0", ran_ms=0)], default_limit=make.HOUR
    )
    (first,) = plans(world.step(make.submitted("wide", 8)))

    told = world.wait(first.start_ms - world.now_ms)

    assert make.only(told, d.ReservationReleased).why == "expired"
    (second,) = plans(told)
    assert second.start_ms > first.start_ms


def test_a_plan_whose_node_is_out_is_let_go() -> None:
    """And made again on another, if there is one."""
    world = make.world(
        nodes=2,
        running=[
            make.gang("short", on="n0", ran_ms=0, limit_ms=make.HOUR),
            make.gang("long", on="n1", ran_ms=0, limit_ms=make.DAY),
        ],
    )
    (first,) = plans(world.step(make.submitted("wide", 8)))

    told = world.step(f.NodeCordoned(node="n0"))

    assert first.seats[0].node == "n0"
    assert make.only(told, d.ReservationReleased).why == "fault"
    assert plans(told)[0].seats[0].node == "n1"


def test_a_plan_is_made_again_only_when_gangs_came_or_went_on_its_nodes() -> None:
    """And not more often than the policy says."""
    world = make.world(
        nodes=3,
        running=[
            make.gang("j", on="n0", gpus=4, limit_ms=2 * make.HOUR),
            make.gang("k", on="n0", gpus=4, limit_ms=3 * make.HOUR),
            make.gang("l", on="n1", limit_ms=4 * make.HOUR),
            make.gang("far", on="n2", limit_ms=9 * make.HOUR),
        ],
    )
    world.step(make.submitted("wide", 16))

    assert plans(world.exits("far")) == []
    assert plans(world.exits("k")) == []
    (again,) = plans(world.wait(30 * make.SECOND))

    assert {seat.node for seat in again.seats} == {"n0", "n2"}
    assert again.start_ms - make.START == make.HOUR + make.MINUTE


def test_only_the_first_in_order_get_plans() -> None:
    """As many as the policy says."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0")], reservations=2)

    told = world.step(make.submitted("x", 8, count=5))

    planned = {one.job for one in make.of_kind(told, d.ReservationPlanned)}
    assert planned == {"x.1", "x.2"}


@pytest.mark.parametrize(
    ("limit_ms", "state"),
    [
        (make.HOUR - 1, "starting"),
        (make.HOUR, "starting"),
        (make.HOUR + 1, "queued"),
        (None, "queued"),
    ],
)
def test_no_job_is_placed_whose_limit_reaches_into_a_maintenance(
    limit_ms: int | None, state: str
) -> None:
    """Whatever its class."""
    world = make.world(nodes=1)
    world.step(f.MaintenanceScheduled(node="n0", in_ms=make.HOUR, for_ms=make.HOUR))

    world.step(make.submitted("j", 8, limit_ms=limit_ms, grace_ms=0, job_class=make.URGENT))

    assert world.state_of("j") == state


def test_held_and_cancelled_jobs_give_up_their_plans() -> None:
    """The hole is for those behind them."""
    world = hole()
    world.step(make.submitted("small", 8))
    assert world.state_of("small") == "queued"

    told = world.step(f.JobHoldRequested(job="wide"))

    assert make.of_kind(told, d.ReservationReleased)[0].why == "held"
    assert world.state_of("small") == "starting"


# --- a later job never delays a planned start -----------------------------------------------------

GANGS = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 9)), min_size=2, max_size=5)
LATER = st.lists(
    st.tuples(
        st.integers(0, 60),  # minutes after the one before
        st.integers(1, 12),  # GPUs
        st.one_of(st.none(), st.integers(1, 20)),  # its limit in tens of minutes
    ),
    max_size=8,
)


def settle(world: make.World) -> None:
    """Every gang that may start is ready, and every one that was told to stop is out."""
    for _ in range(40):
        jobs = [job for job in world.state.jobs.values() if job.phase is not Phase.RUNNING]
        starting = [job.id for job in jobs if job.phase is Phase.STARTING]
        stopping = [job.id for job in jobs if job.phase is Phase.STOPPING]
        if not starting and not stopping:
            return
        for name in starting:
            world.ready(name)
        for name in stopping:
            world.exits(name, reason="stopped")
    raise AssertionError("it does not settle")


def pass_time(world: make.World, until_ms: int) -> None:
    """Step by step; the limits end what runs."""
    while world.now_ms < until_ms:
        wake = core.next_wake(world.state)
        world.now_ms = until_ms if wake is None else max(world.now_ms, min(wake, until_ms))
        world.step()
        settle(world)


@given(GANGS, LATER)
@example([(1, 1), (1, 1), (7, 1), (8, 1), (8, 2)], [(0, 1, 2)])
@example([(5, 2), (7, 1), (5, 1), (6, 1), (1, 2)], [])
@settings(max_examples=examples(40), deadline=None)
def test_a_later_job_never_delays_a_planned_start(
    running: Sequence[Any], later: Sequence[Any]
) -> None:
    """Whatever comes behind it, the gang starts at its first planned time or before."""
    world = make.world(nodes=2, preemption_chain=0, min_runtime=0, cause_interval=make.DAY)
    for index, (gpus, tens) in enumerate(running):
        limit_ms = tens * 10 * make.MINUTE
        world.step(make.submitted(f"r{index}", gpus, limit_ms=limit_ms, grace_ms=0))
        settle(world)
    planned = plans(world.step(make.submitted("wide", 16)))
    for index, (minutes, gpus, tens_or_none) in enumerate(later):
        pass_time(world, world.now_ms + minutes * make.MINUTE)
        limit = None if tens_or_none is None else tens_or_none * 10 * make.MINUTE
        world.step(make.submitted(f"j{index}", gpus, limit_ms=limit, grace_ms=0))
        settle(world)

    if planned:
        pass_time(world, planned[0].start_ms)
        assert world.state_of("wide") == "running"
