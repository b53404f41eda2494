"""Memory, clock, and the operator's own check, before a member is stated ready."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from gangline.agents import machine
from gangline.agents.core import Check, Fault
from gangline.agents.health import Health
from gangline.agents.preflight import look
from gangline.agents.settings import AgentSettings
from tests.agents import make

if TYPE_CHECKING:
    from pathlib import Path

    from gangline.agents.core import Checked


def checked(folder: Path, *, gpus: tuple[int, ...] = (0,), **more: Any) -> Checked:
    """What a look before the start finds."""
    settings = AgentSettings(node="n0", folder=folder, gpus=8, min_free_bytes=0, **more)
    answer, held = look(Check(order=make.member(gpus=gpus)), settings, address="h")
    if held is not None:
        held.close()
    return answer


@pytest.fixture
def skewed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The shared disk's clock differs from ours by what a test says."""

    def by(seconds: float) -> None:
        def touch(probe: Path) -> None:
            probe.touch()
            there_s = time.time() + seconds
            os.utime(probe, (there_s, there_s))

        monkeypatch.setattr(machine, "touch", touch)

    return by


def test_a_sound_machine_is_ready(tmp_path: Path) -> None:
    """Nothing is found, before a start and in between."""
    assert checked(tmp_path).problem == ""
    settings = AgentSettings(node="n0", folder=tmp_path, gpus=8, min_free_bytes=0)
    assert Health(settings).look().faults == ()


def test_a_machine_without_memory_turns_every_member_away(tmp_path: Path) -> None:
    """What is available counts, not what is free."""
    answer = checked(tmp_path, min_free_memory_bytes=1 << 60)

    assert (answer.fault, answer.reason, answer.gpu) == ("memory", "infrastructure", -1)
    assert "bytes of memory are available" in answer.problem


def test_where_the_kernel_says_nothing_of_memory_nothing_is_wrong(tmp_path: Path) -> None:
    """An old or a strange kernel is no fault."""
    assert machine.available_bytes(tmp_path / "none") is None
    (tmp_path / "meminfo").write_text("MemTotal: 5 kB\nMemAvailable:   3 kB\n")
    assert machine.available_bytes(tmp_path / "meminfo") == 3 * 1024


@pytest.mark.parametrize(("seconds", "word"), [(60.0, "behind"), (-60.0, "ahead of")])
def test_a_clock_that_is_wrong_turns_every_member_away(
    tmp_path: Path, skewed: Any, seconds: float, word: str
) -> None:
    """By the clock of the disk that all nodes share."""
    skewed(seconds)

    answer = checked(tmp_path)

    assert (answer.fault, answer.reason) == ("clock", "infrastructure")
    assert f"60 s {word} that of" in answer.problem


def test_a_small_skew_is_none(tmp_path: Path, skewed: Any) -> None:
    """Clocks are never quite the same."""
    skewed(5.0)

    assert checked(tmp_path).problem == ""


def test_a_skew_is_a_fault_as_long_as_it_lasts(tmp_path: Path, skewed: Any) -> None:
    """Every look is whole."""
    health = Health(AgentSettings(node="n0", folder=tmp_path, gpus=8, min_free_bytes=0))
    skewed(-30.0)
    (fault,) = health.look().faults
    skewed(0.0)

    assert (fault.gpu, fault.kind) == (-1, "clock")
    assert health.look().faults == ()


def test_a_checkpoint_disk_that_refuses_says_nothing_of_the_clock(tmp_path: Path) -> None:
    """The job finds that out by itself, and says it better."""
    (tmp_path / "file").write_text("")

    assert checked(tmp_path, checkpoints=tmp_path / "file").problem == ""


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("exit 0", None),
        ("echo '2 memtest pattern 0x55 differs'", Fault(2, "memtest")),
        ("echo '3 memtest'", None),
        ("echo 'node nic is down'", Fault(-1, "nic")),
        ("echo no; exit 1", Fault(-1, "health")),
        ("sleep 60", Fault(-1, "health")),
    ],
)
def test_the_operators_check_turns_members_of_sick_gpus_away(
    tmp_path: Path, script: str, fault: Fault | None
) -> None:
    """A memory test, say; GPUs of others are others' concern. One that hangs has failed."""
    answer = checked(tmp_path, gpus=(1, 2), check_command=("sh", "-c", script), check_s=0.5)

    if fault is None:
        assert answer.problem == ""
    else:
        assert (answer.gpu, answer.fault) == (fault.gpu, fault.kind)
        assert "the check before the start says" in answer.problem


def test_the_operators_check_is_told_the_gpus(tmp_path: Path) -> None:
    """It tests those that the member gets."""
    script = f'echo "$GANGLINE_GPUS" > {tmp_path}/told'

    checked(tmp_path, gpus=(1, 2), check_command=("sh", "-c", script))

    assert (tmp_path / "told").read_text() == "1,2\n"
