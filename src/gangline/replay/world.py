"""A whole cell on one virtual clock: topics in memory, the real core, simulated agents.

Theory of operation. The world is a loop over instants. At an instant the agents do what is due,
then the scheduler reads what they said, decides, and the agents hear their new assignments at once
and answer; so it goes until nobody has anything to say. Then the clock jumps to the next instant
at which somebody does: an agent's alarm, an entry of the calendar, or the core's own `next_wake`.

The core is asked only when there is something to decide: facts, edges, or a time it named. It is
driven by its one verb exactly as a live driver drives it; nothing in it knows of simulation. A
leader that dies loses its state; the next one folds the recorded decisions, says `led`, and goes
on from the inputs. While there is no leader, facts pile up and agents go on.

A silent node becomes an edge when it has been silent for the policy's `suspect_after`, as live
schedulers count heartbeats; after a change of leader that count starts again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, Protocol

from gangline.agents.simulated import SimulatedFleet
from gangline.agents.simulated_gang import Program, Saves
from gangline.events.batch import Edge
from gangline.events.decisions import PolicyChanged
from gangline.events.facts import JobSubmitted
from gangline.events.spec import jobs_of
from gangline.replay.core_port import Core, Step
from gangline.replay.world_log import Batch, InputLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangline.agents.simulated import Heard
    from gangline.events.facts import NodeAdmitted
    from gangline.events.spec import Spec
    from gangline.scheduler.core.inputs import Fact

START_MS: Final = 1_767_225_600_000
"""Where virtual time begins: the first second of 2026."""

NOTHING: Final = Batch((), last=True)

MOST_ROUNDS: Final = 10_000
"""So often may agents and scheduler answer each other at one instant."""


MOST_WAKES: Final = 1_000
RESTLESS_MS: Final = 100_000
"""So many wakes in so short a time, with nothing new to read, are a loop."""


class Observer(Protocol):
    """Somebody who is shown every step as soon as it is made, before agents hear of it."""

    def stepped(self, world: World, step: Step) -> None:
        """A step was made."""
        ...


class RestlessError(AssertionError):
    """Agents and scheduler never come to rest at one instant, or the core wakes for nothing."""


@dataclass(slots=True)
class Leader:
    """Who leads. state: of the core; up: False while nobody leads. term: counts leaders.

    wake_ms: what the core last said of its own.
    """

    state: Any
    up: bool = True
    term: int = 1
    wake_ms: int | None = None


class World:
    """One cell, its scheduler, its agents and its clock.

    observers: are shown each step. keeps_steps: whether `steps` remembers all of them, as a crash
    of the leader needs; otherwise the steps carry no digests either. patient: kinds of node facts
    that wait unread until something else is to be decided; what is decided is the same, in fewer
    steps, as every step reads everything first.
    """

    def __init__(
        self,
        core: Core,
        *,
        observers: Sequence[Observer] = (),
        keeps_steps: bool = True,
        patient: frozenset[type] = frozenset(),
        start_ms: int = START_MS,
        saves: Saves = Saves.AS_MADE,
    ) -> None:
        self.core = core
        self.now_ms = start_ms
        self.log = InputLog()
        self.programs: dict[str, Program] = {}
        self.fleet = SimulatedFleet(self._program_of, saves=saves)
        self.leader = Leader(core.new_state())
        self.steps: list[Step] = []
        self.outages_ms = 0
        self.led_ms = 0
        self.facts_read = 0
        self._keeps_steps = keeps_steps
        self._patient = patient
        self._news = False
        self._observers = tuple(observers)
        self._edges: list[Edge] = [self._led("start")]
        self._wakes: deque[int] = deque(maxlen=MOST_WAKES)
        self._unanswered: tuple[Fact, ...] = ()
        self._unrecorded: tuple[Edge, ...] = ()
        self._told_silent: set[str] = set()
        self._led_ms = start_ms
        self._counting = 0
        self._calendar: list[tuple[int, int, Callable[[], None]]] = []
        self._entries = 0

    @property
    def state(self) -> Any:  # noqa: ANN401 - opaque to drivers
        """The state of the leading scheduler, or of the last one while there is none."""
        return self.leader.state

    # --- what happens in it ----------------------------------------------------------------------

    def admit(self, nodes: Sequence[NodeAdmitted]) -> None:
        """Nodes are let into the fleet, and their agents come up."""
        for node in nodes:
            self.log.append_control(node, now_ms=self.now_ms)
        self._made()
        for node in nodes:
            self.fleet.add(node.node, node.gpus)
        self._made()

    def control(self, body: Any) -> None:  # noqa: ANN401 - any fact of operators
        """An operator states a fact."""
        self.log.append_control(body, now_ms=self.now_ms)
        self._made()

    def ask(self, body: Any) -> None:  # noqa: ANN401 - any fact of users
        """A user states a fact."""
        self.log.append_job(body, now_ms=self.now_ms)
        self._made()

    def submit(self, job: str, spec: Spec, program: Program) -> None:
        """A user submits a job, or an array of `spec.count` tasks, which all do the same."""
        for name in jobs_of(job, spec):
            self.programs.setdefault(name, program)
        self.ask(JobSubmitted(job=job, spec=spec))

    def enter(self, job: str, spec: Spec, program: Program, *, at_ms: int) -> None:
        """A submission of `at_ms` stands in the log; the next step reads it with all the others."""
        self.programs[job] = program
        self.log.append_job(JobSubmitted(job=job, spec=spec), now_ms=at_ms)
        self._news = True

    def garbage(self, topic: str) -> None:
        """Bytes arrive that nobody can decode."""
        self.log.append_garbage(topic, now_ms=self.now_ms)
        self._made()

    def fail(self, node: str, *, for_ms: int | None) -> None:
        """A machine dies; after `for_ms` it is back, empty."""
        self.fleet.fail(node, for_ms=for_ms, now_ms=self.now_ms)
        self._made()

    def cut(self, node: str, *, for_ms: int | None) -> None:
        """A node cannot be reached, until after `for_ms`."""
        self.fleet.cut(node, for_ms=for_ms, now_ms=self.now_ms)
        self._made()

    def break_gpu(self, node: str, *, gpu: int, kind: str) -> None:
        """A GPU is out from now on."""
        self.fleet.break_gpu(node, gpu=gpu, kind=kind, now_ms=self.now_ms)
        self._made()

    def repair_gpu(self, node: str, *, gpu: int) -> None:
        """A broken GPU is well again."""
        self.fleet.repair_gpu(node, gpu=gpu)
        self._made()

    def kill_on_gpu(self, node: str, *, gpu: int) -> None:
        """The gang on a GPU dies of what is no fault of its program; the hardware is well."""
        self.fleet.kill_on_gpu(node, gpu=gpu, now_ms=self.now_ms)
        self._made()

    def slow(self, node: str, *, ready_ms: int | None) -> None:
        """A node's MemberReady comes this late from now on; None: never."""
        self.fleet.slow(node, ready_ms=ready_ms)

    def crash(self) -> None:
        """The leader dies between a batch and the next; a standby takes over at once."""
        if self.leader.up:
            self._take_over()
            self._made()

    def stop_scheduler(self, for_ms: int) -> None:
        """There is no scheduler for so long; of several stops, the last one said counts."""
        self.settle()
        self.leader.up = False
        self.leader.term += 1
        term = self.leader.term
        self.outages_ms += for_ms

        def back() -> None:
            if not self.leader.up and self.leader.term == term:
                self._take_over()

        self.at(self.now_ms + for_ms, back)

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        """Do something at a time, after what agents do then; of one time, in order of calls."""
        self._entries += 1
        heappush(self._calendar, (at_ms, self._entries, action))

    # --- the clock -------------------------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When something happens next; None for never."""
        times = [self.fleet.next_ms()]
        if self._calendar:
            times.append(self._calendar[0][0])
        if self.leader.up and self.leader.wake_ms is not None:
            times.append(max(self.leader.wake_ms, self.now_ms))
        return min((time for time in times if time is not None), default=None)

    def run(self, until_ms: int, *, watch: Callable[[], bool] | None = None) -> bool:
        """Let time pass. With a watch: only until it is true, which is asked after each instant."""
        self.settle()
        if watch is not None and watch():
            return True
        while (at_ms := self.next_ms()) is not None and at_ms <= until_ms:
            self.now_ms = at_ms
            self._instant()
            if watch is not None and watch():
                return True
        self.now_ms = until_ms
        return False

    def _instant(self) -> None:
        """Everything that is due now: agents and timers first, then the calendar's entries."""
        self.settle()
        while self._calendar and self._calendar[0][0] <= self.now_ms:
            _, _, action = heappop(self._calendar)
            action()
            self.settle()

    def _made(self) -> None:
        """Something was stated: it is a step of its own, unless the log is being shuffled."""
        self._news = True
        if not self.log.shuffled:
            self.settle()

    def flush(self) -> None:
        """Have everything read, what is patient too."""
        self._news = self._news or not self.log.is_read()
        self.settle()

    def settle(self) -> None:
        """Let agents and scheduler answer each other until nobody has anything to say."""
        for _ in range(MOST_ROUNDS):
            self._listen()
            if not self.leader.up or not self._has_reason():
                return
            self._decide()
        raise RestlessError(f"agents and scheduler never come to rest at {self.now_ms}")

    def _listen(self) -> None:
        """Agents do what is due, and what they say is appended."""
        due_ms = self.fleet.next_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.fleet.advance(self.now_ms)
        for node, body in self.fleet.take_facts():
            self.log.append_node(node, body, now_ms=self.now_ms)
            if type(body) not in self._patient:
                self._news = True
        for heard in self.fleet.take_heard():
            self._note(heard)

    # --- the scheduler ---------------------------------------------------------------------------

    def _has_reason(self) -> bool:
        """Whether there is anything to decide now."""
        wake_ms = self.leader.wake_ms
        return self._news or bool(self._edges) or (wake_ms is not None and wake_ms <= self.now_ms)

    def _decide(self) -> None:
        """Read everything and decide.

        What got no decision is in no batch, so it is given again until a batch holds it.
        """
        self._news = False
        edges = (*self._unrecorded, *self._edges)
        if self.log.is_read() and not self._edges:
            self._count_wake()
        self._edges = []
        for batch in self.log.take() or (NOTHING,):
            self.facts_read += len(batch.facts)
            facts = (*self._unanswered, *batch.facts)
            if self._step(facts, edges, caught_up=batch.last):
                facts, edges = (), ()
            self._unanswered = facts
        self._unrecorded = edges

    def _step(self, facts: tuple[Fact, ...], edges: tuple[Edge, ...], *, caught_up: bool) -> bool:
        """Make a step; whether it decided anything."""
        core, leader = self.core, self.leader
        decisions = core.step(
            leader.state, facts, edges=edges, now_ms=self.now_ms, caught_up=caught_up
        )
        digest = core.state_digest(leader.state) if self._keeps_steps else b""
        step = Step(facts, edges, self.now_ms, caught_up, tuple(decisions), digest)
        if self._keeps_steps:
            self.steps.append(step)
        for observer in self._observers:
            observer.stepped(self, step)
        for node in core.take_touched(leader.state):
            if node in self.fleet.nodes:
                self.fleet.hear(node, core.assigned_members(leader.state, node), self.now_ms)
        leader.wake_ms = core.next_wake(leader.state)
        if any(type(decision) is PolicyChanged for decision in decisions):
            self._count_silence_again()
        idle = caught_up and not decisions
        if idle and leader.wake_ms is not None and leader.wake_ms <= self.now_ms:
            raise RestlessError(f"woken at {self.now_ms}, the core decides nothing and wakes again")
        return bool(decisions)

    def _count_wake(self) -> None:
        """The core woke of its own: see that it does not do so all the time."""
        wakes = self._wakes
        wakes.append(self.now_ms)
        if len(wakes) == MOST_WAKES and self.now_ms - wakes[0] < RESTLESS_MS:
            raise RestlessError(f"{MOST_WAKES} wakes for nothing new up to {self.now_ms}")

    def _take_over(self) -> None:
        """A new leader: fold what was decided, and go on from the inputs."""
        old = self.leader
        state = self.core.new_state()
        for step in self.steps:
            if step.decisions:
                self.core.fold(state, list(step.decisions), now_ms=step.now_ms)
        if self.core.state_digest(state) != self.core.state_digest(old.state):
            raise AssertionError("a new leader's state is not the old one's")
        self.core.take_touched(state)
        self.leader = Leader(state, term=old.term + 1, wake_ms=self.core.next_wake(state))
        self.led_ms = self.now_ms
        self._edges = [self._led("takeover")]
        self._unrecorded = ()
        self._news = True
        for node in sorted(self._told_silent):
            if node not in self.fleet.silent:
                self._edges.append(Edge(kind="heard", node=node, at_ms=self.now_ms))
        self._told_silent.intersection_update(self.fleet.silent)
        self._led_ms = self.now_ms
        self._counting += 1
        for node in sorted(self.fleet.silent):
            self._count_silence(node, self.now_ms)

    def _led(self, why: str) -> Edge:
        return Edge(kind="led", node=f"sim-{self.leader.term}", at_ms=self.now_ms, why=why)

    # --- silence ---------------------------------------------------------------------------------

    def _note(self, heard: Heard) -> None:
        """An agent fell silent or is heard again; without a scheduler, nobody notices."""
        if not self.leader.up:
            return
        if not heard.heard:
            self._count_silence(heard.node, heard.at_ms)
        elif heard.node in self._told_silent:
            self._told_silent.remove(heard.node)
            self._edges.append(Edge(kind="heard", node=heard.node, at_ms=heard.at_ms))

    def _count_silence(self, node: str, from_ms: int) -> None:
        """Say that a node is silent once it has been for long enough."""
        since_ms = self.fleet.silent[node]
        counting = self._counting

        def still() -> None:
            same = self.leader.up and self._counting == counting
            if same and self.fleet.silent.get(node) == since_ms:
                self._told_silent.add(node)
                self._edges.append(Edge(kind="silent", node=node, at_ms=from_ms))

        after_ms = self.core.policy_value(self.leader.state, "suspect_after")
        self.at(max(from_ms + after_ms, self.now_ms), still)

    def _count_silence_again(self) -> None:
        """Another policy may tell sooner, or later, that a node is silent."""
        self._counting += 1
        for node, since_ms in sorted(self.fleet.silent.items()):
            if node not in self._told_silent:
                self._count_silence(node, max(since_ms, self._led_ms))

    def _program_of(self, job: str) -> Program:
        return self.programs.get(job, _UNKNOWN)


_UNKNOWN: Final = Program()
