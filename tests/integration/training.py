"""A training job of real processes on a whole stack, and what may be done to it.

What was lost is read from the training program's own log of steps, not from what we say of it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.agents import procfs
from gangline.cli import local_kafka, local_postgres, local_process, processes
from gangline.cli import stack as stacks
from gangline.cli.local_process import free_port, wait_until
from gangline.client import Client, GanglineError, JobSpec
from gangline.events.log import LogError
from tests.support.kafka_proxy import KafkaProxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[2]
RANKS: Final = 4
STEP_S: Final = 0.1
INTERVAL_S: Final = 1.0
MOST_LOST: Final = int(INTERVAL_S / STEP_S) + 2
"""Steps of one interval; and the one in which it is found due, and the one under way."""


class Step(NamedTuple):
    """A line of the program's own log: written when the step was done."""

    attempt: int
    rank: int
    step: int


BEFORE = Step(attempt=0, rank=0, step=0)
"""When nothing has been done yet."""


class Training:
    """A stack, and on it one gang of `ranks`, two a node, saving every second."""

    def __init__(
        self, folder: Path, bus: str, *, agents: int = 2, ranks: int = RANKS, **policy: int
    ) -> None:
        self.folder = folder
        self.ranks = ranks
        self.proxy: KafkaProxy | None = None
        self.call("train")
        self.plan = stacks.Plan(
            directory=folder, port=free_port(), agents=agents, gpus=2, heartbeat_s=1.0, bus=bus,
            policy=policy,
        )  # fmt: skip
        self.stack = stacks.up(self.plan)

    def call(self, name: str) -> None:
        """The job that is meant from now on."""
        self.name = name
        self.log = self.folder / f"{name}.steps"
        self.done = self.folder / f"{name}.done"

    def submit(self, *, save_s: float = 0.0, **more: Any) -> None:
        """Start it. save_s: how long a save takes. more: of its spec."""
        words = ["--checkpoint-every", str(INTERVAL_S), "--until", str(self.done)]
        words += ["--save-s", str(save_s)]
        self.submit_other(
            self.name, *words, steps=1_000_000, checkpoint=f"{INTERVAL_S:g}s", retries=10, **more
        )

    def submit_other(self, name: str, *words: str, steps: int, **more: Any) -> None:
        """Start a gang of the same shape that does so many steps. more: of its spec."""
        program = [sys.executable, str(ROOT / "examples/train_counter.py"), "--steps", str(steps)]
        log = ["--step-s", str(STEP_S), "--step-log", str(self.folder / f"{name}.steps")]
        spec = JobSpec(
            team="a", gpus=self.ranks, gpus_per_node=2, command=[*program, *log, *words],
            launcher="per-gpu", **more,
        )  # fmt: skip
        with Client(self.stack.url) as client:
            client.request("PUT", "/v1/teams/a", body={"guaranteed": self.ranks})
            client.submit(spec, key=name)

    def mend(self) -> None:
        """What an operator's process manager does: start again what is dead."""
        deadline = time.monotonic() + 120
        while True:
            try:
                self.stack = stacks.up(self.plan)
            except (
                stacks.StackError, GanglineError, local_process.LocalServerError, LogError,
            ):  # fmt: skip
                assert time.monotonic() < deadline
                time.sleep(0.2)
            else:
                return

    @contextmanager
    def behind_proxy(self, name: str, *options: str) -> Iterator[KafkaProxy]:
        """An agent comes up anew, and meets the broker by a proxy from now on."""
        broker = self.stack.bus.removeprefix("kafka://")
        proxy = self.proxy = KafkaProxy.before(broker)
        self.kill(name)
        environment = {**self.stack.environment(), "GANGLINE_BUS": f"kafka://{proxy.bootstrap}"}
        words = [*self.stack.commands()[name], *options]
        log = self.stack.log_of(name)
        self.stack.running[name] = processes.start(name, words, log=log, env=environment)
        self.stack.save()
        try:
            yield proxy
        finally:
            self.kill(name)
            self.proxy = None
            proxy.close()

    def steps(self) -> list[Step]:
        """All steps, in the order in which they were done."""
        return [Step(*map(int, line.split()[:3])) for line in self.lines()]

    def lines(self) -> list[str]:
        """What the program logged, whole lines."""
        return _lines(self.log)

    def last(self) -> Step:
        """Rank 0's last step; before its first one, step 0 of no attempt."""
        return next((step for step in reversed(self.steps()) if step.rank == 0), BEFORE)

    def advance(self, steps: int, *, attempt: int = 0, within_s: float = 180) -> None:
        """Wait until it has done so many more steps, in this attempt or a later one."""
        before = self.last()
        deadline = time.monotonic() + within_s
        while True:
            last = self.last()
            same = last.attempt == before.attempt
            gone = last.step - before.step if same else last.step
            if last.attempt >= attempt and (gone >= steps or not same):
                return
            assert time.monotonic() < deadline, f"no progress after {before}"
            time.sleep(0.05)

    # --- who can be killed ------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """`kill -9` one of the stack's processes."""
        self.stack.running[name].send(signal.SIGKILL)

    def kill_database(self) -> None:
        """Of the views; on the embedded bus it is the log too."""
        server = json.loads((self.folder / "postgres" / "server.json").read_text())
        postmaster = Path(server["home"]) / "data" / "postmaster.pid"
        os.kill(int(postmaster.read_text().split()[0]), signal.SIGKILL)
        folder = self.folder / "postgres"
        assert wait_until(lambda: local_postgres.url(folder) is None, within_s=30)

    def kill_broker(self) -> None:
        """Of Kafka."""
        broker = local_kafka.find(self.folder / "kafka")
        assert broker is not None
        os.kill(broker.pid, signal.SIGKILL)
        folder = self.folder / "kafka"
        assert wait_until(lambda: local_kafka.find(folder) is None, within_s=30)

    def kill_rank(self, rank: int) -> None:
        """One process of the gang, as the kernel does when memory runs out."""
        (pid,) = self.processes(RANK=rank)
        os.kill(pid, signal.SIGKILL)

    def processes(self, **having: int) -> list[int]:
        """Its processes that have these variables."""
        pids = [pid for some in procfs.tokens().values() for pid in some]
        return [pid for pid in pids if _is_ours(pid, str(self.log), having)]

    # --- judges -----------------------------------------------------------------------------------

    def recorded(self) -> int:
        """The step of the newest checkpoint that the log has, as its agent put it beside it."""
        found = self.folder.glob(f"checkpoints/{self.name}/attempt-*/step-*.recorded")
        return max((int(path.name[5:-9]) for path in found), default=0)

    def wait_until_recorded(self, step: int) -> int:
        """Until the log has a checkpoint of a later step; its step."""
        deadline = time.monotonic() + 180
        while (newest := self.recorded()) <= step:
            assert time.monotonic() < deadline, f"nothing was recorded after step {newest}"
            time.sleep(0.05)
        return newest

    def attempts(self) -> list[int]:
        """The attempts that did steps."""
        return sorted({step.attempt for step in self.steps()})

    def nodes(self) -> list[str]:
        """Where it runs, in order of ranks."""
        with Client(self.stack.url) as client:
            seats = client.job(self.name)["attempts_list"][-1]["seats"]
        return list(dict.fromkeys(seat["node"] for seat in seats))

    def judge(self, *, most_lost: int = MOST_LOST) -> None:
        """Nothing was done twice at once, and little was done again."""
        steps = self.steps()
        assert [s.attempt for s in steps] == sorted(s.attempt for s in steps), "two ran at once"
        assert len(set(steps)) == len(steps)
        own = [step for step in steps if step.rank == 0]
        for before, after in pairwise(own):
            if before.attempt == after.attempt:
                assert after.step == before.step + 1
            else:
                assert 0 <= before.step + 1 - after.step <= most_lost, (before, after)

    def finish(self) -> int:
        """Let it end by itself; the model that it then has."""
        self.done.touch()
        with Client(self.stack.url) as client:
            assert client.wait(self.name, timeout_s=120) == 0
        logs = [
            path.read_text()
            for path in self.folder.glob(f"agents/*/attempts/{self.name}.*/rank-0.out")
        ]
        said = re.search(r"is done: (\d+) steps, model (\d+)", "".join(logs))
        assert said is not None
        assert int(said.group(2)) == undisturbed(int(said.group(1)), ranks=self.ranks)
        return int(said.group(1))


