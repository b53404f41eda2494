"""A full disk: a real small one, filled by somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.agents.watch import newest
from gangline.events.facts import CheckpointSaved, FaultCleared, FaultDetected, NodeRegistered
from gangline.events.spec import CheckpointSpec
from tests.agents import make
from tests.agents.cell import Cell, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def _fill(folder: Path, name: str = "filler") -> Path:
    """Take all room that is left."""
    filler = folder / name
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


def test_a_program_that_fails_on_a_full_disk_is_told_so_where_its_people_look(
    small: Path, tmp_path: Path
) -> None:
    """In its own output, and with its end."""
    (tmp_path / "agents").mkdir()
    cell = Cell(tmp_path / "agents")
    spec = make.spec("cat /dev/zero > big; exit 28", workdir=str(small))
    with cell.agent():
        order = cell.start(make.member(spec=spec))
        ended = cell.ended()
        output = cell.output(order)
    cell.close()

    assert ended.code == 28
    assert ended.detail == f"the disk of {small} is full"
    assert output.endswith(f"gangline: the disk of {small} is full\n")


SAVES_MORE_AND_MORE = """
from gangline import checkpoint
for step, size in enumerate((1 << 20, 2 << 20, 64 << 20), start=1):
    with checkpoint.publish(step) as folder:
        (folder / "half-1").write_bytes(b"x" * (size // 2))
        (folder / "half-2").write_bytes(b"x" * (size // 2))
"""


def test_a_save_that_finds_the_disk_full_leaves_the_one_before(cell: Cell, small: Path) -> None:
    """The program fails by it and says why; what is resumed is whole, and nothing lies about."""
    spec = make.spec(
        [sys.executable, "-c", SAVES_MORE_AND_MORE],
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        checkpoint=CheckpointSpec(interval_ms=1_000),
    )
    with cell.agent(checkpoints=small):
        order = cell.start(make.member(spec=spec))
        ended = cell.ended()
        saved = [fact for fact in cell.facts if isinstance(fact, CheckpointSaved)]

    assert (ended.code, ended.reason) == (1, "exited")
    assert "No space left on device" in cell.output(order)
    assert saved[-1].step == 2
    left = newest(small / "job/attempt-1")
    assert left is not None
    assert left.path == saved[-1].path
    assert sum(path.stat().st_size for path in Path(left.path).iterdir()) == 2 << 20
    assert not list((small / "job/attempt-1").glob(".step-3*"))


def test_a_marker_that_found_the_disk_full_announces_nothing(small: Path) -> None:
    """Empty or torn, it is no checkpoint; the one before stays what is resumed."""
    folder = small / "attempt-1"
    for step in (1, 2):
        (folder / f"step-{step}").mkdir(parents=True)
    (folder / "step-1.saved.json").write_text('{"step": 1, "path": "step-1"}')
    filler = _fill(small)
    marker = folder / "step-2.saved.json"
    try:
        marker.write_text('{"step": 2, "path": "step-2"}')
    except OSError:
        assert marker.read_text() == ""

    found = newest(folder)
    filler.unlink()

    assert found is not None
    assert found.step == 1


def test_an_agent_that_comes_up_on_a_full_disk_keeps_what_it_has_to_say(small: Path) -> None:
    """The member ended while nobody looked; its end is stated as soon as there is room."""
    flag = small.parent / "go-on"
    cell = Cell(small)
    spec = make.spec(f"while ! test -e {flag}; do sleep 0.05; done; exit 7")
    with cell.agent():
        cell.start(make.member(spec=spec))
    filler = _fill(small)
    (small / "n0/reserve").unlink()
    _fill(small, "what the reserve held")
    flag.touch()

    with cell.agent():
        filler.unlink()
        assert cell.ended().code == 7
    cell.close()
