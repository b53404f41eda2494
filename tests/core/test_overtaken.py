"""An urgent job that comes while victims leave for another: nobody starts only to be evicted."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import decisions as d
from tests.core import make


def two_claims(*, urgent: int, **second: Any) -> make.World:
    """Two high jobs wait for a victim each, on two nodes, and an urgent one wants `urgent` GPUs."""
    world = make.world(
        nodes=2,
        running=[make.gang(f"v{i}", on=f"n{i}", job_class=make.LOW) for i in range(2)],
        min_runtime=0,
    )
    world.step(make.submitted("h0", job_class=make.HIGH))
    world.step(make.submitted("h1", **{"job_class": make.HIGH, **second}))
    world.step(make.submitted("urgent", urgent, job_class=make.URGENT))
    return world


def all_leave(world: make.World) -> list[Any]:
    """Both victims are out in one moment."""
    leave = [world.exited(f"v{i}", f"n{i}", reason="stopped") for i in range(2)]
    return world.step(*leave)


def let_go(told: list[Any]) -> set[tuple[str, str]]:
    """Which claims were let go, and why."""
    return {
        (one.job, one.why)
        for one in make.of_kind(told, d.ReservationReleased)
        if one.why != "started" and one.job != "urgent"
    }


def test_the_one_that_is_last_in_order_gives_way() -> None:
    """One place is enough for the urgent job; who came first has the other."""
    world = two_claims(urgent=8)

    assert let_go(all_leave(world)) == {("h1", "overtaken")}
    assert [world.state_of(one) for one in ("urgent", "h0", "h1")] == [
        "starting",
        "starting",
        "queued",
    ]


def test_claims_make_room_together() -> None:
    """Where one place is not enough."""
    world = two_claims(urgent=16)

    assert let_go(all_leave(world)) == {("h0", "overtaken"), ("h1", "overtaken")}
    assert world.state_of("urgent") == "starting"


@pytest.mark.parametrize("second", [{"preemptible": False}, {"job_class": make.URGENT}])
def test_who_could_not_be_evicted_does_not_give_way(second: dict[str, Any]) -> None:
    """Whether its class or its spec says so; and what is not enough is left alone."""
    world = two_claims(urgent=16, **second)

    assert let_go(all_leave(world)) == set()
    assert [world.state_of(one) for one in ("urgent", "h0", "h1")] == [
        "queued",
        "starting",
        "starting",
    ]


def test_one_that_may_not_run_anyway_overtakes_nobody() -> None:
    """Its team's limit stands in the way, not the place."""
    world = make.world(
        nodes=1,
        teams=[make.team("a", 8), make.team("b", 0, borrow=0)],
        running=[make.gang("v", on="n0", job_class=make.LOW)],
        min_runtime=0,
    )
    world.step(make.submitted("high", job_class=make.HIGH))
    world.step(make.submitted("urgent", team="b", job_class=make.URGENT))

    told = world.exits("v", reason="stopped")

    assert let_go(told) == set()
    assert world.state_of("high") == "starting"
