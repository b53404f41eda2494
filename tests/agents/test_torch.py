"""The PyTorch example: preempted, faulted and resumed, and the same weights to the bit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from gangline.agents import procfs
from gangline.events.batch import MemberPhase
from gangline.events.facts import CheckpointSaved, MemberExited, MemberReady, MemberStarted
from gangline.events.spec import Launch
from tests.agents import make
from tests.agents.cell import wait_for

if TYPE_CHECKING:
    from gangline.events.batch import AssignedMember
    from tests.agents.cell import Cell

ROOT = Path(__file__).parents[2]
NODES = ("n0", "n1")
F = TypeVar("F", MemberReady, MemberStarted, MemberExited)
STEPS = 150


def _python_with_torch() -> str:
    """A Python that has torch with gloo, empty for none; GANGLINE_TORCH_PYTHON names one."""
    named = os.environ.get("GANGLINE_TORCH_PYTHON")
    for python in filter(None, [named, "/usr/bin/python3", shutil.which("python3")]):
        probe = "import torch.distributed as d; assert d.is_gloo_available()"
        done = subprocess.run([python, "-c", probe], capture_output=True, check=False)
        if done.returncode == 0:
            return python
    return ""


@pytest.fixture(scope="module")
def python() -> str:
    """A Python with torch."""
    found = _python_with_torch()
    if not found:
        pytest.skip("no Python with torch and gloo here (GANGLINE_TORCH_PYTHON names one)")
    return found


class Training:
    """A job of four ranks on two nodes, attempt by attempt."""

    def __init__(self, cell: Cell, python: str, job: str) -> None:
        self.cell = cell
        self.job = job
        self.losses = cell.folder / f"{job}.loss"
        words = [python, str(ROOT / "examples/train_torch.py"), "--steps", str(STEPS)]
        words += ["--checkpoint-every", "0.5", "--loss-log", str(self.losses)]
        self.spec = make.spec(
            words,
            gpus=4,
            launch=Launch(launcher="per-gpu"),
            env={"PYTHONPATH": str(ROOT / "src"), "GLOO_SOCKET_IFNAME": "lo"},
        )
        self.orders: dict[str, AssignedMember] = {}

    def start(self, attempt: int, resume: CheckpointSaved | None = None) -> None:
        """Both members through both phases."""
        path, step = (resume.path, resume.step) if resume else ("", 0)
        for place, node in enumerate(NODES):
            self.orders[node] = make.member(
                self.job,
                attempt=attempt,
                gpus=(0, 1),
                nodes=NODES,
                member=place,
                spec=self.spec,
                resume_path=path,
                resume_step=step,
            )
            self.cell.assign(self.orders[node], node=node)
        meet = self._facts(MemberReady, attempt)["n0"]
        self._all(MemberPhase.RUN, address=meet.address, port=meet.port)
        self._facts(MemberStarted, attempt)

    def stop(self, attempt: int) -> dict[str, MemberExited]:
        """Preempt it with a good grace."""
        self._all(MemberPhase.STOP, grace_ms=30_000)
        return self._facts(MemberExited, attempt)

    def _all(self, phase: MemberPhase, **more: object) -> None:
        for node, order in self.orders.items():
            self.orders[node] = replace(order, phase=phase, **more)  # type: ignore[arg-type]
            self.cell.assign(self.orders[node], node=node)

    def _facts(self, kind: type[F], attempt: int) -> dict[str, F]:
        """The facts of this kind of both members."""

        def there() -> dict[str, F]:
            self.cell.read()
            found = {
                fact.node: fact
                for fact in self.cell.facts
                if isinstance(fact, kind) and (fact.job, fact.attempt) == (self.job, attempt)
            }
            return found if len(found) == len(NODES) else {}

        found: dict[str, F] = wait_for(there, what=f"{kind} of {attempt}", within_s=90)
        return found

    def ended(self, attempt: int) -> dict[str, MemberExited]:
        """How both members ended."""
        return self._facts(MemberExited, attempt)

    def saved(self, attempt: int) -> CheckpointSaved:
        """The newest checkpoint of an attempt that the log has."""

        def there() -> CheckpointSaved | None:
            self.cell.read()
            found = [
                fact
                for fact in self.cell.facts
                if isinstance(fact, CheckpointSaved)
                and (fact.job, fact.attempt) == (self.job, attempt)
            ]
            return max(found, key=lambda fact: fact.step, default=None)

        newest: CheckpointSaved = wait_for(there, what="a checkpoint", within_s=90)
        return newest

    def curve(self) -> dict[int, str]:
        """The loss of each step, as its last run had it."""
        lines = (line.split() for line in self.losses.read_text().splitlines())
        return {int(step): loss for _, step, loss in lines}

    def weights(self, attempt: int) -> set[str]:
        """What the ranks say their final weights are."""
        return {
            self.cell.output(self.orders[NODES[rank // 2]], rank, node=NODES[rank // 2])
            .split("weights ")[-1]
            .strip()
            for rank in range(4)
            if attempt
        }


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_training_that_was_disturbed_ends_with_the_same_weights(cell: Cell, python: str) -> None:
    """Stopped in its grace, then by the death of a rank: every loss and weight is equal."""
    calm, disturbed = Training(cell, python, "calm"), Training(cell, python, "disturbed")
    with cell.agent("n0"), cell.agent("n1"):
        calm.start(1)
        assert {fact.code for fact in calm.ended(1).values()} == {0}
        cell.assign(node="n0")
        cell.assign(node="n1")

        disturbed.start(1)
        disturbed.saved(1)
        stopped = disturbed.stop(1)
        assert {(fact.code, fact.reason) for fact in stopped.values()} == {(75, "stopped")}

        disturbed.start(2, disturbed.saved(1))
        disturbed.saved(2)
        _kill_a_rank(cell)
        assert all(fact.code != 0 for fact in disturbed.ended(2).values())

        disturbed.start(3, disturbed.saved(2))
        assert {fact.code for fact in disturbed.ended(3).values()} == {0}

    assert disturbed.saved(1).step < disturbed.saved(2).step < STEPS
    assert len(calm.curve()) == STEPS
    assert disturbed.curve() == calm.curve()
    assert disturbed.weights(3) == calm.weights(1)
    assert len(calm.weights(1)) == 1


def _kill_a_rank(cell: Cell) -> None:
    """`kill -9`, as a fault of the machine would."""
    started = cell.folder / "n1/attempts/disturbed.2/started.json"
    pid = int(json.loads(started.read_text())["pids"][1])
    assert procfs.stat(pid) is not None
    os.kill(pid, signal.SIGKILL)
