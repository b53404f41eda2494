"""Heartbeats become edges, and only batches settle them."""

from __future__ import annotations

import itertools

from gangline.events import decisions as d
from gangline.events.batch import Edge
from gangline.scheduler.reducer import HeartbeatReducer

AFTER = 30_000
LED = Edge(kind="led", node="one", at_ms=0, why="start")


def reducer_at(now_ms: int, *nodes: str) -> HeartbeatReducer:
    """A reducer of a term that began then, with these nodes."""
    reducer = HeartbeatReducer()
    added = [d.NodeAdded(node=node, path=(), levels=(), gpus=8) for node in nodes]
    reducer.settle([LED], added, now_ms=now_ms)
    return reducer


def edges(reducer: HeartbeatReducer, now_ms: int) -> tuple[Edge, ...]:
    """What changed, with the usual deadline."""
    return reducer.edges(now_ms, suspect_after_ms=AFTER)


def test_a_node_that_beats_is_never_an_edge() -> None:
    """Ten seconds apart is well inside half a minute."""
    reducer = reducer_at(0, "a")

    seen: list[Edge] = []
    for now in range(0, 300_000, 10_000):
        reducer.observe("a", now)
        seen.extend(edges(reducer, now + 9_000))

    assert seen == []


def test_a_node_falls_silent_one_millisecond_after_the_deadline() -> None:
    """The edge tells when it was last heard."""
    reducer = reducer_at(0, "a")
    reducer.observe("a", 5_000)

    assert edges(reducer, 35_000) == ()
    assert edges(reducer, 35_001) == (Edge(kind="silent", node="a", at_ms=5_000),)


def test_an_edge_is_told_until_a_batch_holds_it() -> None:
    """A step without decisions writes no batch, so nobody may remember its edges."""
    reducer = reducer_at(0, "a")
    first = edges(reducer, 40_000)

    assert edges(reducer, 40_100) == first

    reducer.settle(first, [], now_ms=40_100)
    assert edges(reducer, 40_200) == ()
    assert reducer.silent == ("a",)


def test_a_node_that_is_back_before_its_silence_is_recorded_was_never_silent() -> None:
    """Only what stands in batches happened."""
    reducer = reducer_at(0, "a")
    assert edges(reducer, 40_000) != ()

    reducer.observe("a", 40_050)

    assert edges(reducer, 40_100) == ()


def test_a_silent_node_is_heard_since_its_first_heartbeat() -> None:
    """Not since the newest one."""
    reducer = reducer_at(0, "a")
    reducer.settle(edges(reducer, 40_000), [], now_ms=40_000)
    for at in (52_000, 51_000, 53_000):
        reducer.observe("a", at)

    assert edges(reducer, 54_000) == (Edge(kind="heard", node="a", at_ms=51_000),)


def test_a_takeover_starts_all_deadlines_again_and_keeps_who_is_silent() -> None:
    """Nobody knows who was heard while no one listened; a silent node still has to be heard."""
    reducer = reducer_at(0, "a", "b")
    reducer.observe("a", 30_000)
    reducer.settle(edges(reducer, 40_000), [], now_ms=40_000)
    assert reducer.silent == ("b",)

    reducer.settle([LED], [], now_ms=100_000)

    assert edges(reducer, 130_000) == ()
    assert edges(reducer, 130_001) == (Edge(kind="silent", node="a", at_ms=100_000),)
    reducer.observe("b", 130_001)
    assert Edge(kind="heard", node="b", at_ms=130_001) in edges(reducer, 130_002)


def test_what_was_said_before_a_takeover_and_is_read_after_it_starts_no_deadline() -> None:
    """A backlog may hold an old registration of a node that has beaten ever since."""
    reducer = reducer_at(0, "a")
    reducer.settle([LED], [], now_ms=100_000)

    reducer.observe("a", 60_000)

    assert edges(reducer, 130_000) == ()
    assert edges(reducer, 130_001) == (Edge(kind="silent", node="a", at_ms=100_000),)


def test_a_new_node_has_its_whole_deadline() -> None:
    """It counts from the batch that admitted it."""
    reducer = reducer_at(0)
    added = d.NodeAdded(node="a", path=(), levels=(), gpus=8)
    reducer.settle([], [added], now_ms=500_000)

    assert edges(reducer, 530_000) == ()
    assert edges(reducer, 530_001) == (Edge(kind="silent", node="a", at_ms=500_000),)


def test_a_dropped_node_leaves_nothing_behind() -> None:
    """Admitted again, it is not silent from before."""
    reducer = reducer_at(0, "a")
    reducer.settle(edges(reducer, 40_000), [], now_ms=40_000)

    reducer.settle([], [d.NodeDropped(node="a")], now_ms=41_000)

    assert reducer.silent == ()
    assert edges(reducer, 90_000) == ()


def test_heartbeats_from_a_log_whose_clock_ran_ahead_do_not_hide_a_dead_node() -> None:
    """They count as heard at the batch's time."""
    reducer = reducer_at(0, "a")
    reducer.observe("a", 86_400_000)
    assert edges(reducer, 40_000) == ()
    reducer.settle([], [], now_ms=50_000)

    assert edges(reducer, 80_001) == (Edge(kind="silent", node="a", at_ms=50_000),)


def test_the_order_of_heartbeats_does_not_matter() -> None:
    """Partitions are read in any order, live and in replay."""
    answers = set()
    for order in itertools.permutations([("a", 61_000), ("a", 60_000), ("b", 62_000)]):
        reducer = reducer_at(0, "a", "b")
        reducer.settle(edges(reducer, 50_000), [], now_ms=50_000)
        for node, at in order:
            reducer.observe(node, at)
        answers.add(edges(reducer, 63_000))

    assert len(answers) == 1


def test_it_tells_when_to_ask_again() -> None:
    """So that the driver neither polls nor misses the moment."""
    reducer = reducer_at(0, "a")
    edges(reducer, 40_000)
    reducer.observe("a", 41_000)
    edges(reducer, 41_001)

    due = reducer.due_ms(suspect_after_ms=AFTER)

    assert due == 71_001
    assert edges(reducer, due - 1) == ()
    assert edges(reducer, due) != ()


def test_a_node_that_nobody_admitted_costs_nothing() -> None:
    """Anybody may beat under any name."""
    reducer = reducer_at(0, "a")
    for index in range(100):
        reducer.observe(f"stranger-{index}", 1_000)

    assert [edge.node for edge in edges(reducer, 40_000)] == ["a"]
    assert len(reducer._heard) == 1
