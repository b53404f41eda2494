"""A cell that lives in one process: a week of history first, then on with the clock on the wall.

The world (`world.py`) has the real core and simulated agents. While it makes the history, all of
its topics are its own, and what it decides goes to the log in large portions. From then on it is a
scheduler among others' clients: submissions and what operators state come from the log, where the
API appends them, and each step is put into the log as it is made.
"""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from gangline.agents.simulated_gang import Program, Saves
from gangline.events import codec
from gangline.events import facts as f
from gangline.events.log import Message, Record, Topic, TopicPartition
from gangline.events.spec import jobs_of
from gangline.replay.demo_story import MINUTE_MS, POLICY, Size, make_story, visitor
from gangline.replay.recorder import LogRecorder
from gangline.replay.workload import DAY_MS, HOUR_MS
from gangline.replay.world import World
from gangline.replay.world_log import InputLog
from gangline.scheduler import core as real_core
from gangline.scheduler.intake import to_fact

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangline.events.log import Log
    from gangline.replay.core_port import Step
    from gangline.replay.demo_story import Story, Trouble
    from gangline.scheduler.core.inputs import Fact

PORTION: Final = 1_500
POLL_S: Final = 0.2
NIGHT_HOUR: Final = 3
VISITOR_EVERY_S: Final = 4.0
FAULT_EVERY_S: Final = 60.0
STRANGER: Final = Program(runtime_ms=5 * MINUTE_MS)
_SHARED: Final = (Topic.JOBS, Topic.CONTROL)


class _Portions:
    """A writer of records that hands them on in portions. live: what others append is left out."""

    def __init__(self, load: Callable[[Sequence[Record]], None]) -> None:
        self._load = load
        self._waiting: list[Record] = []
        self.live = False

    def write(self, record: Record) -> None:
        """The next record."""
        if not (self.live and record.topic in _SHARED):
            self._waiting.append(record)

    def stepped(self, world: World, step: Step) -> None:
        """A whole step stands here: hand on what waits if it is enough."""
        del world, step
        if self.live or len(self._waiting) >= PORTION:
            self.close()

    def close(self) -> None:
        """Hand on what waits."""
        if self._waiting:
            self._load(self._waiting)
            self._waiting = []


class _SharedLog(InputLog):
    """The world's topics when others append to two of them."""

    def receive(self, record: Record) -> Fact:
        """A record that somebody appended."""
        fact = to_fact(record)
        self._ends[record.topic, record.partition] = record.offset + 1
        self._unread.append(fact)
        return fact

    def ends(self) -> dict[TopicPartition, int]:
        """The next offsets of the topics that others append to."""
        return {TopicPartition(topic, 0): self._ends.get((topic, 0), 0) for topic in _SHARED}


