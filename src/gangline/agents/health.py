"""What is broken on this machine: by nvidia-smi and the kernel's log, or by a command.

Disk, memory and clock are looked at too (machine.py). The command prints a line for each fault:
`GPU KIND [text]`, GPU an index or `node`; nothing printed and code 0 means well. Another code
counts as a fault of the whole node, `health`, with its last line. Every look is whole: a fault
that is not in the newest one is over. An Xid of the kernel's log stays until this agent is started
again. NVLinks that are down are no fault by themselves (a bridge leaves some of a GPU's unused):
what counts is that one was up since our start, or that most GPUs here have more.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gangline.agents import gpus, machine
from gangline.agents.core import Diagnosed, Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangline.agents.settings import AgentSettings

WHOLE_NODE: Final = -1
APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 69})
"""Xids that a faulty program causes on a sound GPU, by NVIDIA's catalogue."""
_XID: Final = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),?\s*(.*)")
_BUS: Final = re.compile(r"([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.\d)?$")
_MAX_DETAIL: Final = 300
_TIMEOUT_S: Final = 60
_FIELDS: Final = 3

_Where = tuple[int, str]


class Health:
    """Reads everything anew each time. command: empty for none. gpus: how many there should be."""

    def __init__(self, settings: AgentSettings, *, kernel_log: Path = Path("/dev/kmsg")) -> None:
        self._settings = settings
        self._gpus = gpus.count(settings.gpus)
        self._xids: dict[_Where, str] = {}
        self._links: dict[int, int] = {}
        self._kernel = KernelLog(kernel_log)

    def look(self) -> Diagnosed:
        """All that is broken now."""
        found: dict[_Where, str] = {
            (WHOLE_NODE, kind): detail for kind, detail in machine.troubles(self._settings)
        }
        if self._settings.health_command:
            found |= of_command(self._settings.health_command)
        if gpus.present():
            readings = gpus.readings()
            found |= _of_gpus(readings, self._gpus)
            found |= self._of_links(gpus.links())
            self._xids |= _of_kernel(self._kernel.lines(), readings or ())
        found |= self._xids
        return Diagnosed(tuple(Fault(*where, found[where]) for where in sorted(found)))

    def _of_links(self, up: Mapping[int, int]) -> dict[_Where, str]:
        """GPUs that have fewer NVLinks up than before, or some of those that most have here."""
        count, having = Counter(up.values()).most_common(1)[0] if up else (0, 0)
        usual = count if 2 * having > len(up) else 0
        found: dict[_Where, str] = {}
        for gpu, now in up.items():
            self._links[gpu] = most = max(now, self._links.get(gpu, 0))
            due = max(most, usual if now else 0)
            if now < due:
                found[gpu, "nvlink"] = f"{now} NVLinks are up, not {due}"
        return found

    def close(self) -> None:
        """Let go of the kernel's log."""
        self._kernel.close()


class KernelLog:
    """New lines of the kernel's log; none where we may not read it."""

    def __init__(self, path: Path) -> None:
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._handle, 0, os.SEEK_END)
        except OSError:
            self._handle = -1

    def lines(self) -> list[str]:
        """What was logged since the last call."""
        found: list[str] = []
        while self._handle >= 0:
            try:
                data = os.read(self._handle, 8192)
            except BrokenPipeError:
                continue  # records were overwritten before we came; go on with the next
            except OSError:
                break
            if not data:
                break
            found += data.decode(errors="replace").splitlines()
        return found

    def close(self) -> None:
        """Read no more."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _of_kernel(lines: Sequence[str], readings: Sequence[gpus.Reading]) -> dict[_Where, str]:
    """Xids that a sound GPU does not have, each at the GPU with that address, else at the node."""
    indices = {_bus(reading.bus): reading.index for reading in readings}
    found: dict[_Where, str] = {}
    for line in lines:
        match = _XID.search(line)
        if match and int(match.group(2)) not in APPLICATION_XIDS:
            gpu = indices.get(_bus(match.group(1)), WHOLE_NODE)
            found[gpu, "xid"] = f"Xid {match.group(2)}: {match.group(3)}"[:_MAX_DETAIL]
    return found


def _bus(address: str) -> str:
    """Bus and device of a PCI address, however long its domain is written."""
    match = _BUS.search(address)
    return f"{match.group(1)}:{match.group(2)}".lower() if match else address


def _of_gpus(readings: Sequence[gpus.Reading] | None, count: int) -> dict[_Where, str]:
    if readings is None:
        return {(WHOLE_NODE, "nvidia-smi"): "nvidia-smi fails or hangs"}
    missing = set(range(count)) - {one.index for one in readings}
    found: dict[_Where, str] = {(gpu, "gone"): "does not answer nvidia-smi" for gpu in missing}
    for one in readings:
        if one.uncorrected:
            found[one.index, "ecc"] = f"{one.uncorrected} uncorrected errors"
        if one.remap_failed:
            found[one.index, "ecc_remap"] = "a row could not be remapped"
        if one.celsius is not None and one.celsius >= gpus.HOT_CELSIUS:
            found[one.index, "thermal"] = f"{one.celsius} degrees"
    return found


def of_command(
    command: Sequence[str], *, timeout_s: float = _TIMEOUT_S, **more: str
) -> dict[_Where, str]:
    """What a command says is broken, by GPU (-1: the node) and kind. more: its environment."""
    env = {**os.environ, **more}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, env=env
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {(WHOLE_NODE, "health"): f"the health command failed: {error}"[:_MAX_DETAIL]}
    found = dict(filter(None, map(_fault_line, done.stdout.splitlines())))
    if done.returncode != 0 and not found:
        lines = (done.stdout + done.stderr).strip().splitlines()
        detail = lines[-1] if lines else f"exit code {done.returncode}"
        found[WHOLE_NODE, "health"] = detail[:_MAX_DETAIL]
    return found


def _fault_line(line: str) -> tuple[_Where, str] | None:
    """`GPU KIND [text]`."""
    words = line.split(None, _FIELDS - 1)
    if len(words) < _FIELDS - 1 or not (words[0].isdecimal() or words[0] == "node"):
        return None
    gpu = int(words[0]) if words[0].isdecimal() else WHOLE_NODE
    detail = words[2] if len(words) == _FIELDS else ""
    return (gpu, words[1]), detail[:_MAX_DETAIL]
