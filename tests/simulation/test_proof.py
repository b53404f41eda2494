"""A simulated history of a full fleet is proven like any other: verify makes every batch again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.replay.faults import parse_faults
from gangline.replay.history import FileSource
from gangline.replay.simulate import run
from gangline.replay.simulation_input import SIMULATION_POLICY, Inputs
from gangline.replay.verify import verify
from gangline.replay.workload import WorkloadSettings, make_workload
from gangline.scheduler import core

if TYPE_CHECKING:
    from pathlib import Path


def test_a_full_fleet_with_faults_is_proven(tmp_path: Path) -> None:
    """Queues, plans, borrowing, reclaim and faults for three days, byte for byte."""
    workload = make_workload(WorkloadSettings(nodes=40, jobs_per_day=100, days=3))
    log = tmp_path / "cell.log"
    inputs = Inputs(
        jobs=workload.jobs,
        fleet=workload.fleet,
        teams=workload.teams,
        policy=SIMULATION_POLICY,
        faults=parse_faults("rsc1+jobs"),
        seed=1,
        checkpoint_ms=1_800_000,
    )

    measured = run(inputs, log=log)
    report = verify(FileSource(log), core)

    assert measured.numbers["finished"] == len(workload.jobs)
    assert report.difference is None
