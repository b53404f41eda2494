"""One scheduler alone: it leads, reads, steps, commits, and starts again from the log."""

from __future__ import annotations

import pytest

from gangline.events import decisions as d
from gangline.events import facts
from gangline.events.log import Topic
from gangline.events.trace import trace_id
from gangline.scheduler.ports import Point
from tests.scheduler.cell import Cell


def test_the_first_leader_of_a_cell_takes_it_over_and_places_a_job() -> None:
    """From an empty log to a running gang; the chain and all digests hold."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.admit("n1")
    cell.submit("job-1")

    cell.led_by(scheduler)

    kinds = [type(decision) for decision in cell.decisions()]
    assert kinds == [d.LeadershipTaken, d.NodeAdded, d.JobQueued, d.GangPlaced]
    assert cell.replayed().state.kept["jobs"] == {"job-1": "running"}
    assert [member.job for member in cell.assignments()["n1"].members] == ["job-1"]


def test_a_batch_carries_the_traces_of_the_jobs_that_it_decides_about() -> None:
    """Each job's once, as the submission and the assignments have it."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    cell.admit("n1")
    cell.submit("job-1")
    cell.submit("job-2")

    cell.run(scheduler)

    found = [each.headers for each in cell.records(Topic.DECISIONS)]
    traces = [value.decode().split("-")[1] for headers in found for _, value in headers]
    assert traces[0] == trace_id("job-1")
    assert set(traces) == {trace_id("job-1"), trace_id("job-2")}
    assert all(len(headers) == len(set(headers)) for headers in found)


def test_a_step_without_decisions_writes_no_batch() -> None:
    """Facts that change nothing are consumed by the next batch, in their place."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    before = len(cell.batches())

    for _ in range(3):
        cell.say(Topic.NODES, facts.MemberStarted(node="n1", job="j", attempt=1), actor="node:n1")
        cell.run(scheduler)
    assert len(cell.batches()) == before

    cell.submit("job-1")
    cell.run(scheduler)
    counts = {each.topic: each.count for each in cell.batches()[-1].inputs}
    assert counts == {"jobs": 1, "nodes": 3}


def test_time_alone_ends_a_job() -> None:
    """The driver wakes when the core said, not much later."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.admit("n1")
    cell.submit("job-1")
    cell.led_by(scheduler)
    started = cell.batches()[-1].now_ms

    cell.run(scheduler, ms=61_000, step_ms=10)

    assert len(cell.decisions(d.JobFinished)) == 1
    assert cell.batches()[-1].now_ms - started <= 60_020
    assert cell.assignments()["n1"].members == ()


def test_undecodable_bytes_reach_the_core_with_their_place() -> None:
    """On every input topic; nothing stops."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    for topic in (Topic.CONTROL, Topic.JOBS, Topic.NODES, Topic.HEARTBEATS):
        cell.garbage(topic)
    cell.submit("job-1")

    cell.run(scheduler)

    rejected = cell.decisions(d.InputRejected)
    assert [each.topic for each in rejected] == ["control", "jobs", "nodes", "heartbeats"]
    assert all("header" in each.reason for each in rejected)
    assert cell.replayed().state.kept["jobs"] == {"job-1": "queued"}


def test_a_restarted_scheduler_goes_on_from_the_log_alone() -> None:
    """Nothing is read twice and nothing is left out."""
    cell = Cell()
    first = cell.scheduler()
    cell.submit("job-1")
    cell.led_by(first)
    first.close()
    cell.submit("job-2")

    second = cell.scheduler("two")
    cell.led_by(second)

    queued = cell.decisions(d.JobQueued)
    assert [(each.job, each.number) for each in queued] == [("job-1", 1), ("job-2", 2)]
    assert [batch.term for batch in cell.batches()] == [1, 2]


def test_a_backlog_is_taken_in_bounded_batches_by_append_time() -> None:
    """Control first would let a fact overtake what was there long before it."""
    cell = Cell()
    for index in range(7):
        cell.submit(f"job-{index}")
        cell.clocks.passed_ms += 10
        cell.admit(f"n{index}")
        cell.clocks.passed_ms += 10
    scheduler = cell.scheduler(limit=4)

    cell.led_by(scheduler)
    cell.run(scheduler)

    batches = cell.batches()
    assert [sum(each.count for each in batch.inputs) for batch in batches] == [4, 4, 4, 2]
    assert [batch.caught_up for batch in batches] == [False, False, False, True]
    order = [type(each) for each in cell.decisions() if not isinstance(each, d.LeadershipTaken)]
    assert order[:4] == [d.JobQueued, d.NodeAdded, d.JobQueued, d.NodeAdded]


def test_facts_of_one_batch_are_taken_control_jobs_nodes() -> None:
    """When all was read."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    cell.submit("job-1")
    cell.admit("n1")

    cell.run(scheduler)

    last = [type(each) for each in cell.decisions()][1:]
    assert last == [d.NodeAdded, d.JobQueued, d.GangPlaced]


