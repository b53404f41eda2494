"""A full disk: a real small one, filled by somebody else."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from gangline.events.facts import FaultCleared, FaultDetected, NodeRegistered
from tests.agents import make
from tests.agents.cell import Cell, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB; skipped where we may not mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("we may not mount a small disk here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(folder: Path) -> Path:
    """Take all room that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler


def test_a_member_outlives_a_full_disk_and_its_end_is_told_when_there_is_room(
    small: Path,
) -> None:
    """The agent waits, says what is wrong by its reserve, and loses nothing."""
    flag = small.parent / "go-on"
    cell = Cell(small)
    spec = make.spec(f"while ! test -e {flag}; do sleep 0.05; done; exit 7")
    with cell.agent(min_free_bytes=8_000_000, health_interval_s=0.2):
        cell.wait(NodeRegistered)
        cell.start(make.member(spec=spec))

        filler = _fill(small)
        fault = cell.wait(FaultDetected)
        flag.touch()
        wait_for(lambda: not (small / "n0/reserve").exists(), what="the reserve's use")
        filler.unlink()

        assert cell.ended().code == 7
        cell.wait(FaultCleared)
    cell.close()

    assert (fault.gpu, fault.fault) == (-1, "disk")
