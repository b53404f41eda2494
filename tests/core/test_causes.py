"""Why a job waits: one row a code, each with all that come after it true as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.terms import WaitCause
from gangline.scheduler import core
from tests.core import make


def full(**policy: int) -> make.World:
    """One node, full; team `a` holds it, team `b` has a guarantee of 4 and may borrow 2."""
    return make.world(
        nodes=1,
        teams=[make.team("a", 4), make.team("b", 4, borrow=2)],
        running=[make.gang("old", on="n0", job_class=make.URGENT)],
        **policy,
    )


def waits_for_another() -> make.World:
    """It is held and beyond its limit too."""
    world = full()
    world.step(make.submitted("first", 6, team="b"))
    world.step(make.submitted("j", 6, team="b", after=("first",)), f.JobHoldRequested(job="j"))
    return world


def is_held() -> make.World:
    """It is beyond its limit too."""
    world = full()
    world.step(make.submitted("j", 6, team="b"), f.JobHoldRequested(job="j"))
    world.step(make.team("b", borrow=0))
    return world


def is_backed_off() -> make.World:
    """Its program fails at once."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"))
    world.ready("j")
    world.exits("j", code=1)
    return world


def is_beyond_its_limit() -> make.World:
    """There is no room either."""
    world = full()
    world.step(make.submitted("j", 6, team="b"))
    world.step(make.team("b", borrow=0))
    return world


def is_starting() -> make.World:
    """Its members make ready."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"))
    return world


def another_one_takes_the_place() -> make.World:
    """Victims are leaving for a job ahead; what is free already is kept for it."""
    world = make.world(nodes=2, running=[make.gang("low", on="n0", job_class=make.LOW, gpus=8)])
    world.step(make.submitted("urgent", 16, job_class=make.URGENT), make.submitted("j", 8))
    return world


def is_kept_off_by_a_plan() -> make.World:
    """One node is free, but a gang ahead will need both, and the job may run for longer."""
    running = [make.gang("old", on="n0", job_class=make.URGENT, limit_ms=2 * make.HOUR)]
    world = make.world(nodes=2, running=running)
    world.step(make.submitted("wide", 16))
    world.step(make.submitted("j", 8))
    return world


def is_kept_off_by_a_maintenance() -> make.World:
    """The job's limit reaches into the window."""
    world = make.world(nodes=1)
    world.step(f.MaintenanceScheduled(node="n0", in_ms=make.HOUR, for_ms=make.HOUR))
    world.step(make.submitted("j", 8))
    return world


def would_fit_if_all_were_well() -> make.World:
    """A node is cordoned."""
    world = make.world(nodes=2, running=[make.gang("old", on="n0", job_class=make.URGENT)])
    world.step(f.NodeCordoned(node="n1"), make.submitted("j", 8))
    return world


def lacks_the_shape() -> make.World:
    """Eight GPUs are free, but on two nodes."""
    running = [make.gang(f"old{i}", on=f"n{i}", gpus=4, job_class=make.URGENT) for i in range(2)]
    world = make.world(nodes=2, running=running)
    world.step(make.submitted("j", 8, gpus_per_node=8))
    return world


def lacks_room() -> make.World:
    """Everything is in use."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0", job_class=make.URGENT)])
    world.step(make.submitted("j", 8))
    return world


def waits_for_a_victims_time() -> make.World:
    """The borrower has not run for long enough to be reclaimed."""
    world = make.world(
        nodes=1,
        teams=[make.team("a", 0), make.team("b", 8)],
        running=[make.gang("old", on="n0", ran_ms=make.MINUTE)],
    )
    world.step(make.submitted("j", 8, team="b"))
    return world


def waits_for_its_victims() -> make.World:
    """They are leaving for it."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0", job_class=make.LOW)])
    world.step(make.submitted("j", 8, job_class=make.URGENT))
    return world


ROWS: list[tuple[WaitCause, Callable[[], make.World]]] = [
    (WaitCause.DEPENDENCY, waits_for_another),
    (WaitCause.HOLD, is_held),
    (WaitCause.HOLD, is_backed_off),
    (WaitCause.BORROW_LIMIT, is_beyond_its_limit),
    (WaitCause.STARTING, is_starting),
    (WaitCause.FAIR_SHARE, another_one_takes_the_place),
    (WaitCause.RESERVATION, is_kept_off_by_a_plan),
    (WaitCause.RESERVATION, is_kept_off_by_a_maintenance),
    (WaitCause.NODES_UNHEALTHY, would_fit_if_all_were_well),
    (WaitCause.TOPOLOGY, lacks_the_shape),
    (WaitCause.CAPACITY, lacks_room),
    (WaitCause.CAPACITY, waits_for_a_victims_time),
    (WaitCause.CAPACITY, waits_for_its_victims),
]


