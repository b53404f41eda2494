"""What the process around a scheduler adds: logs, metrics, checkpoints, an orderly end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from gangline.replay.checkpoints import read_checkpoint
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.scheduler.checkpoints import CheckpointWriter
from gangline.scheduler.leader import Who
from gangline.scheduler.process import Habits, Scheduler
from gangline.scheduler.runner import Reporter, SchedulerSettings
from tests.scheduler.cell import Cell
from tests.scheduler.toy_core import ToyCore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = SchedulerSettings(bus="memory://", cell="main", name="one")
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)


class Office:
    """A scheduler with a reporter."""

    def __init__(self, checkpoints: CheckpointWriter | None = None) -> None:
        self.cell = Cell()
        self.registry = CollectorRegistry()
        self.reporter = Reporter(
            SETTINGS,
            self.registry,
            checkpoints=checkpoints,
            state_digest=self.cell.core.state_digest,
        )
        self.scheduler = Scheduler(
            self.cell.outside(),
            Who(name="one", genesis="g"),
            Habits(threads=False),
            observer=self.reporter,
        )

    def value(self, name: str, **labels: str) -> float | None:
        """A metric's value."""
        return self.registry.get_sample_value(f"gangline_scheduler_{name}", labels)


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    """What is logged, line by line."""
    with capture_logs() as lines:
        yield lines


def test_metrics_count_what_was_decided() -> None:
    """Facts, decisions by kind, and who leads."""
    office = Office()
    office.cell.admit("n1")
    office.cell.submit("job-1", "job-2")

    office.cell.led_by(office.scheduler)

    assert office.value("leads") == 1
    assert office.value("term") == 1
    assert office.value("seq") == 1
    assert office.value("facts_total") == 3
    assert office.value("decisions_total", kind="JobQueued") == 2
    assert office.value("step_seconds_count") == 1


def test_every_change_of_role_is_a_line_of_the_log(logged: list[Any]) -> None:
    """With cell, scheduler and term."""
    office = Office()
    office.cell.led_by(office.scheduler)

    assert [line["role"] for line in logged] == ["standby", "leader"]
    assert logged[-1]["term"] == 1
    assert {line["scheduler"] for line in logged} == {"one"}


def test_a_step_of_the_wall_clock_is_an_alarm(logged: list[Any]) -> None:
    """Counted and logged, and nothing else comes of it."""
    office = Office()

    office.reporter.wall_clock_stepped(-3_600_000)

    assert office.value("wall_clock_steps_total") == 1
    assert logged[-1]["step_ms"] == -3_600_000


def test_checkpoints_are_signed_at_a_takeover_and_each_hour(tmp_path: Path) -> None:
    """Into a folder, under names that are never used again; each one is in the history."""
    office = Office(CheckpointWriter(tmp_path, KEY, cell="main"))
    office.cell.admit("n1")
    office.cell.led_by(office.scheduler)
    for minute in range(150):
        office.cell.heartbeat("n1")
        if minute % 10 == 0:
            office.cell.submit(f"job-{minute}")
        office.cell.run(office.scheduler, ms=60_000, step_ms=20_000)

    files = sorted(tmp_path.iterdir())

    assert len(files) == 3
    for path in files:
        checkpoint = read_checkpoint(path, KEY.public_key())
        assert path.name == f"main-{checkpoint.seq:012d}.json"
        assert verify(LogSource(office.cell.log), ToyCore(), checkpoint=checkpoint).ok


def test_a_folder_that_is_gone_stops_nobody(tmp_path: Path, logged: list[Any]) -> None:
    """A warning, and decisions go on."""
    office = Office(CheckpointWriter(tmp_path / "none", KEY, cell="main"))

    office.cell.led_by(office.scheduler)

    assert office.value("warnings_total") == 1
    assert "no signed checkpoint" in logged[-1]["text"]
