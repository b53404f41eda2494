"""What is broken: by a stand-in for nvidia-smi, the kernel's log, and a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gangline.agents import gpus
from gangline.agents.core import Check, Fault
from gangline.agents.health import Health
from gangline.agents.preflight import look
from gangline.agents.settings import AgentSettings
from gangline.events.facts import FaultCleared, FaultDetected
from tests.agents import make

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agents.cell import Cell

WELL = "{index}, 00000000:{bus}:00.0, 0, 40, No"


class Machine:
    """A machine with two GPUs whose nvidia-smi says what the test wants."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kernel_log = folder / "kmsg"
        (folder / "holders").write_text("")
        self.kernel_log.write_text("old: NVRM: Xid (PCI:0000:17:00): 79, fell off before\n")
        self.links(2, 2)
        self.says(WELL.format(index=0, bus="17"), WELL.format(index=1, bus="18"))

    def says(self, *lines: str, code: int = 0) -> None:
        """What nvidia-smi prints from now on."""
        (self.folder / "out").write_text("\n".join(lines) + "\n")
        script = self.folder / "nvidia-smi"
        holders = f'case "$1" in *compute*) cat {self.folder}/holders; exit;; esac'
        links = f'case "$1" in nvlink) cat {self.folder}/links; exit;; esac'
        script.write_text(f"#!/bin/sh\n{holders}\n{links}\ncat {self.folder}/out\nexit {code}\n")
        script.chmod(0o755)

    def links(self, *up: int) -> None:
        """How many NVLinks of each GPU are up from now on, of four."""
        lines = []
        for gpu, count in enumerate(up):
            lines.append(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu})")
            for link in range(4):
                speed = "26.562 GB/s" if link < count else "<inactive>"
                lines.append(f"\t Link {link}: {speed}")
        (self.folder / "links").write_text("\n".join(lines) + "\n")

    def health(self, **more: Any) -> Health:
        """What looks at it."""
        settings = AgentSettings(node="n0", folder=self.folder, min_free_bytes=0, **more)
        return Health(settings, kernel_log=self.kernel_log)

    def kernel_says(self, line: str) -> None:
        """A line of the kernel's log."""
        with self.kernel_log.open("a") as log:
            log.write(f"{line}\n")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with two sound GPUs."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return Machine(tmp_path)


def test_sound_gpus_are_counted_and_have_no_faults(machine: Machine) -> None:
    """What the kernel said before our start is not news."""
    health = machine.health()

    assert gpus.count(None) == 2
    assert health.look().faults == ()
    health.close()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("1, 00000000:18:00.0, 3, 40, No", "ecc"),
        ("1, 00000000:18:00.0, 0, 97, No", "thermal"),
        ("1, 00000000:18:00.0, [N/A], [N/A], Yes", "ecc_remap"),
    ],
)
def test_a_sick_gpu_is_a_fault_until_it_is_well(machine: Machine, line: str, fault: str) -> None:
    """Each reading is whole."""
    health = machine.health()
    machine.says(WELL.format(index=0, bus="17"), line)

    (seen,) = health.look().faults
    assert (seen.gpu, seen.kind) == (1, fault)
    machine.says(WELL.format(index=0, bus="17"), WELL.format(index=1, bus="18"))

    assert health.look().faults == ()
    health.close()


@pytest.mark.parametrize("left", [1, 0])
def test_an_nvlink_that_goes_down_is_a_fault_until_it_is_up(machine: Machine, left: int) -> None:
    """Those that never were up are none: a bridge leaves some of a GPU's unused."""
    health = machine.health()
    assert health.look().faults == ()
    machine.links(2, left)

    assert health.look().faults == (Fault(1, "nvlink", f"{left} NVLinks are up, not 2"),)
    machine.links(2, 2)

    assert health.look().faults == ()
    health.close()


@pytest.mark.parametrize(
    ("up", "faults"),
    [
        ((4, 4, 3, 4), [2]),
        ((4, 4, 0, 4), []),  # perhaps no bridge reaches it
        ((4, 4, 2, 2), []),  # two pairs of two kinds
        ((0, 0, 0, 0), []),
    ],
)
def test_nvlinks_that_were_down_before_us_show_beside_the_others(
    machine: Machine, up: tuple[int, ...], faults: list[int]
) -> None:
    """Where most have more, and it has some."""
    machine.says(*(WELL.format(index=gpu, bus=17 + gpu) for gpu in range(len(up))))
    machine.links(*up)
    health = machine.health()

    assert [(seen.gpu, seen.kind) for seen in health.look().faults] == [
        (gpu, "nvlink") for gpu in faults
    ]
    health.close()


def test_an_xid_of_the_kernel_blames_the_gpu_at_that_address(machine: Machine) -> None:
    """It stays, as nothing says that it is over."""
    health = machine.health()
    machine.kernel_says("4,12,34,-;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.")

    (seen,) = health.look().faults

    assert (seen.gpu, seen.kind) == (1, "xid")
    assert "79" in seen.detail
    assert health.look().faults == (seen,)
    health.close()


def test_an_xid_that_programs_cause_blames_no_gpu(machine: Machine) -> None:
    """Xid 31 is a page fault of the program."""
    health = machine.health()
    machine.kernel_says("NVRM: Xid (PCI:0000:18:00): 31, pid=1, MMU Fault")

    assert health.look().faults == ()
    health.close()


