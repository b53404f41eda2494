"""`gangline bench failover`: how long nobody decides when the leader dies, or hands over.

Two real scheduler processes on a real bus share a cell of so many nodes, filled with gangs. The one
that leads is killed (SIGKILL), and the clock runs until the other one's first batch can be read;
the dead one comes back as the standby, and so on in turn. Then the lead is handed over as often.
Of the first time, 1.5 s are the silence that a standby waits for.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from gangline.events import codec, facts
from gangline.events.batch import DecisionBatch
from gangline.events.bus import open_log
from gangline.events.log import LogError, Message, Topic
from gangline.events.reading import read_to_ends
from gangline.events.spec import Spec
from gangline.replay.workload import GPUS_PER_NODE, pod_fleet
from gangline.scheduler.follower import DECISIONS
from gangline.scheduler.hand_over import begun, hand_over

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gangline.events.log import Log, Reader

GANG_NODES: Final = 4
CHUNK: Final = 500
DAY_MS: Final = 86_400_000
PATIENCE_S: Final = 300.0
POLICY: Final = {"suspect_after": DAY_MS, "lost_after": 2 * DAY_MS, "start_timeout": DAY_MS}
"""Nobody beats and nobody makes ready here: the state only has to be there."""


class FailoverError(LogError):
    """Something that the bench waited for did not come about; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSettings:
    """The options of `gangline bench failover`. bus: its URL; runs: of each kind.

    standing_s: how long a standby stands by before its leader dies; one that has just begun still
    reads the log.
    """

    bus: str
    nodes: int = 1_000
    runs: int = 3
    cell: str = "bench-failover"
    standing_s: float = 5.0


def bench_failover(
    settings: FailoverSettings, folder: Path, *, progress: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """The JSON object of `gangline bench failover`. folder: for the processes' logs."""
    log = open_log(settings.bus, settings.cell)
    pair = Pair(settings, folder)
    try:
        log.create_topics()
        began = time.monotonic()
        _fill(log, settings.nodes)
        pair.start("one", 0)
        gangs = settings.nodes // GANG_NODES
        _until(lambda: _counted(log, "GangPlaced") >= gangs, "the gangs' places", every_s=1.0)
        _settle(log)
        filled_s = time.monotonic() - began
        pair.start("two", 1)
        kills = [_one(progress, pair, lambda: _kill(log, pair)) for _ in range(settings.runs)]
        moves = [_one(progress, pair, lambda: _hand_over(log)) for _ in range(settings.runs)]
    finally:
        pair.close()
        log.close()
    return {
        "bus": settings.bus.partition(":")[0],
        "nodes": settings.nodes,
        "gpus": settings.nodes * GPUS_PER_NODE,
        "gangs": gangs,
        "filled_s": round(filled_s, 1),
        "kill_to_first_decision_s": _shown(kills),
        "hand_over_s": _shown(moves),
    }


def _one(progress: Callable[[int], None] | None, pair: Pair, measure: Callable[[], float]) -> float:
    """One run, when both processes are in their roles."""
    pair.wait()
    taken_s = measure()
    pair.runs += 1
    if progress is not None:
        progress(pair.runs)
    return taken_s


def _shown(seconds: list[float]) -> dict[str, Any]:
    return {
        "p50": round(median(seconds), 3),
        "max": round(max(seconds), 3),
        "runs": [round(each, 3) for each in seconds],
    }


class Pair:
    """Two scheduler processes."""

    def __init__(self, settings: FailoverSettings, folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._index: dict[str, int] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.runs = 0

    def start(self, name: str, index: int) -> None:
        """Start one as the command line does; it stands by until it must lead."""
        words = ["scheduler", "--bus", self._settings.bus, "--cell", self._settings.cell]
        words += ["--name", name, "--index", str(index), "--snapshot-every", "200"]
        with (self._folder / f"{name}.log").open("wb") as output:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "gangline.cli.main", *words], stdout=output, stderr=output
            )
        self._index[name] = index

    def role(self, name: str) -> str:
        """What it said of itself last."""
        text = (self._folder / f"{name}.log").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return next((line["role"] for line in reversed(lines) if "role" in line), "")

    def leader(self) -> str:
        """The one that leads; empty while nobody does."""
        return next((name for name in self.running if self.role(name) == "leader"), "")

    def wait(self) -> None:
        """Wait until one leads and the other one stands by."""
        _until(
            lambda: sorted(map(self.role, self.running)) == ["leader", "standby"],
            "a leader and a standby",
        )
        time.sleep(self._settings.standing_s)

    def kill(self) -> None:
        """Kill the one that leads."""
        process = self.running[self.leader()]
        process.kill()
        process.wait()

    def revive(self) -> None:
        """Start the dead one again, as a standby."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                self.start(name, self._index[name])

    def close(self) -> None:
        """End both."""
        for process in self.running.values():
            process.kill()
            process.wait()


def _kill(log: Log, pair: Pair) -> float:
    reader = log.reader({DECISIONS: log.ends([Topic.DECISIONS])[DECISIONS]})
    try:
        began = time.monotonic()
        pair.kill()
        _next_term(reader)
        taken_s = time.monotonic() - began
    finally:
        reader.close()
    pair.revive()
    return taken_s


def _hand_over(log: Log) -> float:
    return hand_over(log, actor="operator:bench").gap_ms / 1000


def _next_term(reader: Reader) -> None:
    """Wait for the first batch of a term."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for record in reader.poll(0.05):
            if begun(record) is not None:
                return
    raise FailoverError(f"nobody led within {PATIENCE_S:g} s")


