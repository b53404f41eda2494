"""The bench of latency on Kafka: what it measures is there, and is held against a bare loop."""

from __future__ import annotations

from gangline.cli.bench_end_to_end import run
from gangline.events.kafka.bare import BareLoop


def test_ours_and_the_floor_are_taken_in_the_same_run(kafka_bootstrap: str) -> None:
    """A few jobs on a small cell, with a scheduler process of its own."""
    ended: list[int] = []
    numbers = run(
        progress=ended.append, bus=f"kafka://{kafka_bootstrap}", agents=8, jobs=6, quiet_s=0.5
    )
    assert ended[-1] == 6
    ours, floor = numbers["acknowledged_to_assignment_ms"], numbers["floor_ms"]
    assert ours["p50"] > 0
    assert floor["p50"] > 0
    assert numbers["over_floor"]["p50"] == round(ours["p50"] / floor["p50"], 2)
    # The answer to a submission comes before its assignment is seen, and after its call.
    assert numbers["submit_to_assignment_ms"]["max"] > ours["max"]
    assert 0 <= numbers["heartbeat_cores"] < 2


def test_a_bare_round_sees_its_own_record(kafka_bootstrap: str, cell: str) -> None:
    """Each round ends when its record is read, so rounds do not overlap."""
    loop = BareLoop(kafka_bootstrap, cell, environ={})
    assert all(loop.round_s() > 0 for _ in range(3))
    loop.close()
