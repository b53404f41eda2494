"""Whole cells with everything going wrong: a few fixed seeds, a few fresh ones, and the alarm.

`make sim SEEDS=1000` runs many in parallel.
"""

from __future__ import annotations

import os
from random import SystemRandom

import pytest

from gangline.replay.vopr import run_seed
from gangline.replay.vopr.many import Tally
from gangline.scheduler import leader

FIXED = (1, 3, 4, 8, 10, 11, 12, 14, 18, 82)
FRESH = int(os.environ.get("SEEDS", "3"))


def test_fixed_seeds_go_well_and_see_everything_that_matters() -> None:
    """Nothing is wrong in any, and together they meet what a scheduler exists for."""
    tally = Tally()

    for seed in FIXED:
        tally.add(run_seed(seed))

    assert tally.wrong == {}
    assert {"GangPreempted", "GangStartAborted", "GpuWithdrawn", "JobHeld"} <= set(tally.decisions)
    assert tally.decisions["LogicUpgraded"] > 1
    assert {"capacity", "borrow_limit", "nodes_unhealthy"} <= set(tally.causes)


@pytest.mark.skipif(not FRESH, reason="SEEDS=0 asks for none")
def test_fresh_seeds_go_well() -> None:
    """Others each time; a seed that fails is printed, and fails again."""
    for _ in range(FRESH):
        seed = SystemRandom().randrange(1 << 40)
        print(f"seed {seed}")
        verdict = run_seed(seed)
        assert verdict.ok, f"seed {seed}: {verdict.wrong}"


def test_a_seed_is_the_same_each_time() -> None:
    """Byte for byte: the last batch of the same seed has the same digest."""
    assert run_seed(1).digest == run_seed(1).digest


@pytest.mark.parametrize("seed", [1, 2])
def test_the_alarm_works(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The canary: a leader that tells no node anything must be caught."""
    monkeypatch.setattr(leader, "assignment_messages", lambda *_args, **_more: [])

    verdict = run_seed(seed)

    assert "should run" in verdict.wrong
