"""Failures of a program and of machines: whose they are, what they cost, what follows."""

from __future__ import annotations

import pytest

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.terms import StopCause
from tests.core import make


def test_a_member_that_fails_brings_the_others_down() -> None:
    """With a short grace; one retry is used."""
    world = make.two_members()

    stopping = make.only(world.exits("j", "n0", code=1), d.GangStopping)
    requeued = make.only(world.exits("j", "n1", **make.STOPPED), d.JobRequeued)

    assert (stopping.cause, stopping.grace_ms) == (StopCause.USER, 5 * make.SECOND)
    assert (requeued.cause, requeued.retries_used) == (StopCause.USER, 1)


def test_a_job_that_has_used_its_retries_fails() -> None:
    """With the code of its program."""
    world = make.two_members(retries=0)

    finished = make.only(world.exits("j", code=3), d.JobFinished)

    assert (finished.outcome, finished.reason, finished.code) == ("failed", "exit code 3", 3)


def test_without_a_word_of_the_jobs_the_policy_says_how_many_retries() -> None:
    """One here: the second failure is the last."""
    world = make.world(nodes=1, running=[make.gang("j", on="n0")], retries=1)
    world.exits("j", code=1)
    world.ready("j")

    world.later(make.HOUR).exits("j", code=1)

    assert world.state_of("j") == "failed"


@pytest.mark.parametrize("reason", ["infrastructure", "hung"])
def test_the_machines_failures_are_free(reason: str) -> None:
    """Whatever the code was."""
    world = make.two_members(retries=0)

    told = world.exits("j", code=1, reason=reason)

    requeued = make.only(told, d.JobRequeued)
    assert (requeued.cause, requeued.retries_used) == (StopCause.INFRASTRUCTURE, 0)
    assert {one.reason for one in told if isinstance(one, d.MemberEnded)} == {reason}


def test_a_job_that_hangs_on_one_node_after_another_is_held() -> None:
    """Though no retry is lost: somebody has to look at it."""
    world = make.world(nodes=8)
    world.step(make.submitted("j", retries=0))
    told: list[d.Decision] = []
    for _ in range(5):
        world.ready("j")
        world.step(f.NodeCordoned(node=world.members("j")[0]))
        told = world.later(make.MINUTE).exits("j", code=-9, reason="hung")

    assert make.only(told, d.JobHeld).by == "scheduler"


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [(5_000, 4_000, 1), (4_000, 5_000, 3), (0, 5_000, 1), (0, 0, 3), (4_000, 4_000, 3)],
)
def test_a_gang_fails_by_the_member_that_failed_first(first: int, second: int, code: int) -> None:
    """By the nodes' clocks; by who is heard of first only where those say nothing."""
    world = make.two_members(retries=0)
    one, other = world.members("j")

    world.step(world.exited("j", one, code=3, failed_at_ms=first))
    told = world.step(world.exited("j", other, code=1, reason="stopped", failed_at_ms=second))

    released, finished = make.only(told, d.GangReleased), make.only(told, d.JobFinished)
    assert released.failed_on == (one if code == 3 else other)
    assert (released.code, finished.code, finished.reason) == (code, code, f"exit code {code}")


def test_crash_loops_are_backed_off_for_ever_longer() -> None:
    """Who fails within a minute of the start waits 10 s, 20 s, 40 s."""
    world = make.world(nodes=1)
    world.step(make.submitted("j", retries=9))
    waits = []
    for _ in range(3):
        world.ready("j")
        requeued = make.only(world.later(make.SECOND).exits("j", code=1), d.JobRequeued)
        waits.append(requeued.not_before_ms - world.now_ms)
        assert world.cause("j") is d.WaitCause.HOLD
        told = world.wait(waits[-1])
        assert make.kinds(told) == ["JobReleased", "GangPlaced"]

    assert waits == [10 * make.SECOND, 20 * make.SECOND, 40 * make.SECOND]


def test_a_failure_after_long_work_starts_again_at_once() -> None:
    """It is no loop."""
    world = make.two_members()

    assert make.only(world.exits("j", code=1), d.JobRequeued).not_before_ms == 0
    assert world.state_of("j") == "starting"


def test_a_job_under_which_node_after_node_fails_is_held() -> None:
    """After so many in a row on distinct nodes; its owner releases it."""
    world = make.world(nodes=4, hold_after=3)
    world.step(make.submitted("j"))
    for _ in range(2):
        world.ready("j")
        world.exits("j", reason="infrastructure")
        world.wait(make.MINUTE)
    world.ready("j")

    held = make.only(world.exits("j", reason="infrastructure"), d.JobHeld)

    assert held.why == "3 infrastructure failures in a row without new progress"
    assert world.cause("j") is d.WaitCause.HOLD
    assert make.kinds(world.step(f.JobHoldReleased(job="j"))) == ["JobReleased", "GangPlaced"]


def test_failures_on_one_node_alone_hold_nobody() -> None:
    """It is the node then."""
    world = make.world(nodes=1, hold_after=2)
    world.step(make.submitted("j"))
    for _ in range(4):
        world.ready("j")
        told = world.later(make.HOUR).exits("j", reason="infrastructure")
        assert "JobHeld" not in make.kinds(told)

    assert world.job("j").failures == 4


def test_progress_between_failures_keeps_a_job_from_being_held() -> None:
    """It is the machines' bad luck then."""
    world = make.world(nodes=4, hold_after=2)
    world.step(make.submitted("j", saves=True))
    for turn in range(4):
        world.ready("j")
        world.later(make.HOUR).step(world.saved("j", (turn + 1) * make.MINUTE))
        told = world.exits("j", reason="infrastructure")
        assert "JobHeld" not in make.kinds(told)

    assert world.state_of("j") == "starting"
