"""A simulated machine with a real agent's core on it.

What is real: every cue goes through `agents.core.step`, and what it answers is done in the order
of the live runner: the spool first, then the journal, then the executor. What is simulated: the
processes, the disk (journal, spool and results outlive agent and machine), the network.

An agent may die between any two of these; a machine takes its processes with it and comes back
under another boot id.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gangline.agents import core
from gangline.agents.listener import newest_of_each_cell
from gangline.events import codec
from gangline.events.facts import NodeHeartbeat
from gangline.events.layout import place
from gangline.events.log import LogError, Message, Topic
from gangline.replay.vopr.programs import BROKEN, KILLED, Process, ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from gangline.events.batch import NodeAssignment
    from gangline.events.log import Record
    from gangline.replay.vopr.bus import Line, LineReader
    from gangline.replay.vopr.clock import Timeline
    from gangline.replay.vopr.programs import Programs

FACTS_AT_ONCE: Final = 200
READY_MS: Final = 50


class AgentDiedError(BaseException):
    """The agent died here."""


class Disk:
    """What outlives an agent and a boot."""

    def __init__(self, name: str) -> None:
        self.journal = core.NodeState(node=name)
        self.spool: deque[bytes] = deque()

    def keep(self, state: core.NodeState) -> None:
        """Write the journal."""
        members = {key: copy(member) for key, member in state.members.items()}
        self.journal = replace(state, members=members, faults=dict(state.faults))

    def load(self) -> core.NodeState:
        """Read the journal."""
        state = self.journal
        members = {key: copy(member) for key, member in state.members.items()}
        return replace(state, members=members, faults=dict(state.faults))


class Agent:
    """The volatile part of an agent: what is gone when it dies."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._state = host.disk.load()
        self._reader: LineReader | None = None
        self._end = 0
        self._first: list[Record] = []
        self._beats = 0
        self._next_beat_ms = 0
        self.cues: deque[core.Cue] = deque()

    def start(self) -> None:
        """Take up what was left."""
        host = self._host
        found = tuple(_found(process) for _, process in sorted(host.processes.items()))
        self.take(
            core.Recovered(boot_id=host.boot_id, found=found, gpus=host.gpus, address=host.name)
        )
        self.take(core.Diagnosed(host.faults()))

    def turn(self) -> None:
        """Listen, take what came, and deliver."""
        try:
            self._listen()
        except LogError:
            self._reader = None
        while self.cues:
            self.take(self.cues.popleft())
        wake_ms = core.next_wake(self._state)
        if wake_ms is not None and wake_ms <= self._host.timeline.now_ms:
            self.take(core.Tick())
        try:
            self._deliver()
        except LogError:
            return

    # --- the log ---------------------------------------------------------------------------------

    def _listen(self) -> None:
        host = self._host
        if self._reader is None:
            self._end = host.line.ends([Topic.ASSIGNMENTS])[host.partition]
            self._reader = host.line.reader({host.partition: 0})
            self._first = []
        records = [each for each in self._reader.poll(0) if each.key == host.key]
        if self._reader.positions()[host.partition] < self._end:
            self._first += records
            return
        records, self._first, self._end = self._first + records, [], 0
        bodies: Iterator[NodeAssignment] = (codec.decode(each.value).body for each in records)
        for assignment in newest_of_each_cell(bodies):
            self.take(core.Told(assignment))

    def _deliver(self) -> None:
        host, now_ms = self._host, self._host.timeline.now_ms
        facts = [host.disk.spool[at] for at in range(min(FACTS_AT_ONCE, len(host.disk.spool)))]
        messages = [Message(topic=Topic.NODES, key=host.key, value=value) for value in facts]
        if now_ms >= self._next_beat_ms:
            self._next_beat_ms = now_ms + host.beat_ms
            messages.append(Message(topic=Topic.HEARTBEATS, key=host.key, value=self._beat()))
        if not messages:
            return
        host.line.append(messages)
        for _ in facts:
            host.disk.spool.popleft()
        self.take(core.Heard())

    def _beat(self) -> bytes:
        host = self._host
        self._beats += 1
        body = NodeHeartbeat(node=host.name, boot_id=host.boot_id, sequence=self._beats)
        return host.encoded(body, name=f"{host.name}/beat-{host.timeline.now_ms}")

    # --- the core --------------------------------------------------------------------------------

    def take(self, cue: core.Cue) -> None:
        """Decide, state, remember, act: in this order."""
        host = self._host
        actions = core.step(self._state, cue, now_ms=host.timeline.now_ms)
        if not actions and isinstance(cue, core.Progressed | core.Tick | core.Heard):
            return
        host.may_die()
        for action in actions:
            if isinstance(action, core.State):
                host.disk.spool.append(host.encoded(action.fact, name=action.id))
        host.may_die()
        host.disk.keep(self._state)
        for action in actions:
            host.may_die()
            host.act(action)


