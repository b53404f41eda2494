"""The GPUs of this machine: from nvidia-smi where there is one, else a configured count."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import Final

_QUERY: Final = "index,ecc.errors.uncorrected.volatile.total,temperature.gpu,remapped_rows.failure"
_TIMEOUT_S: Final = 20
HOT_CELSIUS: Final = 95


@dataclass(frozen=True, slots=True)
class Reading:
    """What nvidia-smi says of one GPU; None where it says nothing."""

    index: int
    uncorrected: int | None
    celsius: int | None
    remap_failed: bool


def present() -> bool:
    """Whether this machine has nvidia-smi."""
    return shutil.which("nvidia-smi") is not None


def readings() -> list[Reading] | None:
    """Every GPU that answers; None when nvidia-smi itself fails or hangs."""
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return [found for line in done.stdout.splitlines() if (found := _reading(line)) is not None]


def _reading(line: str) -> Reading | None:
    cells = [cell.strip() for cell in line.split(",")]
    if not cells[0].isdecimal():
        return None
    cells += [""] * (4 - len(cells))
    return Reading(int(cells[0]), _number(cells[1]), _number(cells[2]), _is_yes(cells[3]))


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _is_yes(text: str) -> bool:
    return text.lower() in {"yes", "1"}


def count(configured: int | None) -> int:
    """How many GPUs to claim."""
    if configured is not None:
        return configured
    return len(readings() or ()) if present() else 0
