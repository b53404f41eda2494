"""A cell to play in: a log in memory, clocks that a test turns, and any number of schedulers."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from gangline.events import codec, facts
from gangline.events.envelope import Event
from gangline.events.log import Log, Message, Record, Topic
from gangline.events.memory import MemoryLog
from gangline.events.reading import from_the_start, read_to_ends
from gangline.events.spec import Spec
from gangline.scheduler.follower import Follower
from gangline.scheduler.leader import Outside, Turn, Who
from gangline.scheduler.ports import Point, no_probe
from gangline.scheduler.process import Habits, Scheduler
from tests.scheduler.toy_core import ToyCore

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.events.batch import DecisionBatch, NodeAssignment
    from gangline.scheduler.ports import Core, Probe

START_MS = 1_700_000_000_000
PATIENCE_S = 30


class Clocks:
    """A machine whose clocks a test turns; the log's clock too."""

    def __init__(self) -> None:
        self.passed_ms = 0
        self.wall_error_ms = 0

    def wall_ms(self) -> int:
        """The wall clock, wrong by what a test says."""
        return START_MS + self.passed_ms + self.wall_error_ms

    def monotonic_ms(self) -> int:
        """Time since the test began."""
        return self.passed_ms

    def log_ms(self) -> int:
        """The log's own clock."""
        return START_MS + self.passed_ms


class Killed(BaseException):
    """A scheduler died here."""


class KillAt:
    """A probe that kills at the nth passing of a point."""

    def __init__(self, point: Point, *, passing: int = 1) -> None:
        self.point = point
        self.left = passing
        self.done = False

    def __call__(self, point: Point, /) -> None:
        """Die here, if it is time."""
        if point is self.point and not self.done:
            self.left -= 1
            if self.left == 0:
                self.done = True
                raise Killed(point)


class Cell:
    """One cell's log and its clients. acknowledged: what was promised to submitters."""

    def __init__(self, log: Log | None = None, *, core: Core | None = None) -> None:
        self.clocks = Clocks()
        self.log = log or MemoryLog(clock=self.clocks.log_ms)
        self.log.create_topics()
        self.core = core or ToyCore()
        self.acknowledged: list[str] = []
        self._ids = itertools.count(1)

    def outside(self, *, probe: Probe = no_probe) -> Outside:
        """What a scheduler of this cell touches."""
        return Outside(log=self.log, core=self.core, machine=self.clocks, probe=probe)

    def scheduler(
        self,
        name: str = "one",
        *,
        index: int = 0,
        probe: Probe = no_probe,
        snapshot_every: int = 1_000_000,
        limit: int = 500,
    ) -> Scheduler:
        """A scheduler process of this cell."""
        """A scheduler process of this cell."""
        return Scheduler(
            self.outside(probe=probe),
            Who(name=name, genesis="genesis-1", limit=limit),
            Habits(index=index, threads=False, snapshot_every=snapshot_every),
        )

    # --- clients ------------------------------------------------------------------------------

    def say(self, topic: Topic, body: Any, *, actor: str = "operator:ops", key: str = "") -> None:
        """Append a fact."""
        envelope = codec.envelope_for(body, id=f"id-{next(self._ids)}", actor=actor)
        value = codec.encode(Event(envelope=envelope, body=body))
        self.log.append([Message(topic=topic, value=value, key=key.encode())])

    def admit(self, *nodes: str) -> None:
        """An operator admits nodes."""
        for node in nodes:
            self.say(Topic.CONTROL, facts.NodeAdmitted(node=node, path=(), levels=(), gpus=1))

    def submit(self, *jobs: str) -> None:
        """A user submits jobs, and is told that they are in the log."""
        for job in jobs:
            body = facts.JobSubmitted(job=job, spec=Spec(team="a", gpus=1))
            self.say(Topic.JOBS, body, actor="user:u")
            self.acknowledged.append(job)

    def heartbeat(self, *nodes: str) -> None:
        """Agents are alive."""
        for node in nodes:
            body = facts.NodeHeartbeat(node=node, boot_id="b", sequence=1)
            self.say(Topic.HEARTBEATS, body, actor=f"node:{node}", key=node)

    def garbage(self, topic: Topic) -> None:
        """Bytes that mean nothing."""
        self.log.append([Message(topic=topic, value=b"garbage")])

    # --- time ---------------------------------------------------------------------------------

    def run(self, *schedulers: Scheduler, ms: int = 0, step_ms: int = 100) -> list[Turn]:
        """Let all take turns until nobody has anything to do at the end of that time."""
        turns: list[Turn] = []
        end = self.clocks.passed_ms + ms
        while True:
            busy = [turn for each in schedulers if (turn := each.turn(0)) is not None]
            turns.extend(busy)
            if busy and len(turns) < 10_000:
                continue
            if self.clocks.passed_ms >= end:
                return turns
            self.clocks.passed_ms += min(step_ms, end - self.clocks.passed_ms)

    def until(self, seen: Callable[[], object], *schedulers: Scheduler, ms: int = 60_000) -> None:
        """Let all take turns until something is so; fails when it is not in that time.

        A real bus takes real time, however fast the cell's own goes: half a minute at least.
        """
        began, turns = time.monotonic(), 0
        while not seen():
            if turns >= ms // 100 and time.monotonic() - began > PATIENCE_S:
                raise AssertionError("it did not come about")
            self.run(*schedulers, ms=100)
            turns += 1

    def led_by(self, scheduler: Scheduler) -> None:
        """Wait until this one leads and has taken its first step."""
        self.until(
            lambda: scheduler.leader is not None and not scheduler.leader.is_starting, scheduler
        )

    # --- judges -------------------------------------------------------------------------------

    def records(self, topic: Topic) -> list[Record]:
        """Everything in a topic."""
        return list(read_to_ends(self.log, from_the_start([topic])))

    def batches(self) -> list[DecisionBatch]:
        """All batches, parts of steps by themselves."""
        return [codec.decode(record.value).body for record in self.records(Topic.DECISIONS)]

    def decisions(self, kind: type | None = None) -> list[Any]:
        """All decisions of a kind."""
        found = [codec.unpack(packed) for batch in self.batches() for packed in batch.decisions]
        return [each for each in found if kind is None or isinstance(each, kind)]

    def replayed(self) -> Follower:
        """The state by the log alone, with chain and digests checked."""
        follower = Follower(self.core)
        follower.read_to_end(self.log)
        return follower

    def assignments(self) -> dict[str, NodeAssignment]:
        """What each node's agent believes: the record with the highest (term, seq)."""
        newest: dict[str, NodeAssignment] = {}
        for record in self.records(Topic.ASSIGNMENTS):
            body = codec.decode(record.value).body
            known = newest.get(body.node)
            if known is None or (body.term, body.seq) > (known.term, known.seq):
                newest[body.node] = body
        return newest