class DemoCell:
    """The cell. load: puts records into its log as they stand."""

    def __init__(
        self, load: Callable[[Sequence[Record]], None], *, now_ms: int, size: Size | None = None
    ) -> None:
        self._size = size or Size()
        self._start_ms = now_ms - self._size.days * DAY_MS
        self._story = make_story(self._size, night_ms=self._night(now_ms) - self._start_ms)
        self._portions = _Portions(load)
        recorder = LogRecorder(
            self._portions, genesis="demo", logic_version=real_core.LOGIC_VERSION
        )
        self.world = World(
            real_core,
            observers=(recorder, self._portions),
            keeps_steps=False,
            start_ms=self._start_ms,
            saves=Saves.WHEN_NEEDED,
            patient=frozenset({f.MemberStarted}),
        )
        self._log = self.world.log = _SharedLog()
        self._chance = random.Random(self._size.seed)  # noqa: S311 (a simulation)
        self._visitors = 0
        self._due_s = {"visitor": 0.0, "fault": 0.0}

    def make_history(self, now_ms: Callable[[], int]) -> None:
        """Everything up to now; now_ms: the clock, which goes on meanwhile."""
        self._furnish(self._story)
        while self.world.now_ms < now_ms() - 1_000:
            self.world.run(now_ms())
        self.hand_on()

    def hand_on(self) -> None:
        """Have everything read and decided, and put into the log."""
        self.world.flush()
        self._portions.close()

    def live(self, log: Log, *, now_ms: Callable[[], int], stop: Callable[[], bool]) -> None:
        """Go on with the clock, with what is appended to the log, until told to stop."""
        self._portions.live = True
        reader = log.reader(self._log.ends())
        try:
            while not stop():
                records = reader.poll(POLL_S, limit=500)
                self.world.run(max(now_ms(), self.world.now_ms))
                for record in records:
                    self._learn(self._log.receive(record))
                self.world.flush()
                self._play(log)
        finally:
            reader.close()
            self._portions.close()

    @staticmethod
    def _night(now_ms: int) -> int:
        """The last 03:00 UTC that is at least an hour ago."""
        today = now_ms // DAY_MS * DAY_MS + NIGHT_HOUR * HOUR_MS
        return today if today < now_ms - HOUR_MS else today - DAY_MS

    def _furnish(self, story: Story) -> None:
        """Policy, fleet and teams now; jobs and trouble in the calendar."""
        world = self.world
        world.control(f.PolicySet(values=dict(POLICY)))
        world.admit(story.fleet.admissions())
        for team in story.teams:
            world.control(team)
        for each in story.arrivals:
            self._at(each.at_ms, partial(world.submit, each.job, each.spec, each.program))
        for trouble in story.troubles:
            self._at(trouble.at_ms, partial(self._strike, trouble))

    def _at(self, at_ms: int, action: Callable[[], None]) -> None:
        self.world.at(self._start_ms + at_ms, action)

    def _strike(self, it: Trouble) -> None:
        """Something happens, unless what it would break is broken already."""
        world, node = self.world, self.world.fleet.nodes[it.node]
        if it.kind == "cordon":
            world.control(f.NodeCordoned(node=it.node, why=it.what))
        elif it.kind == "drain":
            world.control(f.DrainRequested(node=it.node, deadline_ms=HOUR_MS, why=it.what))
        elif it.kind == "maintenance":
            world.control(
                f.MaintenanceScheduled(
                    node=it.node, in_ms=6 * HOUR_MS, for_ms=2 * HOUR_MS, why=it.what
                )
            )
        elif not node.reachable:
            return
        elif it.kind == "node":
            world.fail(it.node, for_ms=it.for_ms)
        elif it.kind == "cut":
            world.cut(it.node, for_ms=min(it.for_ms, 10 * MINUTE_MS))
        elif it.gpu not in node.bad:
            world.break_gpu(it.node, gpu=it.gpu, kind=it.what)
            repaired_ms = world.now_ms + it.for_ms
            world.at(repaired_ms, lambda: world.repair_gpu(it.node, gpu=it.gpu))

    def _learn(self, fact: Fact) -> None:
        """Whoever submits from outside gets a program that runs for some minutes."""
        body = None if fact.event is None else fact.event.body
        if isinstance(body, f.JobSubmitted):
            for name in jobs_of(body.job, body.spec):
                self.world.programs.setdefault(name, STRANGER)

    def _play(self, log: Log) -> None:
        """Now and then somebody submits a small job, and something breaks for a while."""
        now_s = time.monotonic()
        if now_s >= self._due_s["visitor"]:
            self._due_s["visitor"] = now_s + VISITOR_EVERY_S * self._chance.uniform(0.3, 1.7)
            self._visitors += 1
            job, spec, program = visitor(self._visitors, self._chance)
            self.world.programs[job] = program
            body = f.JobSubmitted(job=job, spec=spec)
            value = codec.stated(body, id=job, actor="user:demo")
            log.append([Message(topic=Topic.JOBS, key=job.encode(), value=value)])
        if now_s >= self._due_s["fault"] > 0:
            node = self._chance.choice(self._story.fleet.nodes).name
            self.world.cut(node, for_ms=self._chance.randrange(45_000, 150_000))
        if now_s >= self._due_s["fault"]:
            self._due_s["fault"] = now_s + FAULT_EVERY_S * self._chance.uniform(0.5, 1.5)
