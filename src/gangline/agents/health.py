"""What is broken on this machine: by nvidia-smi and the kernel's log, or by a command.

The command prints a line for each fault: `GPU KIND [text]`, GPU an index or `node`; nothing
printed and code 0 means well. Another code counts as a fault of the whole node, `health`, with
its last line. All readings are whole: a fault that is not in the newest one is over, except an
Xid, which stays until the agent's restart or an operator's word.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Final

from gangline.agents import gpus
from gangline.agents.core import FaultGone, FaultSeen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.agents.core import Cue

_XID: Final = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),?\s*(.*)")
_MAX_DETAIL: Final = 300
_TIMEOUT_S: Final = 60
WHOLE_NODE: Final = -1
_FIELDS: Final = 3
APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 69})
"""Xids that a faulty program causes on a sound GPU (NVIDIA's catalogue)."""

Fault = tuple[int, str]


class Health:
    """Compares each reading with the one before."""

    def __init__(self, command: Sequence[str] = ()) -> None:
        self._command = tuple(command)
        self._known: dict[Fault, str] = {}

    def look(self) -> list[Cue]:
        """Faults that are new, and those that are over."""
        now = self._reading()
        seen: list[Cue] = [
            FaultSeen(gpu=gpu, fault=fault, detail=now[gpu, fault])
            for gpu, fault in sorted(now.keys() - self._known.keys())
        ]
        gone: list[Cue] = [
            FaultGone(gpu=gpu, fault=fault)
            for gpu, fault in sorted(self._known.keys() - now.keys())
        ]
        self._known = now
        return seen + gone

    def _reading(self) -> dict[Fault, str]:
        found: dict[Fault, str] = {}
        if self._command:
            found |= _of_command(self._command)
        if gpus.present():
            found |= _of_gpus()
        return found


def _of_gpus() -> dict[Fault, str]:
    readings = gpus.readings()
    if readings is None:
        return {(WHOLE_NODE, "nvidia-smi"): "nvidia-smi fails or hangs"}
    found: dict[Fault, str] = {}
    for one in readings:
        if one.uncorrected:
            found[one.index, "ecc"] = f"{one.uncorrected} uncorrected errors"
        if one.remap_failed:
            found[one.index, "ecc_remap"] = "a row could not be remapped"
        if one.celsius is not None and one.celsius >= gpus.HOT_CELSIUS:
            found[one.index, "thermal"] = f"{one.celsius} degrees"
    return found


def _of_command(command: Sequence[str]) -> dict[Fault, str]:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {(WHOLE_NODE, "health"): f"the health command failed: {error}"[:_MAX_DETAIL]}
    found = dict(filter(None, map(_fault_line, done.stdout.splitlines())))
    if done.returncode != 0 and not found:
        lines = (done.stdout + done.stderr).strip().splitlines()
        detail = lines[-1] if lines else f"exit code {done.returncode}"
        found[WHOLE_NODE, "health"] = detail[:_MAX_DETAIL]
    return found


def _fault_line(line: str) -> tuple[Fault, str] | None:
    """`GPU KIND [text]`."""
    words = line.split(None, _FIELDS - 1)
    if len(words) < _FIELDS - 1 or not (words[0].isdecimal() or words[0] == "node"):
        return None
    gpu = int(words[0]) if words[0].isdecimal() else WHOLE_NODE
    detail = words[2] if len(words) == _FIELDS else ""
    return (gpu, words[1]), detail[:_MAX_DETAIL]


def xid(line: str) -> tuple[str, int, str] | None:
    """PCI address, number and text of a kernel message about an Xid; None for any other message."""
    found = _XID.search(line)
    if found is None:
        return None
    return found.group(1), int(found.group(2)), found.group(3)[:_MAX_DETAIL]