def _until(seen: Callable[[], object], what: str, *, every_s: float = 0.05) -> None:
    until = time.monotonic() + PATIENCE_S
    while not seen():
        if time.monotonic() > until:
            raise FailoverError(f"{what} did not come within {PATIENCE_S:g} s")
        time.sleep(every_s)


def _counted(log: Log, kind: str) -> int:
    """How many decisions of a kind there are."""
    count = 0
    for record in read_to_ends(log, {DECISIONS: 0}):
        batch = codec.decode(record.value).body
        if isinstance(batch, DecisionBatch):
            count += sum(packed.kind == kind for packed in batch.decisions)
    return count


# --- the fleet ------------------------------------------------------------------------------------


def _fill(log: Log, nodes: int) -> None:
    """A fleet with its team and policy, and gangs that fill it."""
    control = [
        facts.PolicySet(values=POLICY),
        facts.TeamSet(team="bench", guaranteed=nodes * GPUS_PER_NODE),
        *pod_fleet(nodes).admissions(),
    ]
    _append(log, Topic.CONTROL, control)
    spec = Spec(team="bench", gpus=GANG_NODES * GPUS_PER_NODE, gpus_per_node=GPUS_PER_NODE)
    gangs = range(nodes // GANG_NODES)
    _append(log, Topic.JOBS, [facts.JobSubmitted(job=f"gang-{i}", spec=spec) for i in gangs])


def _settle(log: Log) -> None:
    """Have one more step decided, on none of the nodes.

    A new leader publishes the assignments of the last step anew; the step that filled the fleet was
    about all nodes, as none is when it works.
    """
    queued = _counted(log, "JobQueued")
    spec = Spec(team="bench", gpus=1)
    _append(log, Topic.JOBS, [facts.JobSubmitted(job="waits", spec=spec)])
    _until(lambda: _counted(log, "JobQueued") > queued, "an answer to one more job", every_s=1.0)


def _append(log: Log, topic: Topic, bodies: list[Any]) -> None:
    messages = []
    for index, body in enumerate(bodies):
        name = body.job if topic == Topic.JOBS else f"bench-{index}"
        value = codec.stated(body, id=name, actor="operator:bench")
        messages.append(Message(topic=topic, value=value, key=b"bench"))
    for at in range(0, len(messages), CHUNK):
        log.append(messages[at : at + CHUNK])
