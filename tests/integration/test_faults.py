"""A training job of real processes on a whole stack, while everything around it is killed.

What was lost is read from the training program's own log of steps, not from what we say of it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.training import MOST_LOST, RANKS, STEP_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.training import Training

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

LOST_AFTER_S: Final = 15
BUSES: Final = ["embedded", pytest.param("kafka", marks=pytest.mark.kafka)]


@pytest.mark.parametrize("bus", BUSES)
def test_training_outlives_the_death_of_everything_around_it(
    make_training: Callable[..., Training], bus: str
) -> None:
    """Only a rank's own death makes another attempt, and that loses at most one interval.

    Each comes GANGLINE_DEATHS times (1), at random moments between two checkpoints; the seed is
    printed.
    """
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)  # noqa: S311 - when to kill, no secret
    training = make_training(bus)
    training.submit()
    training.advance(12)
    deaths: list[Callable[[], None]] = [
        lambda: training.kill("scheduler-0"),
        lambda: training.kill("scheduler-1"),
        lambda: training.kill("node-0"),
        lambda: training.kill("node-1"),
        training.kill_database,
        *([training.kill_broker] if bus == "kafka" else []),
    ]
    deaths *= int(os.environ.get("GANGLINE_DEATHS", "1"))
    chance.shuffle(deaths)

    for die in deaths:
        training.advance(chance.randrange(1, 12))
        die()
        training.advance(chance.randrange(1, 12))
        training.mend()
    assert training.attempts() == [1], "somebody stopped a healthy job"

    ranks = (0, RANKS - 1, chance.randrange(RANKS))
    for attempt, rank in enumerate(ranks, start=2):
        training.advance(chance.randrange(12, 24))
        training.kill_rank(rank)
        training.advance(1, attempt=attempt)

    steps = training.finish()
    training.judge()
    assert training.attempts() == [1, 2, 3, 4]
    print(f"{steps} steps, {len(deaths)} deaths around it, {len(ranks)} of ranks")


@pytest.mark.parametrize("bus", BUSES)
def test_training_moves_away_from_a_node_that_nobody_hears(
    make_training: Callable[..., Training], bus: str
) -> None:
    """Its agent stands still, as behind a partition; the copy it has is gone as soon as it hears.

    What is lost is at most one interval, and the time until the node counts as lost.
    """
    training = make_training(bus, agents=3, suspect_after=5_000, lost_after=LOST_AFTER_S * 1_000)
    training.submit()
    training.advance(12)
    node = training.nodes()[-1]

    training.stack.running[node].send(signal.SIGSTOP)
    training.advance(12, attempt=2)
    assert node not in training.nodes()
    training.stack.running[node].send(signal.SIGCONT)
    training.advance(12)

    deadline = time.monotonic() + 60
    while training.processes(GANGLINE_ATTEMPT=1):
        assert time.monotonic() < deadline, "the fenced copy runs on"
        time.sleep(0.1)
    steps = training.finish()
    training.judge(most_lost=MOST_LOST + int(LOST_AFTER_S / STEP_S))
    print(f"{steps} steps, attempts {training.attempts()}")
