"""The memory test of GPUs before a start. There is no GPU here: PyTorch's CUDA is stood in for.

What the stand-in shares with PyTorch is what the test uses of it; where GANGLINE_TORCH_PYTHON, or
this machine's own Python, has a real one, that does the same work in the machine's memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gangline.agents import memory_test
from gangline.agents.core import Check
from gangline.agents.preflight import look, memory_test_of
from gangline.agents.settings import AgentSettings
from tests.agents import make

if TYPE_CHECKING:
    from pathlib import Path

    from gangline.agents.core import Checked

TORCH = os.environ.get("GANGLINE_TORCH_PYTHON") or "/usr/bin/python3"
STAND_IN = """
import os

uint8 = "uint8"
BROKEN = os.environ["CUDA_VISIBLE_DEVICES"].split(",").index(os.environ["BROKEN_GPU"]) \\
    if os.environ.get("BROKEN_GPU") in os.environ["CUDA_VISIBLE_DEVICES"].split(",") else None


class Tensor:
    def __init__(self, values):
        self.values = values

    def __ne__(self, other):
        return Tensor([value != other for value in self.values])

    def sum(self):
        return Tensor([sum(self.values)])

    def item(self):
        return self.values[0]


def full(shape, value, *, dtype, device):
    stuck = value & 0xFE if device == f"cuda:{BROKEN}" else value
    return Tensor([value] * (shape[0] - 1) + [stuck])


class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")))
    mem_get_info = staticmethod(lambda place: (1000, 2000))
"""


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python whose PyTorch sees GPUs; GPU 5 has a bit that is stuck."""
    (tmp_path / "torch.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("BROKEN_GPU", "5")
    return sys.executable


def checked(folder: Path, python: str, *, gpus: tuple[int, ...]) -> Checked:
    """What a look before the start finds."""
    settings = AgentSettings(
        node="n0", folder=folder, gpus=8, min_free_bytes=0, memory_test=(python,)
    )
    answer, held = look(Check(order=make.member(gpus=gpus)), settings, address="h")
    if held is not None:
        held.close()
    return answer


def test_a_gpu_whose_memory_forgets_turns_its_member_away(tmp_path: Path, python: str) -> None:
    """It is named by its number on the node, not by its place among those that were tested."""
    answer = checked(tmp_path, python, gpus=(2, 5))

    assert (answer.gpu, answer.fault, answer.reason) == (5, "memtest", "infrastructure")
    assert "pattern 0xff: 1 bytes of block 0 differ" in answer.problem


def test_sound_memory_lets_the_member_start(tmp_path: Path, python: str) -> None:
    """Another GPU of the node may be sick."""
    assert checked(tmp_path, python, gpus=(2, 3)).problem == ""


def test_a_test_that_finds_no_pytorch_turns_members_away(tmp_path: Path) -> None:
    """It was asked for, and cannot be had: nothing is known of the memory."""
    answer = checked(tmp_path, sys.executable, gpus=(0,))

    assert (answer.gpu, answer.fault) == (-1, "health")
    assert "no PyTorch here" in answer.problem


def test_where_no_python_is_named_nothing_is_run() -> None:
    """It takes some seconds of each start, so it is asked for."""
    assert memory_test_of(()) == ()


@pytest.mark.skipif(
    not shutil.which(TORCH)
    or subprocess.run([TORCH, "-c", "import torch"], check=False, capture_output=True).returncode
    != 0,
    reason="no Python with PyTorch: set GANGLINE_TORCH_PYTHON",
)
def test_a_real_pytorch_writes_and_reads_back_what_it_is_asked_to() -> None:
    """In the machine's own memory: the calls are PyTorch's, and sound memory passes."""
    program = (
        "import runpy, torch, sys\n"
        "wrong = runpy.run_path(sys.argv[1])['wrong']\n"
        "print(repr(wrong(torch, 'cpu', size=3_000_001)))\n"
        "full = torch.full\n"
        "def stuck(shape, value, **more):\n"
        "    made = full(shape, value, **more)\n"
        "    made[7] &= 0xF0\n"
        "    return made\n"
        "torch.full = stuck\n"
        "print(wrong(torch, 'cpu', size=100))\n"
    )

    said = subprocess.run(
        [TORCH, "-c", program, memory_test.__file__], check=True, capture_output=True, text=True
    ).stdout

    assert said.splitlines() == ["''", "pattern 0xff: 1 bytes of block 0 differ"]
