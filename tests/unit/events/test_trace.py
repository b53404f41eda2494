"""Traces: named after jobs, and never more than a record can carry."""

from __future__ import annotations

from gangline.events.trace import HEADER, MOST_JOBS, of_jobs, trace_id


def test_each_job_of_a_record_has_its_trace_once() -> None:
    """In the order in which they come."""
    headers = of_jobs(["a", "b", "a"], "decided-7")

    assert [name for name, _ in headers] == [HEADER, HEADER]
    assert [value.decode().split("-")[1] for _, value in headers] == [trace_id("a"), trace_id("b")]


def test_a_record_about_very_many_jobs_carries_the_first_traces_only() -> None:
    """A header has its price, and a record its limit."""
    assert len(of_jobs((f"j{number}" for number in range(1_000)), "decided-7")) == MOST_JOBS
