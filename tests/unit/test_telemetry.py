"""What processes say of themselves: metrics by Prometheus' conventions, logs as JSON, traces."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gangline.agents.dcgm import JobMapping
from gangline.agents.metrics import AgentCollector, Reading
from gangline.api.metrics import Metrics
from gangline.events import decisions as d
from gangline.events.log import Topic
from gangline.events.reading import from_the_start, read_to_ends
from gangline.events.trace import trace_id, traceparent
from gangline.projections.queries import ViewsUnreachableError
from gangline.replay.history import LogSource
from gangline.replay.timetravel import When, state_at
from gangline.scheduler.decision_metrics import DecisionMetrics
from gangline.scheduler.runner import Reporter, SchedulerSettings
from gangline.telemetry import Lag, registry_of, serve_metrics
from tests.api.fakes import FakeViews, make_world
from tests.scheduler.test_real_core import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client import CollectorRegistry, Metric

BASE_UNITS = ("_seconds", "_bytes", "_hours", "_gpus", "_total", "_info")
NOT_BASE = re.compile(r"_(ms|milliseconds|minutes|kb|mb|mib|percent)(_|$)")


def _projector() -> CollectorRegistry:
    registry = registry_of("projector")
    registry.register(Lag(FakeViews().lag, unreachable=ViewsUnreachableError))
    return registry


def _agent() -> CollectorRegistry:
    registry = registry_of("agent")
    reading = Reading(
        gpus=8, stages={"running": 2}, faults=0, undelivered=3, heard_s=0.5, stated={"X": 1}
    )
    registry.register(AgentCollector(lambda: reading))
    return registry


def _scheduler() -> CollectorRegistry:
    registry = registry_of("scheduler")
    Reporter(SchedulerSettings(bus="", cell="main", name="s"), registry)
    return registry


def _api() -> CollectorRegistry:
    return Metrics(FakeViews()).registry


PROCESSES = {"projector": _projector, "agent": _agent, "scheduler": _scheduler, "api": _api}


def _families(registry: CollectorRegistry) -> list[Metric]:
    return list(text_string_to_metric_families(generate_latest(registry).decode()))


@pytest.mark.parametrize("process", PROCESSES)
def test_metrics_are_named_by_the_conventions(process: str) -> None:
    """One prefix, base units, a help text; and nothing is labelled with a job."""
    families = _families(PROCESSES[process]())
    labels = {name for f in families for sample in f.samples for name in sample.labels}

    assert f"gangline_{process}" in "".join(f.name for f in families) or process == "projector"
    assert [f.name for f in families if not f.name.startswith("gangline_")] == []
    assert [f.name for f in families if NOT_BASE.search(f.name) or not f.documentation] == []
    assert labels.isdisjoint({"job", "job_id", "attempt", "position"})


@pytest.mark.parametrize("process", PROCESSES)
def test_each_process_says_which_program_it_is(process: str) -> None:
    """`gangline_build_info` joins metrics of one version."""
    (build,) = [f for f in _families(PROCESSES[process]()) if f.name == "gangline_build_info"]

    assert build.samples[0].labels["component"] == process
    assert build.samples[0].labels["version"]


def test_metrics_are_served_on_a_port() -> None:
    """As Prometheus fetches them."""
    port = serve_metrics(_agent(), 0, address="127.0.0.1")

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()

    assert 'gangline_agent_members{stage="running"} 2.0' in text
    assert 'gangline_agent_facts_total{kind="X"} 1.0' in text


def test_a_scheduler_counts_evictions_by_cause_and_the_work_they_lose() -> None:
    """In GPU-seconds, as far as it must be done again."""
    registry = registry_of("scheduler")
    metrics = DecisionMetrics(registry)

    metrics.count(
        [
            d.GangPreempted(
                job="a", attempt=1, claimant="b", claimant_attempt=1, cause="reclaim", grace_ms=0
            ),
            d.GangReleased(
                job="a", attempt=1, cause=d.StopCause.PREEMPTED, lost_gpu_ms=90_000,
                productive_ms=0,
            ),
            d.InputRejected(topic="jobs", partition=0, first=1, last=3, count=3, reason="garbage"),
        ]
    )  # fmt: skip

    assert registry.get_sample_value(
        "gangline_scheduler_preemptions_total", {"cause": "reclaim"}
    ) == pytest.approx(1)
    assert registry.get_sample_value(
        "gangline_scheduler_lost_gpu_seconds_total", {"cause": str(d.StopCause.PREEMPTED)}
    ) == pytest.approx(90)
    assert registry.get_sample_value(
        "gangline_scheduler_rejected_inputs_total", {"reason": "garbage"}
    ) == pytest.approx(3)


def test_a_view_that_is_stuck_is_seen() -> None:
    """And one that cannot be read says so, and nothing else."""
    row: dict[str, Any] = {"view": "jobs", "lag_events": 4, "lag_s": 2.5, "skipped": 1,
                           "problem": "no such kind"}  # fmt: skip
    views = FakeViews(down=True)
    stuck, away = registry_of("projector"), registry_of("projector")
    stuck.register(Lag(lambda: [row], unreachable=ViewsUnreachableError))
    away.register(Lag(views.lag, unreachable=ViewsUnreachableError))

    assert stuck.get_sample_value("gangline_projection_stuck", {"view": "jobs"}) == 1
    assert stuck.get_sample_value("gangline_projection_lag_seconds", {"view": "jobs"}) == 2.5
    assert away.get_sample_value("gangline_views_up") == 0
    assert "gangline_projection_stuck" not in generate_latest(away).decode()


LOGS = """
import logging, structlog
from gangline.telemetry import log_json
log_json("api", cell="main")
structlog.get_logger("x").info("accepted", job="j-1")
structlog.get_logger("x").debug("too much")
logging.getLogger("gangline.api").info("appended", extra={"position": "jobs-0-1"})
logging.getLogger("uvicorn.error").info("too much")
logging.getLogger("uvicorn.error").warning("slow %s", "reader")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("gangline.api").error("failed", exc_info=True)
"""


def test_every_log_line_is_one_json_object() -> None:
    """Ours and the libraries', a traceback too; each names its process."""
    done = subprocess.run([sys.executable, "-c", LOGS], capture_output=True, text=True, check=True)

    rows = [json.loads(line) for line in done.stderr.splitlines()]

    assert [row["event"] for row in rows] == ["accepted", "appended", "slow reader", "failed"]
    assert {row["process"] for row in rows} == {"api"}
    assert rows[0]["job"] == "j-1"
    assert rows[1]["position"] == "jobs-0-1"
    assert rows[3]["exception"][0]["exc_type"] == "ZeroDivisionError"
    assert all(row["timestamp"].endswith("Z") for row in rows)
    assert logging.getLogger().level == logging.WARNING  # of this process: left alone


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_costs_lines_and_not_the_process(unbuffered: str) -> None:
    """A projector that says that it waits for the disk lives to see the disk emptied.

    Nor does it fail at its end for what stayed in Python's buffers.
    """
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [sys.executable, "-c", LOGS + 'print("goes on")'],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )

    assert (done.returncode, done.stdout) == (0, "goes on\n")


