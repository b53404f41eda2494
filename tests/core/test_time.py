"""When time alone would matter next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangline.events import facts as f
from gangline.events.batch import Edge
from gangline.scheduler import core
from tests.core import make
from tests.core.life import Life

POLICY = {"cause_interval": 1}


def settled(world: make.World) -> make.World:
    """A world in which nothing is due."""
    world.wait(10)
    return world


def starting() -> make.World:
    """A gang makes ready."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"))
    return world


def limited() -> make.World:
    """A gang runs that has a limit."""
    running = [make.gang("j", on="n0", ran_ms=30 * make.MINUTE, limit_ms=make.HOUR)]
    return make.world(nodes=1, running=running)


def silent() -> make.World:
    """A node is silent."""
    world = make.world(nodes=1)
    world.step(edges=[make.silent("n0", world.now_ms)])
    return world


def in_grace() -> make.World:
    """A gang was told to stop, and has a grace of a minute."""
    world = make.world(nodes=1, running=[make.gang("j", on="n0", grace_ms=make.MINUTE)])
    world.step(f.JobCancelRequested(job="j"))
    return world


def drained() -> make.World:
    """A node is drained in five minutes."""
    world = make.world(nodes=1)
    world.step(f.DrainRequested(node="n0", deadline_ms=5 * make.MINUTE))
    return world


def announced() -> make.World:
    """A node will be in maintenance in an hour."""
    world = make.world(nodes=1)
    world.step(f.MaintenanceScheduled(node="n0", in_ms=make.HOUR, for_ms=make.HOUR))
    return world


def backed_off() -> make.World:
    """A job failed at once."""
    world = starting()
    world.ready("j")
    world.exits("j", code=1)
    return world


def quarantined() -> make.World:
    """A node is out for an hour."""
    world = make.world(nodes=1)
    world.step(*(f.FaultDetected(node="n0", gpu=gpu, fault="xid") for gpu in range(3)))
    return world


WAKES: list[tuple[Callable[[], make.World], int]] = [
    (starting, 2 * make.MINUTE),
    (limited, 30 * make.MINUTE),
    (silent, 2 * make.MINUTE),
    (in_grace, 2 * make.MINUTE),
    (drained, 5 * make.MINUTE),
    (announced, make.HOUR),
    (backed_off, 10 * make.SECOND),
    (quarantined, make.HOUR),
]


@pytest.mark.parametrize(("story", "after_ms"), WAKES, ids=[story.__name__ for story, _ in WAKES])
def test_the_core_says_when_to_wake_it(story: Callable[[], make.World], after_ms: int) -> None:
    """Then it decides something, and not before."""
    world = story()
    due_ms = world.now_ms + after_ms

    before = world.wait(after_ms - 1)

    assert make.kinds(before) == []
    assert core.next_wake(world.state) == due_ms
    assert make.kinds(world.wait(1)) != []


def test_an_idle_cell_is_never_woken() -> None:
    """Nothing will happen by itself."""
    world = make.world(nodes=2)
    world.wait(make.HOUR)

    assert core.next_wake(world.state) is None


def test_a_world_of_running_gangs_without_limits_is_left_alone() -> None:
    """When their protection is over nothing depends on time."""
    world = make.world(nodes=1, running=[make.gang("j", on="n0")])
    world.wait(make.DAY)

    assert core.next_wake(world.state) is None


def test_nothing_is_due_before_all_is_read() -> None:
    """The word of the members may stand in what was not read."""
    world = starting()
    world.later(make.HOUR)

    assert world.step(caught_up=False) == []
    assert make.kinds(world.step())[0] == "GangStartAborted"


@pytest.mark.parametrize("why", ["start", "takeover", "hand_over", "gap"])
def test_deadlines_that_wait_for_facts_start_again_with_a_new_leader(why: str) -> None:
    """Also after a gap in reading."""
    world = starting()
    led = Edge(kind="led", node="s2", at_ms=0, why=why)

    told = world.later(make.HOUR).step(edges=[led])

    assert make.kinds(told) == ["LeadershipTaken"]
    assert core.next_wake(world.state) == world.now_ms + 2 * make.MINUTE


@pytest.mark.parametrize(("why", "term"), [("start", 1), ("takeover", 1), ("gap", 0)])
def test_a_new_leader_is_a_new_term(why: str, term: int) -> None:
    """A gap is none."""
    world = make.world()

    world.step(edges=[Edge(kind="led", node="s2", at_ms=0, why=why)])

    assert world.state.cell.term == term
    assert world.state.cell.leader == "s2"


@pytest.mark.parametrize("seed", range(4))
def test_a_step_at_any_time_in_between_decides_nothing(seed: int) -> None:
    """What the core says of its next wake is true: it may sleep until then."""
    life = Life(seed)
    for _ in range(30):
        world = life.run(4)
        world.step()
        wake = core.next_wake(world.state)
        gap = 10 * make.MINUTE if wake is None else wake - world.now_ms
        if gap > 1:
            world.later(gap // 2)
            assert make.kinds(world.step()) == []
