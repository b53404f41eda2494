"""How much is looked at for a decision: counted, not timed, so that a busy machine changes nothing.

A gang that ends may let any waiting job start, but few are worth asking. What is counted here is
what costs most: jobs asked for whether they may start, sweeps for a plan, and lists of victims.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gangline.replay.bench_decide import Bench, DecideSettings
from gangline.scheduler.core import plans, schedule, victims

ENDS = 20


def effort(monkeypatch: pytest.MonkeyPatch, *, nodes: int, pending: int) -> Counter[str]:
    """What is done while twenty gangs end on a full fleet."""
    counts: Counter[str] = Counter()

    def counted(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **words: Any) -> Any:
            counts[name] += 1
            return real(*args, **words)

        monkeypatch.setattr(owner, name, call)

    bench = Bench(DecideSettings(nodes=nodes, pending=pending, ends=ENDS, runs=1))
    with monkeypatch.context() as patches:
        monkeypatch = patches
        counted(schedule, "attempt")
        counted(plans, "_earliest")
        counted(victims.Search, "candidates")
        bench.run(None)
    numbers = bench.numbers()
    counts["decisions"] = numbers["decisions"]
    return counts


def test_few_jobs_are_asked_for_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than three for each decision, though two hundred wait."""
    found = effort(monkeypatch, nodes=100, pending=200)

    assert 0 < found["attempt"] < 3 * found["decisions"]
    assert found["candidates"] < found["decisions"]
    assert found["_earliest"] < found["decisions"]


def test_a_longer_queue_costs_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the queue asks less than twice as many jobs for a decision."""
    short = effort(monkeypatch, nodes=60, pending=100)
    long = effort(monkeypatch, nodes=60, pending=400)

    assert long["attempt"] / long["decisions"] < 2 * short["attempt"] / short["decisions"]
