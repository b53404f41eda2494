"""No number that somebody may write stops the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import facts as f
from gangline.scheduler.core import policy
from tests.core import make

MOST, LEAST = 2**63 - 1, -(2**63)
CLIPPED = ["gpus", "gpus_per_node", "limit_ms", "grace_ms", "retries", "count"]


def live(world: make.World) -> None:
    """Let everything happen once that reckons with times: plans, silence, faults, claims."""
    world.step(make.submitted("one"), make.submitted("whole", gpus=24))
    world.step(make.submitted("again", gpus=24))
    world.exits("old", code=1)
    world.step(edges=[make.silent("n0", world.now_ms)])
    world.step(*(f.FaultDetected(node="n1", gpu=gpu, fault="xid") for gpu in range(4)))
    world.step(make.submitted("urgent", gpus=24, job_class=make.URGENT))
    for _ in range(20):
        world.later(make.HOUR).step()


@pytest.mark.parametrize("field", CLIPPED)
@pytest.mark.parametrize("value", [MOST, LEAST])
def test_no_number_of_a_spec_does(field: str, value: int) -> None:
    """It is rejected, or it is a job like any other."""
    world = make.world(nodes=3, running=[make.gang("old", on="n0")])
    asked: Any = {"gpus": 8, field: value}

    world.step(make.submitted("poison", **asked))
    live(world)

    assert world.state_of("poison")
    assert world.state_of("one")


@pytest.mark.parametrize("key", list(policy.KEYS))
def test_no_value_of_the_policy_does(key: str) -> None:
    """The largest that is taken, whatever it is."""
    largest = policy.LONGEST if policy.KEYS[key].unit == "ms" else MOST
    world = make.world(nodes=3, running=[make.gang("old", on="n0")])

    told = world.step(f.PolicySet(values={key: largest}))
    live(world)

    assert make.kinds(told) == ["PolicyChanged"]
    assert world.state_of("one")


@pytest.mark.parametrize(
    "said",
    [
        make.team("a", MOST, borrow=MOST, lend=MOST, weight=MOST),
        f.CheckpointSaved(
            node="n0", job="old", attempt=1, step=MOST, path="/c", productive_ms=MOST
        ),
        f.MemberExited(node="n0", job="old", attempt=1, code=LEAST, signal=MOST),
        f.MemberExited(node="n0", job="old", attempt=MOST, code=0),
        f.FaultDetected(node="n0", gpu=MOST, fault="xid"),
        f.FaultCleared(node="n0", gpu=LEAST),
        f.MaintenanceScheduled(node="n0", in_ms=MOST, for_ms=MOST),
        f.DrainRequested(node="n0", deadline_ms=MOST),
        f.DrainRequested(node="n0", deadline_ms=LEAST),
        f.NodeRegistered(node="n9", boot_id="b", gpus=MOST),
        make.admitted("n9", gpus=MOST),
        f.MemberReady(node="n0", job="old", attempt=1, port=MOST),
    ],
)
def test_no_number_of_another_fact_does(said: Any) -> None:
    """It is refused, or it counts for what it can be."""
    world = make.world(nodes=3, running=[make.gang("old", on="n0", saves=True)])

    assert isinstance(world.step(said), list)
    if "old" in world.state.jobs:
        live(world)