def test_a_submission_and_its_placement_are_in_one_trace() -> None:
    """The trace is named after the job, and each span has an id of its own."""
    world = make_world()
    body = {"team": "a", "gpus": 1}
    world.client.post("/v1/jobs", json=body, headers={"Idempotency-Key": "j-1"})
    (record,) = list(read_to_ends(world.log, from_the_start([Topic.JOBS])))
    submitted = dict(record.headers)["traceparent"].decode()

    version, trace, span, flags = submitted.split("-")

    assert (version, trace, flags) == ("00", trace_id("j-1"), "01")
    assert len(trace) == 32
    assert span != traceparent("j-1", "assigned")[1].decode().split("-")[2]


def test_assignments_carry_the_traces_of_their_jobs() -> None:
    """One header for each job that is assigned."""
    fleet = Fleet()
    fleet.play()

    traces = {
        value.decode().split("-")[1]
        for record in read_to_ends(fleet.cell.log, from_the_start([Topic.ASSIGNMENTS]))
        for name, value in record.headers
        if name == "traceparent"
    }
    moments = [
        state_at(LogSource(fleet.cell.log), When(seq=batch.seq)) for batch in fleet.cell.batches()
    ]
    placed = {row["job"] for state in moments for row in state["placements"]}

    assert placed
    assert traces >= {trace_id(job) for job in placed}


def test_the_exporter_is_told_which_job_has_which_gpu(tmp_path: Path) -> None:
    """A file for each GPU, with a line for each job; none for GPUs that are free."""
    folder = tmp_path / "mapping"
    mapping = JobMapping(folder, gpus=3)

    mapping.show([("train-1", (0, 2))])
    first = {path.name: path.read_text() for path in folder.iterdir()}
    mapping.show([("train-2", (2,))])
    second = {path.name: path.read_text() for path in folder.iterdir()}

    assert first == {"0": "train-1\n", "1": "", "2": "train-1\n"}
    assert second == {"0": "", "1": "", "2": "train-2\n"}


def test_a_folder_that_cannot_be_written_stops_no_agent(tmp_path: Path) -> None:
    """It is tried again at the next change."""
    place = tmp_path / "mapping"
    place.write_text("a file stands here")
    mapping = JobMapping(place, gpus=1)

    mapping.show([("train-1", (0,))])
    place.unlink()
    mapping.show([("train-1", (0,))])

    assert (place / "0").read_text() == "train-1\n"
