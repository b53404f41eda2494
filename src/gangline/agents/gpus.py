"""The GPUs of this machine: from nvidia-smi where there is one, else a configured count."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Final

_FIELDS: Final = (
    "index",
    "pci.bus_id",
    "ecc.errors.uncorrected.volatile.total",
    "temperature.gpu",
    "remapped_rows.failure",
)
_TIMEOUT_S: Final = 20
_GPU: Final = re.compile(r"GPU (\d+):")
_UP: Final = re.compile(r"\s+Link \d+: [0-9.]*[1-9][0-9.]* GB/s")
HOT_CELSIUS: Final = 95


@dataclass(frozen=True, slots=True)
class Reading:
    """What nvidia-smi says of one GPU; None where it says nothing. bus: its PCI address."""

    index: int
    bus: str
    uncorrected: int | None
    celsius: int | None
    remap_failed: bool


def present() -> bool:
    """Whether this machine has nvidia-smi."""
    return shutil.which("nvidia-smi") is not None


def readings() -> list[Reading] | None:
    """Every GPU that answers; None when nvidia-smi itself fails or hangs."""
    lines = _asked(f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits")
    if lines is None:
        return None
    return [found for line in lines if (found := _reading(line)) is not None]


def links() -> dict[int, int]:
    """How many NVLinks of each GPU are up; empty where nobody can say."""
    up: dict[int, int] = {}
    gpu = -1
    for line in _asked("nvlink", "--status") or ():
        if (head := _GPU.match(line)) is not None:
            gpu = int(head[1])
            up[gpu] = 0
        elif gpu >= 0 and _UP.match(line):
            up[gpu] += 1
    return up


def strangers() -> dict[str, list[int]]:
    """Processes that hold memory of a GPU, by its PCI address; empty when nobody can say."""
    found: dict[str, list[int]] = {}
    lines = _asked("--query-compute-apps=gpu_bus_id,pid", "--format=csv,noheader")
    for line in lines or ():
        bus, _, pid = (cell.strip() for cell in line.partition(","))
        if pid.isdecimal():
            found.setdefault(bus, []).append(int(pid))
    return found


def _asked(*words: str) -> list[str] | None:
    """What nvidia-smi answers; None when it fails or hangs."""
    command = ["nvidia-smi", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()


def _reading(line: str) -> Reading | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(_FIELDS) or not cells[0].isdecimal():
        return None
    index, bus, uncorrected, celsius, remap_failed = cells
    return Reading(
        int(index), bus, _number(uncorrected), _number(celsius), remap_failed.lower() == "yes"
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def count(configured: int | None) -> int:
    """How many GPUs to claim."""
    if configured is not None:
        return configured
    return len(readings() or ()) if present() else 0
