"""Nodes of a stack on this machine: switched off as by a power cut, jobs and all."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Final

from gangline.agents import attempts, procfs
from gangline.cli.local_process import wait_until

if TYPE_CHECKING:
    from pathlib import Path

_WITHIN_S: Final = 10.0


def power_off(folder: Path) -> int:
    """Kill every process of the jobs of an agent that has ended; how many there were.

    folder: the agent's own. Nobody is told, and nothing is written: that is how a machine dies.
    """
    tokens = [
        intent.token
        for attempt in sorted((folder / "attempts").glob("*"))
        if (intent := attempts.read_intent(attempt)) is not None
        and intent.boot_id == procfs.boot_id()
    ]
    if not tokens:
        return 0
    killed: set[int] = set()

    def swept() -> bool:
        carriers = procfs.tokens()
        left = [(pid, token) for token in tokens for pid in carriers.get(token, ())]
        for pid, token in left:
            killed.add(pid)
            procfs.send(pid, signal.SIGKILL, still=partial(procfs.has_token, token=token))
        return not left

    wait_until(swept, within_s=_WITHIN_S)
    return len(killed)
