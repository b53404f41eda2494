"""Looking before the start: whether this node could run a member at once, and on which port.

What is the node's fault (a GPU that does not answer, a full disk, no memory, a clock that is wrong,
whatever the operator's own check finds, no port) turns it away as sick
before the gang starts; what is the user's (no such directory, no such program) ends the member
with the code a shell would give.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gangline.agents import gpus, machine, memory_test, untrusted
from gangline.agents.core import Checked, Key
from gangline.agents.environment import FAMILIES, LAUNCHERS
from gangline.agents.health import WHOLE_NODE, of_command
from gangline.agents.private import PrivateError, Run, open_order

if TYPE_CHECKING:
    from gangline.agents.core import Check
    from gangline.agents.private import Unseal
    from gangline.agents.settings import AgentSettings
    from gangline.events.batch import AssignedMember

NO_COMMAND: Final = 127
NOT_EXECUTABLE: Final = 126


def look(
    check: Check,
    settings: AgentSettings,
    *,
    address: str,
    unseal: Unseal | None = None,
) -> tuple[Checked, socket.socket | None]:
    """The answer, and the socket that keeps the first member's port until the start."""
    order = check.order
    key = Key(order.job, order.attempt)
    sick = (
        _sick_gpu(order, settings) or _sick_machine(key, settings) or _fails_check(order, settings)
    )
    if sick is not None:
        return sick, None
    problem = _users_problem(order, unseal)
    if problem:
        return Checked(key=key, problem=problem, code=NO_COMMAND, reason="exited"), None
    if order.member != 0:
        # The gang meets at its first member; a port kept by another might be the one that is meant.
        return Checked(key=key, address=address), None
    held = _hold_port(check, settings)
    if held is None:
        wanted = check.port or "any"
        return Checked(key=key, problem=f"no free port on this node (wanted: {wanted})"), None
    return Checked(key=key, address=address, port=held.getsockname()[1]), held


def _sick_gpu(order: AssignedMember, settings: AgentSettings) -> Checked | None:
    """A GPU of the member that is not there, or that somebody else holds."""
    key = Key(order.job, order.attempt)
    readings = gpus.readings() or () if gpus.present() else ()
    if settings.gpus is not None or not gpus.present():
        missing = [gpu for gpu in order.gpus if gpu >= gpus.count(settings.gpus)]
    else:
        missing = sorted(set(order.gpus) - {reading.index for reading in readings})
    if missing:
        problem = f"GPU {missing[0]} is not there, or does not answer nvidia-smi"
        return Checked(key=key, problem=problem, fault="gone", gpu=missing[0])
    held = gpus.strangers() if readings else {}
    for reading in readings:
        if reading.index in order.gpus and (pids := held.get(reading.bus)):
            return Checked(key=key, problem=f"pid {pids[0]} holds memory of GPU {reading.index}")
    return None


def _sick_machine(key: Key, settings: AgentSettings) -> Checked | None:
    """Disk, memory, clock."""
    for kind, detail in machine.troubles(settings):
        return Checked(key=key, problem=detail, fault=kind)
    return None


def _fails_check(order: AssignedMember, settings: AgentSettings) -> Checked | None:
    """What the operator's own check and the memory test find on the node or the member's GPUs."""
    wanted = ",".join(map(str, order.gpus))
    told = {
        "GANGLINE_GPUS": wanted,
        "CUDA_VISIBLE_DEVICES": wanted,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    for command in filter(None, (settings.check_command, memory_test_of(settings.memory_test))):
        found = of_command(command, timeout_s=settings.check_s, **told)
        for (gpu, kind), detail in sorted(found.items()):
            if gpu in {WHOLE_NODE, *order.gpus}:
                return Checked(
                    key=Key(order.job, order.attempt),
                    problem=f"the check before the start says: {kind} {detail}".rstrip(),
                    fault=kind,
                    gpu=gpu,
                )
    return None


def memory_test_of(python: tuple[str, ...]) -> tuple[str, ...]:
    """The command that tests the memory of GPUs; empty where no Python is named for it."""
    return (*python, memory_test.__file__) if python else ()


def _users_problem(order: AssignedMember, unseal: Unseal | None) -> str:
    """What the user has to put right, empty for nothing."""
    launch = order.spec.launch
    if launch.launcher not in LAUNCHERS:
        return f"launcher is one of {', '.join(LAUNCHERS)}, not {launch.launcher!r}"
    if unknown := [family for family in launch.env_compat if family not in FAMILIES]:
        return f"env_compat knows {', '.join(FAMILIES)}, not {unknown[0]!r}"
    if not hasattr(signal, f"SIG{launch.stop_signal}"):
        return f"there is no signal {launch.stop_signal!r}"
    try:
        run = open_order(order, unseal)
    except PrivateError as error:
        return str(error)
    if launch.container_image:
        # Before the image stand options, and a name that begins like one would be one.
        wrong = launch.container_image.startswith("-")
        return "an image is named like registry/team/name:tag" if wrong else ""
    return _run_problem(run)


def _run_problem(run: Run) -> str:
    if run.workdir and not (untrusted.is_there(Path(run.workdir)) and Path(run.workdir).is_dir()):
        return "its working directory does not exist on this node, or may not be looked at"
    if run.user:
        try:
            uid = pwd.getpwnam(run.user).pw_uid
        except KeyError:
            return "its user does not exist on this node"
        if os.getuid() not in {0, uid}:
            return "this agent may not become another user"
    program = run.argv[0]
    path = run.env.get("PATH", os.environ.get("PATH"))
    if "/" in program:
        there = os.access(Path(run.workdir or "/") / program, os.X_OK)
    else:
        there = shutil.which(program, path=path) is not None
    return "" if there else "its program does not exist on this node, or may not be run"


def _hold_port(check: Check, settings: AgentSettings) -> socket.socket | None:
    """A bound socket that keeps the port; a published one is taken or nothing.

    The search begins at another port for each attempt and agent (a laptop has several), below the
    range that the kernel gives out by itself.
    """
    if check.port:
        return _bind(check.port)
    first, end = settings.ports
    size = end - first
    ours = zlib.crc32(str(settings.folder).encode())
    start = (ours + check.order.number * 31 + check.order.attempt * 7) % size
    candidates = (first + (start + step) % size for step in range(size))
    return next(filter(None, map(_bind, candidates)), None)


def _bind(port: int) -> socket.socket | None:
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("", port))
    except OSError:
        probe.close()
        return None
    return probe