@pytest.mark.parametrize(("cause", "story"), ROWS, ids=[story.__name__ for _, story in ROWS])
def test_the_first_cause_that_holds_is_told(
    cause: WaitCause, story: Callable[[], make.World]
) -> None:
    """When asked, and in the record."""
    world = story()
    world.wait(2 * make.SECOND)

    assert world.cause("j") is cause
    assert cause is WaitCause.STARTING or world.job("j").cause == cause


def test_every_code_has_its_row() -> None:
    """Whoever adds one tells its story."""
    assert {cause for cause, _ in ROWS} == set(WaitCause)


TEXTS: list[tuple[Callable[[], make.World], str]] = [
    (waits_for_another, "waits for the success of first"),
    (is_held, "held by user:ann: no reason given"),
    (is_starting, "attempt 1 is starting"),
    (
        is_beyond_its_limit,
        "needs 6 GPUs; team b uses 0 and its guarantee and borrow limit are 4; starts when 2 of ",
    ),
    (lacks_the_shape, "needs 8 GPUs with 8 on each node in the shape it asks for"),
    (
        lacks_room,
        "starts when 8 more are released; most is held by old (8)",
    ),
    (waits_for_its_victims, "needs 8 GPUs; old is leaving for it"),
    (is_kept_off_by_a_maintenance, "what it needs of them is kept for an announced maintenance"),
    (is_kept_off_by_a_plan, "8 are free, but what it needs of them is kept for wide"),
]


@pytest.mark.parametrize(("story", "text"), TEXTS, ids=[story.__name__ for story, _ in TEXTS])
def test_the_text_gives_the_numbers(story: Callable[[], make.World], text: str) -> None:
    """What it needs, what there is, who holds it."""
    world = story()

    assert text in core.explain(world.state, "j", now_ms=world.now_ms)[1]


def test_like_jobs_are_told_together() -> None:
    """One decision for a group, not one for each."""
    world = lacks_room()
    world.wait(2 * make.SECOND)

    told = make.of_kind(world.step(make.submitted("x", 8, count=50)), d.WaitCauseChanged)
    told += make.of_kind(world.wait(make.MINUTE), d.WaitCauseChanged)

    assert sum(len(one.jobs) for one in told) == 50
    assert len(told) <= 2


def test_a_cause_that_stays_is_not_told_again() -> None:
    """The record is quiet when nothing changes."""
    world = lacks_room()
    world.wait(make.MINUTE)

    assert world.wait(make.HOUR) == []


def test_asking_does_not_change_the_answer() -> None:
    """The search looks at fleets as they might be, and puts everything back."""
    world = lacks_the_shape()
    before = core.state_digest(world.state), [n.avail for n in world.state.nodes.values()]
    free = world.state.tree.root.free

    once = core.explain(world.state, "j", now_ms=world.now_ms)

    assert core.explain(world.state, "j", now_ms=world.now_ms) == once
    assert [n.avail for n in world.state.nodes.values()] == before[1]
    assert world.state.tree.root.free == free


def test_an_unknown_job_has_no_cause() -> None:
    """Nor has one that ended."""
    with pytest.raises(KeyError):
        core.explain(make.world().state, "ghost", now_ms=make.START)


@pytest.mark.parametrize("anew", [False, True], ids=["who stepped", "from a snapshot"])
def test_who_came_back_before_all_was_read_is_explained_then(anew: bool) -> None:  # noqa: FBT001
    """Not only when all causes are due: by then it would have waited without any."""
    world = make.world(
        nodes=1, running=[make.gang("j", on="n0", retries=3)], cause_interval=make.HOUR
    )
    world.step(f.NodeCordoned(node="n0"))
    told = world.step(world.exited("j", "n0", code=1), caught_up=False)
    assert "JobRequeued" in make.kinds(told)
    assert not make.of_kind(told, d.WaitCauseChanged)
    if anew:
        world.state = core.load(list(core.dump(world.state)))

    told = world.step()

    assert make.only(told, d.WaitCauseChanged).jobs == ("j",)
