"""Moments in the life of a gang, and who may die then.

A moment is held open while somebody dies: where it would pass by itself, an agent stands still.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gangline.agents import plan as files
from gangline.client import Client
from tests.integration.training import RANKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.integration.training import Training

SAVE_S: Final = 0.6
"""Long enough to be met while it is written, shorter than the interval."""
PAUSE_S: Final = 3.0
"""How long who stands still, or is cut off, does so: far less than makes a node lost."""
HELD: Final = "node-1"
OTHER: Final = "node-0"
"""The block that the gang gets; node-2 stands by."""


# --- moments --------------------------------------------------------------------------------------


@contextmanager
def preparing(training: Training) -> Iterator[None]:
    """The gang has its place; one node is ready and waits for the other."""
    with _standing_still(training, HELD):
        training.submit()
        journal = training.plan.agent_folder(OTHER) / "journal.json"
        until(lambda: '"stage": "ready"' in journal.read_text(), f"{OTHER} to be ready")
        yield


@contextmanager
def starting(training: Training) -> Iterator[None]:
    """The first processes are there, and have not done a step."""
    training.submit()
    until(lambda: training.processes(GANGLINE_ATTEMPT=1), "the first process")
    yield


@contextmanager
def running(training: Training) -> Iterator[None]:
    """Half-way between two checkpoints."""
    training.submit()
    training.advance(12)
    training.wait_until_recorded(training.last().step)
    training.advance(5)
    yield


@contextmanager
def saving(training: Training) -> Iterator[None]:
    """A checkpoint is half written; there is an older one."""
    training.submit(save_s=SAVE_S)
    training.advance(12)
    training.wait_until_recorded(training.last().step)
    _until_half_written(training)
    yield


@contextmanager
def grace(training: Training) -> Iterator[None]:
    """It was told to make room for an urgent gang, and saves."""
    training.submit(save_s=SAVE_S)
    training.advance(12)
    first = training.nodes()[0]
    training.submit_other(_urgent(training), steps=10, priority="urgent")
    until((_attempt(training, first) / files.OPEN_FOLDER / files.NOTICE).exists, "the notice")
    yield


@contextmanager
def ended(training: Training) -> Iterator[None]:
    """All its processes have ended; one agent has not seen it."""
    training.submit()
    training.advance(12)
    first = training.nodes()[0]
    with _standing_still(training, first):
        training.done.touch()
        until((_attempt(training, first) / files.RESULT).exists, "the result")
        yield


MOMENTS: Final[Mapping[str, Callable[[Training], AbstractContextManager[None]]]] = {
    each.__name__: each for each in (preparing, starting, running, saving, grace, ended)
}


def settle(training: Training, moment: str, *, attempts: int) -> None:
    """Until it has run on, or run again, for a while; and whoever took its place has ended."""
    if moment == "grace":
        with Client(training.stack.url) as client:
            assert client.wait(_urgent(training), timeout_s=120) == 0
    if moment != "ended":
        training.advance(12, attempt=attempts)


def _urgent(training: Training) -> str:
    return f"{training.name}-urgent"


def _attempt(training: Training, node: str) -> Path:
    """The folder of its first attempt there."""
    return training.plan.agent_folder(node) / "attempts" / f"{training.name}.1"


def _until_half_written(training: Training) -> None:
    root = training.folder / "checkpoints" / training.name
    until(lambda: list(root.glob("attempt-*/.step-*")), "a save under way")


@contextmanager
def _standing_still(training: Training, node: str) -> Iterator[None]:
    """An agent does nothing meanwhile; it may be killed all the same."""
    training.stack.running[node].send(signal.SIGSTOP)
    try:
        yield
    finally:
        training.stack.running[node].send(signal.SIGCONT)


# --- who dies -------------------------------------------------------------------------------------


def agent(training: Training) -> None:
    """Of the node that is ready, that has rank 0, or that has not seen the end yet."""
    training.kill(_agent(training))


def supervisor(training: Training) -> None:
    """Of one node's ranks."""
    paths = training.folder.glob(f"agents/*/attempts/{training.name}.*/{files.SUPERVISOR}")
    os.kill(json.loads(next(paths).read_text())["pid"], signal.SIGKILL)


def rank(training: Training) -> None:
    """The last one, which is on another node than the first."""
    until(lambda: training.processes(RANK=RANKS - 1), "the last rank")
    training.kill_rank(RANKS - 1)


def leader(training: Training) -> None:
    """Of the schedulers."""
    training.kill(_schedulers(training)[0])


def standby(training: Training) -> None:
    """The other one."""
    training.kill(_schedulers(training)[1])


def broker(training: Training) -> None:
    """Of Kafka."""
    training.kill_broker()


def database(training: Training) -> None:
    """Of the views; on the embedded bus it is the log too."""
    training.kill_database()


def still(training: Training) -> None:
    """The agent, which wakes up again."""
    training.stack.running[_agent(training)].send(signal.SIGSTOP)


def cable(training: Training) -> None:
    """Nothing gets from the agent to the broker and back."""
    assert training.proxy is not None
    training.proxy.part()


VICTIMS: Final[Mapping[str, Callable[[Training], None]]] = {
    each.__name__: each
    for each in (agent, supervisor, rank, leader, standby, broker, database, still, cable)
}
OF_THE_JOB: Final = {"supervisor", "rank"}
"""Whose death ends the attempt: everybody else's is nothing to the programs."""


def mend(training: Training, victim: str) -> None:
    """Start again what is dead; what stands still or is cut off comes back after a while."""
    if victim in {"still", "cable"}:
        time.sleep(PAUSE_S)
        for process in training.stack.running.values():
            process.send(signal.SIGCONT)
        if training.proxy is not None:
            training.proxy.heal()
    training.mend()


def _agent(training: Training) -> str:
    """The first node in order of ranks as soon as it is known, else the one that is not held."""
    if not training.steps():
        return OTHER
    return next(line.split()[3] for line in training.lines() if line.split()[1] == "0")


def _schedulers(training: Training) -> list[str]:
    """Who leads, and who stands by, by what they said last."""
    said: dict[str, tuple[str, str]] = {}
    for name in ("scheduler-0", "scheduler-1"):
        lines = training.stack.log_of(name).read_text().splitlines()
        roles = [json.loads(line) for line in lines if re.search(r'"event": "role"', line)]
        said[name] = (roles[-1]["role"], roles[-1]["timestamp"])
    leaders = sorted((at, name) for name, (role, at) in said.items() if role == "leader")
    first = leaders[-1][1]
    return [first, next(name for name in said if name != first)]


def until(true: Callable[[], object], what: str, *, within_s: float = 60) -> None:
    """Wait for something."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