def judge_gpus(folder: Path) -> None:
    """By the logs of all programs, no GPU ever had processes of two attempts at once."""
    held: dict[tuple[str, str], dict[tuple[str, str], tuple[float, float]]] = {}
    for log in sorted(folder.glob("*.steps")):
        for line in _lines(log):
            attempt, _, _, node, gpus, began_s, at_s = line.split()
            for gpu in gpus.split(","):
                runs = held.setdefault((node, gpu), {})
                first, last = runs.get((log.name, attempt), (float(began_s), float(at_s)))
                runs[log.name, attempt] = min(first, float(began_s)), max(last, float(at_s))
    assert held
    for place, runs in held.items():
        for before, after in pairwise(sorted((span, who) for who, span in runs.items())):
            assert before[0][1] <= after[0][0], (place, before, after)


def _lines(log: Path) -> list[str]:
    return log.read_text().split("\n")[:-1] if log.exists() else []


def undisturbed(steps: int, *, ranks: int) -> int:
    """The model after so many steps of which none was lost or done twice."""
    model = 0
    for step in range(1, steps + 1):
        model = (model * 31 + step * sum(range(1, ranks + 1))) % 1_000_000_007
    return model


def _is_ours(pid: int, log: str, having: Mapping[str, int]) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
        environment = Path(f"/proc/{pid}/environ").read_text().split("\0")
    except OSError:
        return False
    if log not in command or "train_counter" not in command:
        return False
    return all(f"{name}={value}" in environment for name, value in having.items())
