"""A job that is tried out starts when, and where, the same job starts when it is submitted."""

from __future__ import annotations

import pytest

from gangline.agents.simulated_gang import Program
from gangline.events.facts import NodeAdmitted, TeamSet
from gangline.events.spec import JobClass, Spec
from gangline.replay.trial import Forecast, forecast
from gangline.replay.world import World
from gangline.scheduler import core

HOUR = 3_600_000
RUNNING = Spec(team="vision", gpus=8, limit_ms=HOUR)


@pytest.fixture
def world() -> World:
    """Two nodes of 8 GPUs, one of them taken for an hour."""
    world = World(core)
    nodes = [NodeAdmitted(node=f"n{i}", levels=("block",), path=("b0",), gpus=8) for i in range(2)]
    world.admit(nodes)
    world.control(TeamSet(team="vision", guaranteed=8))
    world.control(TeamSet(team="speech", guaranteed=8))
    world.submit("old", RUNNING, Program(runtime_ms=HOUR))
    world.run(world.now_ms + 60_000)
    return world


def tried(world: World, spec: Spec) -> Forecast:
    """What is said of a job."""
    state = core.load(core.dump(world.state))
    return forecast(state, spec, now_ms=world.now_ms, enough=lambda: False)


def test_what_fits_starts_now_and_is_told_where(world: World) -> None:
    """The place is a whole node, the one that is free."""
    found = tried(world, Spec(team="speech", gpus=8))

    assert (found.verdict, found.start_ms, found.level) == ("now", world.now_ms, "node")
    taken = {seat.node for seat in world.state.jobs["old"].seats}
    assert {seat.node for seat in found.seats} == {"n0", "n1"} - taken


def test_what_must_wait_is_told_when_and_why_not_sooner(world: World) -> None:
    """It starts when the running gang's limit ends it, exactly as it then really does."""
    spec = Spec(team="speech", gpus=16)

    found = tried(world, spec)
    world.submit("new", spec, Program(runtime_ms=HOUR))
    world.run(world.now_ms + 3 * HOUR, watch=lambda: core.job_state(world.state, "new") != "queued")

    assert (found.verdict, found.reason, found.position) == ("later", "capacity", 1)
    assert "most is held by old (8)" in found.text
    assert found.start_ms == world.state.jobs["new"].placed_ms


def test_whom_it_would_move_is_named(world: World) -> None:
    """An urgent job takes the place of another, after its grace."""
    world.submit("other", Spec(team="speech", gpus=8), Program())
    world.run(world.now_ms + 60_000)

    found = tried(world, Spec(team="vision", gpus=8, job_class=JobClass.URGENT))

    assert (found.verdict, found.preempts) == ("later", ["other"])
    assert found.start_ms == world.now_ms + 60_000


def test_what_can_never_start_is_refused_with_what_could(world: World) -> None:
    """As at submission."""
    found = tried(world, Spec(team="vision", gpus=64))

    assert (found.verdict, found.nearest) == ("rejected", "gpus=16")
    assert found.start_ms is None


def test_of_an_array_the_first_task_is_followed(world: World) -> None:
    """It has its own name."""
    assert tried(world, Spec(team="speech", gpus=4, count=3)).verdict == "now"


def test_who_does_not_want_to_wait_for_an_answer_gets_what_is_known(world: World) -> None:
    """The reason, without a time."""
    state = core.load(core.dump(world.state))
    spec = Spec(team="speech", gpus=16)

    found = forecast(state, spec, now_ms=world.now_ms, enough=lambda: True)

    assert (found.verdict, found.reason, found.start_ms) == ("unknown", "capacity", None)


def test_a_silent_node_is_no_place(world: World) -> None:
    """It stays silent in the copy too."""
    free = ({"n0", "n1"} - {seat.node for seat in world.state.jobs["old"].seats}).pop()
    world.fail(free, for_ms=None)
    world.run(world.now_ms + 300_000)

    found = tried(world, Spec(team="speech", gpus=8))

    assert found.verdict == "later"
    assert free not in {seat.node for seat in found.seats}
