"""`gangline bench replay`: how fast a day's log is verified, against what decoding it costs.

A day of a busy cell is simulated into a log file, with a heartbeat of every node every ten seconds
beside it, as the mission's fleet has them. Measured are a bare decode loop over the bytes, verify
over the whole file, and a restore from a snapshot of the last state.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gangline.events import codec
from gangline.events.facts import NodeHeartbeat
from gangline.events.log import Record, Topic
from gangline.replay.faults import FaultModel
from gangline.replay.history import FileSource, steps
from gangline.replay.logfile import read_records
from gangline.replay.recorder import LogRecorder
from gangline.replay.simulate import Simulation
from gangline.replay.simulation_input import SIMULATION_POLICY, Inputs
from gangline.replay.verify import verify
from gangline.replay.workload import WorkloadSettings, make_workload
from gangline.replay.world import START_MS
from gangline.replay.world_log import node_partition
from gangline.scheduler import core as real_core
from gangline.scheduler import snapshots
from gangline.scheduler.follower import Follower

if TYPE_CHECKING:
    from gangline.replay.core_port import Step
    from gangline.replay.world import World

HEARTBEAT_MS: Final = 10_000
HOUR_MS: Final = 3_600_000
RESTORES: Final = 5
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """The options of `gangline bench replay`.

    A tenth of the mission's fleet has a tenth of its jobs and of its heartbeats: the proportion,
    which is what the rate depends on, is the same.
    """

    nodes: int = 100
    jobs_per_day: int = 190
    hours: int = 24
    load: float = 0.9
    seed: int = 1


def bench_replay(settings: ReplaySettings, *, progress: Progress | None = None) -> dict[str, Any]:
    """The JSON object of `gangline bench replay`; raises LogDifferenceError if verify fails."""
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as folder:
        log = Path(folder) / "day.log"
        heartbeats = write_day(settings, log)
        records, decode_s = _decode(log)
        report = verify(FileSource(log), real_core, progress=progress)
        if report.difference is not None:
            raise report.difference
        size = log.stat().st_size
        snapshot = _restore(log)
    decode_per_s = records / decode_s
    return {
        "nodes": settings.nodes,
        "hours": settings.hours,
        "records": records,
        "heartbeats": heartbeats,
        "decisions": report.decisions,
        "log_mib": round(size / 2**20, 2),
        "verify_events_per_s": round(report.events_per_s),
        "decode_events_per_s": round(decode_per_s),
        "verify_over_decode": round(decode_per_s / report.events_per_s, 2),
        "verify_s": round(report.seconds, 3),
        "decode_s": round(decode_s, 3),
        "restore": snapshot,
    }


def write_day(settings: ReplaySettings, log: Path) -> int:
    """Simulate the first hours of a workload into a file; how many heartbeats are in it."""
    workload = make_workload(
        WorkloadSettings(
            nodes=settings.nodes,
            jobs_per_day=settings.jobs_per_day,
            days=max(1, -(-settings.hours // 24)),
            load=settings.load,
            seed=settings.seed,
        )
    )
    inputs = Inputs(
        jobs=workload.jobs,
        fleet=workload.fleet,
        teams=workload.teams,
        policy=SIMULATION_POLICY,
        faults=FaultModel(),
        seed=settings.seed,
        checkpoint_ms=HOUR_MS // 2,
    )
    recorder = BeatingRecorder(log, nodes=[node.name for node in workload.fleet.nodes])
    simulation = Simulation(inputs, observers=(recorder,))
    simulation.run(None, until_ms=settings.hours * HOUR_MS)
    recorder.close()
    return recorder.heartbeats


class BeatingRecorder(LogRecorder):
    """A recorder that lets every node beat every ten seconds, and the batches consume it."""

    def __init__(self, path: Path, *, nodes: list[str]) -> None:
        super().__init__(path, genesis="bench", logic_version=real_core.LOGIC_VERSION)
        self._told_gone = True
        self._nodes = nodes
        self._beat = 0
        self._next: dict[int, int] = {}
        self.heartbeats = 0

    def stepped(self, world: World, step: Step) -> None:
        """What was heard up to the step stands before it; the leader's own step hears nothing."""
        if self._led and step.decisions:
            while START_MS + self._beat * HEARTBEAT_MS <= step.now_ms:
                self._all_beat(START_MS + self._beat * HEARTBEAT_MS)
        super().stepped(world, step)

    def _all_beat(self, at_ms: int) -> None:
        self._beat += 1
        for node in self._nodes:
            partition = node_partition(node)
            offset = self._next.get(partition, 0)
            self._next[partition] = offset + 1
            body = NodeHeartbeat(node=node, boot_id=f"{node}-boot-1", sequence=self._beat)
            value = codec.stated(body, id=f"{node}-{self._beat}", actor=f"node:{node}")
            self._consume(
                Record(
                    topic=Topic.HEARTBEATS,
                    partition=partition,
                    offset=offset,
                    appended_ms=at_ms,
                    key=node.encode(),
                    value=value,
                )
            )
            self.heartbeats += 1


def _decode(log: Path) -> tuple[int, float]:
    """How many records there are, and the seconds that decoding all of them takes."""
    values = [record.value for record in read_records(log)]
    began = time.perf_counter()
    for value in values:
        codec.decode(value)
    return len(values), time.perf_counter() - began


def _restore(log: Path) -> dict[str, Any]:
    """A snapshot of the last state: its size, and the best time to restore it, checks included."""
    follower = Follower(real_core)
    began = time.perf_counter()
    for step in steps(FileSource(log)):
        follower.fold(step)
    fold_s = time.perf_counter() - began
    pointer, chunks = snapshots.take(real_core, follower)
    times = []
    for _ in range(RESTORES):
        began = time.perf_counter()
        snapshots.restore(real_core, pointer, chunks)
        times.append(time.perf_counter() - began)
    return {
        "snapshot_kib": round(sum(map(len, chunks)) / 1024, 1),
        "restore_ms": round(min(times) * 1000, 2),
        "fold_ms": round(fold_s * 1000, 2),
    }
