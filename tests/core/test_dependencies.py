"""Jobs that wait for other jobs."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import decisions as d
from tests.core import make


def ended(world: make.World) -> None:
    """A job `j` has succeeded."""
    world.step(make.submitted("j"))
    world.ready("j")
    world.exits("j")


def test_a_job_waits_for_another_ones_success() -> None:
    """And starts at once when it is there."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"), make.submitted("next", after=("j",)))
    world.ready("j")
    assert world.cause("next") is d.WaitCause.DEPENDENCY

    world.exits("j")

    assert world.state_of("next") == "starting"


def test_failure_goes_down_the_line() -> None:
    """What waited for it fails, and what waited for that."""
    world = make.world(nodes=1)
    world.step(
        make.submitted("j", retries=0),
        make.submitted("next", after=("j",)),
        make.submitted("last", after=("next",)),
    )
    world.ready("j")

    told = world.exits("j", code=3)

    assert [(x.job, x.reason) for x in make.of_kind(told, d.JobFinished)] == [
        ("j", "exit code 3"),
        ("next", "dependency j"),
        ("last", "dependency next"),
    ]


def test_a_job_after_one_that_has_succeeded_starts() -> None:
    """Its outcome is remembered."""
    world = make.world(nodes=1)
    ended(world)

    world.step(make.submitted("next", after=("j",)))

    assert world.state_of("next") == "starting"


@pytest.mark.parametrize("fields", [{"gpus": 0}, {"gpus": 99}])
def test_a_job_after_a_rejected_one_fails(fields: dict[str, Any]) -> None:
    """Whether it was asked for before or after."""
    world = make.world(nodes=1)

    world.step(make.submitted("j", **fields), make.submitted("next", after=("j",)))
    world.step(make.submitted("late", after=("j",)))

    assert [world.state_of(one) for one in ("j", "next", "late")] == [
        "rejected",
        "failed",
        "failed",
    ]


def test_a_job_waits_for_all_that_it_names() -> None:
    """Naming one twice changes nothing."""
    world = make.world(nodes=2)
    world.step(make.submitted("j"), make.submitted("k"))
    world.step(make.submitted("next", after=("j", "k", "j")))
    world.ready("j")
    world.ready("k")
    world.exits("j")
    assert world.state_of("next") == "queued"

    world.exits("k")

    assert world.state_of("next") == "starting"


def test_nobody_waits_for_what_is_asked_for_later() -> None:
    """Two that waited for each other would wait for ever; in the log one of them is the first."""
    world = make.world(nodes=1)

    world.step(make.submitted("j", after=("k",)), make.submitted("k", after=("j",)))

    assert [world.state_of(one) for one in ("j", "k")] == ["rejected", "failed"]


def test_a_task_does_not_wait_for_its_own_array() -> None:
    """Nor does anybody wait for an array that comes later."""
    world = make.world(nodes=1)

    world.step(make.submitted("x", gpus=1, count=2, after=("x",)))
    world.step(make.submitted("j", gpus=1, after=("y",)), make.submitted("y", gpus=1, count=2))

    assert [world.state_of(one) for one in ("x.1", "x.2", "j")] == ["rejected"] * 3
    assert world.state_of("y.1") == "starting"
