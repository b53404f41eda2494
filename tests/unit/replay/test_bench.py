"""The benchmarks run, in small, and print the fields that were promised."""

from __future__ import annotations

from gangline.replay.bench_decide import DecideSettings, bench_decide
from gangline.replay.bench_replay import ReplaySettings, bench_replay


def test_decide_prints_its_fields() -> None:
    """The names of the contract, and numbers that make sense."""
    numbers = bench_decide(DecideSettings(nodes=8, pending=6, finished=50, ends=20, runs=1))

    promised = {
        *("nodes", "gpus", "pending", "decisions", "decide_ms", "decide_wall_ms", "per_fact_us"),
        *("placed_per_s", "burst", "rss_mib", "urgent_ms", "floor_us", "decide_over_floor"),
    }
    assert promised <= set(numbers)
    assert (numbers["nodes"], numbers["gpus"], numbers["pending"]) == (8, 64, 6)
    assert set(numbers["decide_ms"]) == {"p50", "p99", "max"}
    assert numbers["burst"]["gangs"] == 500
    assert 0 < numbers["decide_ms"]["p50"] <= numbers["decide_ms"]["max"]
    assert numbers["urgent_ms"] > 0
    assert numbers["placed_per_s"] > 0


def test_replay_verifies_a_log_with_heartbeats() -> None:
    """Every heartbeat of every node is read, and edges are computed again from them."""
    numbers = bench_replay(ReplaySettings(nodes=4, jobs_per_day=40))

    assert numbers["heartbeats"] > 1000
    assert numbers["records"] > numbers["heartbeats"]
    assert numbers["verify_events_per_s"] > 0
    assert numbers["decode_events_per_s"] > 0
    assert numbers["verify_over_decode"] > 1
    assert numbers["restore"]["restore_ms"] > 0