def test_a_large_step_is_several_records_of_one_transaction() -> None:
    """No record is larger than a broker takes; readers see the step as one."""
    cell = Cell()
    big = {"k" * 100: "v" * 30_000}
    from gangline.events.spec import Spec  # noqa: PLC0415

    for index in range(60):
        spec = Spec(team="a", gpus=1, labels=big)
        cell.say(Topic.JOBS, facts.JobSubmitted(job=f"j{index}", spec=spec))
    scheduler = cell.scheduler()

    cell.led_by(scheduler)

    batches = cell.batches()
    assert [batch.more for batch in batches] == [True, True, False]
    assert [bool(batch.inputs) for batch in batches] == [True, False, False]
    assert [bool(batch.state_digest) for batch in batches] == [False, False, True]
    assert cell.replayed().steps == 1


def test_a_node_without_heartbeats_is_suspected_and_a_beating_one_is_not() -> None:
    """The reducer's edges reach the core and stand in the batch."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.admit("dead", "alive")
    cell.led_by(scheduler)

    for _ in range(8):
        cell.heartbeat("alive")
        cell.run(scheduler, ms=5_000)

    changed = cell.decisions(d.NodeHealthChanged)
    assert [(each.node, each.health) for each in changed] == [("dead", d.Health.SUSPECTED)]
    cell.heartbeat("dead")
    cell.run(scheduler)
    assert cell.decisions(d.NodeHealthChanged)[-1].health is d.Health.WELL


def test_nobody_is_suspected_for_what_happened_while_nobody_read() -> None:
    """A scheduler that was stopped for an hour starts every deadline again."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.admit("n1")
    cell.led_by(scheduler)
    cell.heartbeat("n1")
    cell.run(scheduler)

    cell.clocks.passed_ms += 3_600_000
    cell.run(scheduler)

    assert cell.decisions(d.NodeHealthChanged) == []
    assert cell.decisions(d.LeadershipTaken)[-1].why == "gap"
    cell.run(scheduler, ms=31_000)
    assert len(cell.decisions(d.NodeHealthChanged)) == 1


def test_nobody_is_suspected_for_what_happened_after_the_ends_were_seen() -> None:
    """A scheduler that stands still in the middle of a turn judges by the time it looked."""
    cell = Cell()
    still = {"ms": 0}

    def stand_still(point: Point) -> None:
        if point is Point.FACTS_TAKEN:
            cell.clocks.passed_ms += still.pop("ms", 0)
            cell.heartbeat("n1")

    scheduler = cell.scheduler(probe=stand_still)
    cell.admit("n1")
    cell.led_by(scheduler)
    cell.heartbeat("n1")
    cell.run(scheduler, ms=1_000)
    still["ms"] = 60_000
    cell.submit("job-1")

    cell.run(scheduler, ms=1_000)

    assert cell.decisions(d.NodeHealthChanged) == []


@pytest.mark.parametrize("error_ms", [86_400_000, -86_400_000])
def test_a_wall_clock_that_is_a_day_wrong_makes_no_difference(error_ms: int) -> None:
    """Batches carry a time near the log's own, and it never goes back."""
    cell = Cell()
    first = cell.scheduler()
    cell.led_by(first)
    first.close()
    cell.clocks.wall_error_ms = error_ms
    cell.clocks.passed_ms += 10_000

    second = cell.scheduler("two")
    cell.led_by(second)

    times = [batch.now_ms for batch in cell.batches()]
    assert times == sorted(times)
    assert abs(times[-1] - cell.clocks.log_ms()) <= 15_000


def test_nobody_is_suspected_while_facts_are_still_being_read() -> None:
    """Whoever is behind does not know yet who has been heard."""
    cell = Cell()
    scheduler = cell.scheduler(limit=5)
    cell.admit("n1")
    cell.led_by(scheduler)
    cell.run(scheduler, ms=29_000, step_ms=500)
    assert cell.decisions(d.NodeHealthChanged) == []
    cell.submit(*(f"job-{index}" for index in range(12)))
    cell.clocks.passed_ms += 3_000

    cell.run(scheduler)

    edges = [(batch.caught_up, [edge.kind for edge in batch.edges]) for batch in cell.batches()]
    assert edges[-3:] == [(False, []), (False, []), (True, ["silent"])]