def _found(process: Process) -> core.Found:
    """What an agent that comes up finds of a member."""
    if process.exit is not None:
        presence = core.Presence.ENDED
    elif process.since_ms:
        presence = core.Presence.RUNNING
    else:
        presence = core.Presence.STARTING
    return core.Found(
        order=process.order,
        presence=presence,
        exit=process.exit,
        started_ms=process.since_ms,
        saved=process.saved,
    )


class Host:
    """One machine. up: it runs. ready_ms: how long it takes to make ready, None for ever.

    deadly: how often an agent dies while it acts, from 0 to 1. bad: its broken GPUs.
    """

    def __init__(
        self, name: str, gpus: int, *, line: Line, programs: Programs, chance: Random
    ) -> None:
        self.name = name
        self.gpus = gpus
        self.line = line
        self.programs = programs
        self.timeline: Timeline = line.bus.timeline
        self.chance = chance
        self.key = name.encode()
        (self.partition,) = place([Message(topic=Topic.ASSIGNMENTS, key=self.key, value=b"")])
        self.beat_ms = 3_000
        self.ready_ms: int | None = READY_MS
        self.deadly = 0.0
        self.boot = 1
        self.up = True
        self.gone = False
        self.paused_until_ms = 0
        self.bad: dict[int, str] = {}
        self.disk = Disk(name)
        self.processes: dict[core.Key, Process] = {}
        self.agent: Agent | None = None
        self.clashes: list[str] = []
        self.begun: list[core.Key] = []

    @property
    def boot_id(self) -> str:
        """Of the machine as it runs now."""
        return f"{self.name}-boot-{self.boot}"

    def encoded(self, body: Any, *, name: str) -> bytes:  # noqa: ANN401 - any fact of a node
        """A fact as its agent writes it."""
        return codec.stated(body, id=name, actor=f"node:{self.name}")

    def faults(self) -> tuple[core.Fault, ...]:
        """What is broken now."""
        return tuple(core.Fault(gpu, kind) for gpu, kind in sorted(self.bad.items()))

    # --- what happens to it ----------------------------------------------------------------------

    def turn(self) -> None:
        """The agent comes round."""
        if self.agent is not None and self.timeline.now_ms >= self.paused_until_ms:
            self._guarded(self.agent.turn)

    def start_agent(self) -> None:
        """The agent comes up, if the machine runs and it is not up already."""
        if self.up and self.agent is None and not self.gone:
            self.agent = Agent(self)
            self._guarded(self.agent.start)

    def stop_agent(self) -> None:
        """The agent dies; its members run on."""
        self.agent = None

    def may_die(self) -> None:
        """A moment at which the agent may die."""
        if self.deadly and self.chance.random() < self.deadly:
            raise AgentDiedError

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except AgentDiedError:
            self.agent = None
            self.timeline.after(self.chance.randrange(500, 6_000), self.start_agent)

    def crash(self) -> None:
        """The machine dies with everything on it but its disk."""
        if not self.up:
            return
        self.up, self.agent = False, None
        self.boot += 1
        for process in self.processes.values():
            if process.exit is None:
                self.programs.leave(self, process.key, KILLED)
        self.processes.clear()

    def boot_up(self) -> None:
        """The machine is back."""
        if not self.up and not self.gone:
            self.up = True
            self.start_agent()

    def break_gpu(self, gpu: int, kind: str) -> None:
        """A GPU is out, and whoever uses it dies."""
        self.bad[gpu] = kind
        self.tell(core.Diagnosed(self.faults()))
        for process in list(self.processes.values()):
            if gpu in process.order.gpus and process.exit is None:
                self.exit(process.key, BROKEN)

    def mend_gpus(self) -> None:
        """All GPUs are well."""
        self.bad.clear()
        self.tell(core.Diagnosed(()))

    def tell(self, cue: core.Cue) -> None:
        """The agent sees something, if it is there."""
        if self.agent is not None:
            self.agent.cues.append(cue)

    # --- processes -------------------------------------------------------------------------------

    def act(self, action: core.Action) -> None:
        """Do what the core asks for."""
        match action:
            case core.Check():
                self._check(action)
            case core.Start():
                self._start(action)
            case core.Stop():
                process = self.processes.get(action.key)
                if process is not None and process.exit is None:
                    self.programs.told(
                        self, process, signal_ms=action.signal_ms, deadline_ms=action.deadline_ms
                    )
            case core.Kill():
                self._kill(action.key)
            case core.Forget():
                self.processes.pop(action.key, None)
            case _:
                return

    def _check(self, action: core.Check) -> None:
        order = action.order
        key = core.Key(order.job, order.attempt)
        if self.ready_ms is None:
            return
        broken = [gpu for gpu in order.gpus if gpu in self.bad]
        checked = core.Checked(
            key=key,
            address=self.name,
            port=action.port or 29_500,
            problem=f"GPU {broken[0]} is broken" if broken else "",
            fault=self.bad[broken[0]] if broken else "",
            gpu=broken[0] if broken else -1,
        )
        self._later(self.ready_ms, lambda: self.tell(checked))

    def _start(self, action: core.Start) -> None:
        key = core.Key(action.order.job, action.order.attempt)
        if key in self.processes:
            return
        for other in self.live():
            if set(other.order.gpus) & set(action.order.gpus):
                self.clashes.append(f"{key.job} and {other.key.job} run on one GPU of {self.name}")
        self.begun.append(key)
        process = self.processes[key] = Process(key=key, order=action.order)
        self._later(self.chance.randrange(20, 500), lambda: self._run(process))

    def _run(self, process: Process) -> None:
        """The ranks of a member are up."""
        if process.exit is not None or self.processes.get(process.key) is not process:
            return
        if any(gpu in self.bad for gpu in process.order.gpus):
            self.exit(process.key, BROKEN)
            return
        process.since_ms = self.timeline.now_ms
        self.tell(core.Started(process.key))
        self.programs.join(self, process)

    def _kill(self, key: core.Key) -> None:
        process = self.processes.get(key)
        if process is None:
            self.tell(core.Ended(key, KILLED))
            return
        if process.exit is not None:
            self.tell(core.Ended(key, process.exit))
            return
        self._later(self.chance.randrange(200), lambda: self.exit(key, KILLED))

    def exit(self, key: core.Key, how: core.Exit) -> None:
        """A member's processes are gone."""
        process = self.processes.get(key)
        if process is None or process.exit is not None:
            return
        process.exit = how
        self.programs.leave(self, key, how)
        seen = ended(process)
        if seen is not None:
            self.tell(seen)

    def saw_checkpoint(self, seen: core.CheckpointSeen) -> None:
        """A complete checkpoint of one of its members lies there."""
        process = self.processes.get(seen.key)
        if process is not None:
            process.saved = seen
            self.tell(seen)

    def live(self) -> list[Process]:
        """The members that have processes."""
        return [process for process in self.processes.values() if process.exit is None]

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something after a while, unless the machine has died by then."""
        boot = self.boot
        self.timeline.after(delay_ms, lambda: action() if self.boot == boot else None)
