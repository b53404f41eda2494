"""A node that is cut off from a real broker: its processes run on, its gang is restarted elsewhere.

The agent meets the broker by a proxy that lets nothing through any more and tells nobody, as a
network does that lost a cable.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.training import Training

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.kafka]

LOST_AFTER_S: Final = 30
POLICY: Final = {"suspect_after": 5_000, "lost_after": LOST_AFTER_S * 1_000}
LEASE_S: Final = 12
GRACE_S: Final = 6


def test_a_gang_that_was_cut_off_runs_on_until_its_agent_hears_of_its_successor(
    make_training: Callable[..., Training],
) -> None:
    """Nobody kills what is healthy; the copy that was replaced is gone as soon as the cable is in.

    The successor goes on from the last checkpoint that the log had when the cable was cut.
    """
    training = make_training("kafka", ranks=2, **POLICY)
    training.submit()
    training.advance(12)
    (node,) = training.nodes()
    with training.behind_proxy(node) as proxy:
        recorded = training.wait_until_recorded(training.last().step)
        ours = training.processes(GANGLINE_ATTEMPT=1)

        proxy.part()
        cut_at = training.last().step
        training.advance(1, attempt=2)
        assert training.processes(GANGLINE_ATTEMPT=1) == ours
        assert node not in training.nodes()
        proxy.heal()
        _wait_for_the_end_of_the_first(training)

        training.advance(12)
        steps = training.finish()

    done = training.steps()
    assert len(set(done)) == len(done)
    assert training.attempts() == [1, 2]
    begun_at = next(s.step for s in done if (s.attempt, s.rank) == (2, 0))
    assert recorded < begun_at <= cut_at + 1
    print(f"{steps} steps; cut off at {cut_at}, the successor began at {begun_at}")


def test_an_at_most_one_writer_that_was_cut_off_is_gone_before_its_successor_begins(
    make_training: Callable[..., Training],
) -> None:
    """Its lease is over before its node counts as lost: by the log of steps no two ran at once."""
    training = make_training("kafka", ranks=2, **POLICY)
    training.submit(at_most_one_writer=True)
    training.advance(12)
    (node,) = training.nodes()
    options = ("--lease", f"{LEASE_S}s", "--lease-grace", f"{GRACE_S}s")
    with training.behind_proxy(node, *options) as proxy:
        recorded = training.wait_until_recorded(training.last().step)

        proxy.part()
        _wait_for_the_end_of_the_first(training)
        training.advance(12, attempt=2)
        proxy.heal()

        training.advance(12)
        steps = training.finish()

    done = training.steps()
    last = [step for step in done if (step.attempt, step.rank) == (1, 0)][-1]
    training.judge(most_lost=last.step - recorded)
    assert training.attempts() == [1, 2]
    print(f"{steps} steps; the first copy ended itself after step {last.step}")


def _wait_for_the_end_of_the_first(training: Training) -> None:
    """Nothing is left of the first attempt."""
    deadline = time.monotonic() + 60
    while training.processes(GANGLINE_ATTEMPT=1):
        assert time.monotonic() < deadline, "the first copy runs on"
        time.sleep(0.1)