def test_a_failing_nvidia_smi_is_a_fault_of_the_node(machine: Machine) -> None:
    """Nobody knows which GPU it is."""
    health = machine.health()
    machine.says("NVML: driver mismatch", code=9)

    (seen,) = health.look().faults

    assert (seen.gpu, seen.kind) == (-1, "nvidia-smi")
    health.close()


def test_a_gpu_that_does_not_answer_turns_its_member_away(machine: Machine, tmp_path: Path) -> None:
    """Before the gang starts."""
    machine.says(WELL.format(index=0, bus="17"))
    settings = AgentSettings(node="n0", folder=tmp_path, min_free_bytes=0)

    answer, held = look(Check(order=make.member(gpus=(0, 1))), settings, address="h")

    assert held is None
    assert (answer.fault, answer.gpu) == ("gone", 1)


def test_a_gpu_that_somebody_else_holds_turns_its_member_away(
    machine: Machine, tmp_path: Path
) -> None:
    """A data loader that outlived its job would leave too little memory; the GPU is not broken."""
    (machine.folder / "holders").write_text("00000000:18:00.0, 4242\n")
    settings = AgentSettings(node="n0", folder=tmp_path, min_free_bytes=0)

    answer, _ = look(Check(order=make.member(gpus=(1,))), settings, address="h")
    other, held = look(Check(order=make.member(gpus=(0,))), settings, address="h")

    assert "pid 4242 holds memory of GPU 1" in answer.problem
    assert (answer.fault, answer.reason) == ("", "infrastructure")
    assert other.problem == ""
    assert held is not None
    held.close()


def test_a_full_disk_turns_every_member_away(tmp_path: Path) -> None:
    """Logs and results would be lost."""
    settings = AgentSettings(node="n0", folder=tmp_path, gpus=1, min_free_bytes=1 << 60)

    answer, _ = look(Check(order=make.member()), settings, address="h")

    assert (answer.fault, answer.reason) == ("disk", "infrastructure")


def test_a_published_port_is_taken_or_nothing(tmp_path: Path) -> None:
    """The others of the gang know it already."""
    settings = AgentSettings(node="n0", folder=tmp_path, gpus=1, min_free_bytes=0)
    first, held = look(Check(order=make.member()), settings, address="h")
    assert held is not None
    held.listen()

    other, held_too = look(Check(order=make.member()), settings, address="h")
    assert held_too is not None
    held_too.close()
    again, _ = look(Check(order=make.member(), port=first.port), settings, address="h")

    assert first.port != other.port
    assert f"wanted: {first.port}" in again.problem
    held.close()


def test_only_the_first_member_keeps_a_port(tmp_path: Path) -> None:
    """Its gang meets there; the others would keep ports from those who need them."""
    settings = AgentSettings(node="n0", folder=tmp_path, gpus=1, min_free_bytes=0)
    second = make.member(nodes=("n1", make.NODE), member=1)

    answer, held = look(Check(order=second), settings, address="h")

    assert (answer.problem, answer.port, held) == ("", 0, None)


def test_agents_of_one_machine_look_for_ports_in_different_places(tmp_path: Path) -> None:
    """One that is dead for a moment finds its port free when it is back."""
    found = set()
    for node in ("n0", "n1"):
        settings = AgentSettings(node=node, folder=tmp_path / node, gpus=1, min_free_bytes=0)
        settings.folder.mkdir()
        answer, held = look(Check(order=make.member()), settings, address="h")
        assert held is not None
        held.close()
        found.add(answer.port)

    assert len(found) == 2


@pytest.mark.parametrize(
    ("script", "faults"),
    [
        ("exit 0", ()),
        ("echo '2 nvlink link 3 is down'", (Fault(2, "nvlink", "link 3 is down"),)),
        ("echo 'node nic'; echo '0 ecc'", (Fault(-1, "nic"), Fault(0, "ecc"))),
        ("echo all is lost >&2; exit 3", (Fault(-1, "health", "all is lost"),)),
        ("exit 3", (Fault(-1, "health", "exit code 3"),)),
    ],
)
def test_a_health_command_says_a_fault_a_line(
    machine: Machine, script: str, faults: tuple[Fault, ...]
) -> None:
    """As Slurm's HealthCheckProgram, and by GPU."""
    health = machine.health(health_command=("sh", "-c", script))

    assert health.look().faults == faults
    health.close()


def test_a_gpu_that_falls_silent_is_gone(machine: Machine) -> None:
    """As many are expected as answered at the start."""
    health = machine.health()
    machine.says(WELL.format(index=0, bus="17"))

    (fault,) = health.look().faults

    assert (fault.gpu, fault.kind) == (1, "gone")
    health.close()


def test_faults_are_stated_and_cleared_by_the_agent(cell: Cell) -> None:
    """From the command to the log."""
    flag = cell.folder / "sick"
    flag.touch()
    command = ("sh", "-c", f"if test -e {flag}; then echo '1 ecc'; fi")
    with cell.agent(health_command=command, health_interval_s=0.1):
        fault = cell.wait(FaultDetected)
        flag.unlink()
        cleared = cell.wait(FaultCleared)

    assert (fault.gpu, fault.fault, cleared.gpu) == (1, "ecc", 1)
