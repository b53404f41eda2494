"""The made-up workload is what it promises to be."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gangline.replay.bad_input import BadInputError
from gangline.replay.fleet_file import read_fleet, read_teams
from gangline.replay.traces import read_trace
from gangline.replay.workload import (
    BANDS,
    DAY_MS,
    WorkloadSettings,
    make_workload,
    pod_fleet,
    write_workload,
)

if TYPE_CHECKING:
    from pathlib import Path

SMALL = WorkloadSettings(nodes=100, jobs_per_day=190, days=7, load=0.8, seed=3)


def test_load_is_demand_over_capacity() -> None:
    """What an infinite fleet would hold within the window is exactly what was asked for."""
    workload = make_workload(SMALL)
    window_ms = SMALL.days * DAY_MS

    asked = sum(job.gpus * min(job.duration_ms, window_ms - job.submit_ms) for job in workload.jobs)

    assert asked / (workload.fleet.gpus * window_ms) == pytest.approx(0.8, abs=0.001)


def test_bands_have_their_shares_of_jobs() -> None:
    """Small, medium and large jobs are mixed as declared."""
    workload = make_workload(WorkloadSettings(nodes=1000, days=7))
    largest_small, largest_medium = (max(size for size, _ in band.sizes) for band in BANDS[:2])
    bands = Counter(
        "small"
        if job.gpus <= largest_small
        else "medium"
        if job.gpus <= largest_medium
        else "large"
        for job in workload.jobs
    )

    assert len(workload.jobs) == 1900 * 7
    for band in BANDS:
        assert bands[band.name] / len(workload.jobs) == pytest.approx(band.jobs, abs=0.03)


def test_nights_and_weekends_are_quieter() -> None:
    """Arrivals follow people's days; day 0 is a Monday."""
    jobs = make_workload(WorkloadSettings(days=14)).jobs
    hours = Counter(job.submit_ms // 3_600_000 % 24 for job in jobs)
    days = Counter(job.submit_ms // DAY_MS % 7 for job in jobs)

    assert hours[3] * 2 < hours[15]
    assert days[6] * 1.5 < days[2]


def test_limits_are_declared_too_high() -> None:
    """A limit never ends a job that runs as long as it says."""
    jobs = make_workload(SMALL).jobs
    limits = [(job.limit_ms, job.duration_ms) for job in jobs if job.limit_ms is not None]

    assert 0.7 < len(limits) / len(jobs) < 0.9
    assert all(limit >= duration for limit, duration in limits)


def test_guarantees_add_up_to_the_fleet() -> None:
    """They are unequal, and nothing of the fleet is without an owner."""
    workload = make_workload(SMALL)
    guaranteed = [team.guaranteed or 0 for team in workload.teams]

    assert sum(guaranteed) == workload.fleet.gpus
    assert len(set(guaranteed)) == len(guaranteed) == 10


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    """What is written reads as what was drawn; another seed draws something else."""
    first, again = make_workload(SMALL), make_workload(SMALL)
    write_workload(first, tmp_path / "a")
    write_workload(again, tmp_path / "b")

    for name in ("trace.csv", "fleet.toml", "teams.toml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert read_trace(tmp_path / "a" / "trace.csv").jobs == first.jobs
    assert read_fleet(tmp_path / "a" / "fleet.toml") == first.fleet
    assert read_teams(tmp_path / "a" / "teams.toml") == first.teams
    other = make_workload(WorkloadSettings(nodes=100, jobs_per_day=190, days=7, load=0.8, seed=4))
    assert other.jobs != first.jobs


def test_a_fleet_of_any_size_keeps_its_pods() -> None:
    """The last pod may be smaller; the others have 20 nodes."""
    fleet = pod_fleet(1001)
    blocks = Counter(node.path[1] for node in fleet.nodes)

    assert len(fleet.nodes) == 1001
    assert sorted(blocks.values()) == [1] + [20] * 50


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        (WorkloadSettings(nodes=0), "--nodes"),
        (WorkloadSettings(jobs_per_day=0), "--jobs-per-day"),
        (WorkloadSettings(load=0), "--load"),
        (WorkloadSettings(teams=100_000), "--teams"),
        (WorkloadSettings(nodes=10**9), "--nodes"),
        (WorkloadSettings(days=10**6), "--days"),
        (WorkloadSettings(days=1_000), "--jobs-per-day times --days"),
    ],
)
def test_senseless_settings_are_refused(settings: WorkloadSettings, option: str) -> None:
    """The message names the option."""
    with pytest.raises(BadInputError, match=f"{option}: expected"):
        make_workload(settings)
