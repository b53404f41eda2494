"""Simulated node agents: what the agents of a fleet would do and say, by another's clock.

Theory of operation. The fleet is told what happens to it (`hear`, `fail`, `cut`, `break_gpu`,
`advance`), and says what it has to say: facts, in order, through `take_facts`, and changes of who
can be heard, through `take_heard`. It sends no heartbeats; whoever simulates makes edges of those
changes.

An agent acknowledges at once, unless its node is slow. An agent whose node is cut off keeps its
facts and hears nothing; when it is back it delivers them in order and hears the newest
assignment, so that members it should not have any more are stopped and reported. A machine that
dies takes everything with it and comes back empty, under another boot id. There is one object a
gang and none a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.agents.simulated_gang import Moment, Program, Saves, SimulatedGang, Stage
from gangline.events.batch import AssignedMember, MemberPhase
from gangline.events.facts import (
    CheckpointSaved,
    FaultCleared,
    FaultDetected,
    MemberExited,
    MemberReady,
    MemberStarted,
    NodeRegistered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TERMINATED_CODE: Final = 143
PORT: Final = 29_500
STEP_MS: Final = 1000


class Heard(NamedTuple):
    """A node can be heard from now on, or not any more."""

    node: str
    heard: bool
    at_ms: int


@dataclass(slots=True, kw_only=True, eq=False)
class SimulatedNode:
    """A machine and its agent.

    up: the machine runs. cut: no fact and no command gets through, since cut_ms. ready_ms: how late
    MemberReady comes, None for never. assigned: the newest assignment, heard or not. members: the
    gangs it knows, by job and attempt. outbox: facts that could not be said yet. bad: broken GPUs;
    unsaid: faults and repairs of them that the agent of this boot has still to find.
    """

    name: str
    gpus: int
    up: bool = True
    cut: bool = False
    cut_ms: int = 0
    boot: int = 1
    ready_ms: int | None = 0
    assigned: tuple[AssignedMember, ...] = ()
    members: dict[tuple[str, int], SimulatedGang] = field(default_factory=dict)
    outbox: list[Any] = field(default_factory=list)
    bad: set[int] = field(default_factory=set)
    unsaid: list[FaultDetected | FaultCleared] = field(default_factory=list)
    fail_count: int = 0
    cut_count: int = 0

    @property
    def reachable(self) -> bool:
        """Whether it can be heard and can hear."""
        return self.up and not self.cut


class SimulatedFleet:
    """All nodes of a cell, and what runs on them."""

    def __init__(
        self, program_of: Callable[[str], Program], *, saves: Saves = Saves.AS_MADE
    ) -> None:
        """Begin without nodes. program_of: what the processes of a job do."""
        self._program_of = program_of
        self._saves = saves
        self.nodes: dict[str, SimulatedNode] = {}
        self.silent: dict[str, int] = {}
        self._gangs: dict[tuple[str, int], SimulatedGang] = {}
        self._facts: list[tuple[str, Any]] = []
        self._heard: list[Heard] = []
        self._alarms: list[tuple[int, int, Callable[[int, int], None], int]] = []
        self._alarm_count = 0

    # --- what it says ----------------------------------------------------------------------------

    def take_facts(self) -> list[tuple[str, Any]]:
        """The facts that got through since the last call, in order, each with its node."""
        facts, self._facts = self._facts, []
        return facts

    def take_heard(self) -> list[Heard]:
        """Who fell silent or was heard again since the last call, in order."""
        heard, self._heard = self._heard, []
        return heard

    def next_ms(self) -> int | None:
        """When something happens next by the passing of time; None for never."""
        return self._alarms[0][0] if self._alarms else None

    def gang(self, job: str, attempt: int) -> SimulatedGang | None:
        """An attempt that some agent still knows."""
        return self._gangs.get((job, attempt))

    def gangs_on(self, node: str) -> list[SimulatedGang]:
        """The gangs whose processes run on a node, cut off or not."""
        on = self.nodes[node].members.values()
        return [gang for gang in on if gang.stages.get(node) is Stage.RUNNING]

    # --- what happens to it ----------------------------------------------------------------------

    def add(self, name: str, gpus: int) -> None:
        """A machine comes up for the first time."""
        node = SimulatedNode(name=name, gpus=gpus)
        self.nodes[name] = node
        self._register(node)

    def hear(self, name: str, members: tuple[AssignedMember, ...], now_ms: int) -> None:
        """The newest assignment of a node.

        It is obeyed now, or when the node can be reached again.
        """
        node = self.nodes[name]
        node.assigned = members
        if node.reachable:
            self._obey(node, now_ms)

    def advance(self, now_ms: int) -> None:
        """Let everything happen that is due by now."""
        while self._alarms and self._alarms[0][0] <= now_ms:
            _, _, ring, token = heappop(self._alarms)
            ring(token, now_ms)

    def fail(self, name: str, *, for_ms: int | None, now_ms: int) -> None:
        """The machine dies; after `for_ms` it is back, empty."""
        node = self.nodes[name]
        node.fail_count += 1
        if node.up:
            self._tell_saves(name, now_ms)
            was_reachable = node.reachable
            node.up = False
            self._note(node, was_reachable, now_ms)
            # Facts of this boot are lost with it, but what is broken will be found broken again.
            node.unsaid += [fact for fact in node.outbox if isinstance(fact, FaultDetected)]
            node.outbox.clear()
            self._all_gone(node, now_ms)
        if for_ms is not None:

            def back(token: int, at_ms: int) -> None:
                if token == node.fail_count:
                    self._come_back(node, at_ms)

            self._set_alarm(now_ms + for_ms, back, node.fail_count)

    def cut(self, name: str, *, for_ms: int | None, now_ms: int) -> None:
        """Nothing gets through to the node or from it, until after `for_ms`; processes go on."""
        node = self.nodes[name]
        node.cut_count += 1
        self._tell_saves(name, now_ms)
        for gang in self.gangs_on(name):
            # From now on it matters who says it, and when.
            gang.saves = Saves.AS_MADE
            if gang.works:
                self._plan(gang)
        was_reachable = node.reachable
        if not node.cut:
            node.cut, node.cut_ms = True, now_ms
        self._note(node, was_reachable, now_ms)
        if for_ms is not None:

            def heal(token: int, at_ms: int) -> None:
                if token == node.cut_count:
                    node.cut = False
                    self._reconnect(node, at_ms)

            self._set_alarm(now_ms + for_ms, heal, node.cut_count)

    def break_gpu(self, name: str, *, gpu: int, kind: str, now_ms: int) -> None:
        """A GPU is out from now on, and the process on it dies."""
        node = self.nodes[name]
        node.bad.add(gpu)
        fault = FaultDetected(node=name, gpu=gpu, fault=kind)
        if not node.up:
            node.unsaid.append(fault)
            return
        self._say(node, fault)
        for gang in self.gangs_on(name):
            if gpu in gang.gpus[name]:
                self._broken(node, gang, now_ms)

    def repair_gpu(self, name: str, *, gpu: int) -> None:
        """A broken GPU is well again; an agent that is down says so when it is back."""
        node = self.nodes[name]
        if gpu not in node.bad:
            return
        node.bad.discard(gpu)
        cleared = FaultCleared(node=name, gpu=gpu)
        if node.up:
            self._say(node, cleared)
        else:
            node.unsaid.append(cleared)

    def kill_on_gpu(self, name: str, *, gpu: int, now_ms: int) -> None:
        """The process on a GPU dies of what is no fault of the program; the hardware is well."""
        node = self.nodes[name]
        for gang in self.gangs_on(name):
            if node.up and gpu in gang.gpus[name]:
                self._broken(node, gang, now_ms)

    def slow(self, name: str, *, ready_ms: int | None) -> None:
        """MemberReady comes this late from now on; None: never."""
        self.nodes[name].ready_ms = ready_ms

    # --- machines --------------------------------------------------------------------------------

    def _say(self, node: SimulatedNode, fact: Any) -> None:  # noqa: ANN401 - any fact of a node
        if node.reachable:
            self._facts.append((node.name, fact))
        else:
            node.outbox.append(fact)

    def _register(self, node: SimulatedNode) -> None:
        boot_id = f"{node.name}-boot-{node.boot}"
        self._say(
            node,
            NodeRegistered(node=node.name, boot_id=boot_id, gpus=node.gpus, address=node.name),
        )

    def _note(self, node: SimulatedNode, was_reachable: bool, now_ms: int) -> None:  # noqa: FBT001
        if node.reachable == was_reachable:
            return
        if node.reachable:
            del self.silent[node.name]
        else:
            self.silent[node.name] = now_ms
        self._heard.append(Heard(node.name, node.reachable, now_ms))

    def _all_gone(self, node: SimulatedNode, now_ms: int) -> None:
        """Everything on the node is gone, and nobody says so."""
        for gang in node.members.values():
            if gang.stages[node.name] is not Stage.OUT:
                gang.stages[node.name] = Stage.OUT
                self._halt(gang, now_ms)

    def _come_back(self, node: SimulatedNode, now_ms: int) -> None:
        node.up = True
        node.boot += 1
        self._register(node)
        for fault in node.unsaid:
            self._say(node, fault)
        node.unsaid.clear()
        self._reconnect(node, now_ms)

    def _reconnect(self, node: SimulatedNode, now_ms: int) -> None:
        if not node.reachable:
            return
        self._note(node, was_reachable=False, now_ms=now_ms)
        self._facts.extend((node.name, fact) for fact in node.outbox)
        node.outbox.clear()
        self._obey(node, now_ms)

    def _set_alarm(self, at_ms: int, ring: Callable[[int, int], None], token: int) -> None:
        self._alarm_count += 1
        heappush(self._alarms, (at_ms, self._alarm_count, ring, token))

    # --- members ---------------------------------------------------------------------------------

    def _obey(self, node: SimulatedNode, now_ms: int) -> None:
        """Make what runs on the node what its assignment says."""
        if node.members:
            listed = {(member.job, member.attempt) for member in node.assigned}
            for key in [key for key in node.members if key not in listed]:
                self._fence(node, key, now_ms)
        for member in node.assigned:
            self._reconcile(node, member, now_ms)

    def _fence(self, node: SimulatedNode, key: tuple[str, int], now_ms: int) -> None:
        """A member that is not assigned any more is stopped at once, and forgotten."""
        gang = node.members.pop(key)
        self._put_out(node, gang, now_ms)
        del gang.stages[node.name]
        if not gang.stages:
            self._gangs.pop(key, None)

    def _reconcile(self, node: SimulatedNode, member: AssignedMember, now_ms: int) -> None:
        key = (member.job, member.attempt)
        gang = node.members.get(key)
        if gang is None:
            gang = self._take_in(node, member)
            if member.phase is not MemberPhase.STOP:
                self._prepare(node, gang, now_ms)
        stage = gang.stages[node.name]
        if stage is Stage.OUT or member.phase is MemberPhase.PREPARE:
            return
        if member.phase is MemberPhase.STOP:
            self._stop(node, gang, member.grace_ms, now_ms)
        elif stage is not Stage.RUNNING:
            gang.resumed_ms = member.resumed_ms
            self._run(node, gang, now_ms)

    def _take_in(self, node: SimulatedNode, member: AssignedMember) -> SimulatedGang:
        """The gang of a member that is new on this node."""
        key = (member.job, member.attempt)
        gang = self._gangs.get(key)
        if gang is None:
            checkpoint = member.spec.checkpoint
            gang = SimulatedGang(
                job=member.job,
                attempt=member.attempt,
                nodes=member.nodes,
                program=self._program_of(member.job),
                interval_ms=None if checkpoint is None else checkpoint.interval_ms,
                resumed_ms=member.resumed_ms,
                saves=self._saves,
            )
            self._gangs[key] = gang
        node.members[key] = gang
        gang.stages[node.name] = Stage.PREPARING
        gang.gpus[node.name] = member.gpus
        return gang

    def _prepare(self, node: SimulatedNode, gang: SimulatedGang, now_ms: int) -> None:
        if node.ready_ms == 0:
            self._be_ready(node, gang)
        elif node.ready_ms is not None:
            boot = node.boot

            def ready(token: int, at_ms: int) -> None:
                del at_ms
                same = node.members.get((gang.job, gang.attempt)) is gang
                if same and token == node.boot and gang.stages[node.name] is Stage.PREPARING:
                    self._be_ready(node, gang)

            self._set_alarm(now_ms + node.ready_ms, ready, boot)

    def _be_ready(self, node: SimulatedNode, gang: SimulatedGang) -> None:
        gang.stages[node.name] = Stage.READY
        self._say(
            node,
            MemberReady(
                node=node.name,
                job=gang.job,
                attempt=gang.attempt,
                address=node.name,
                port=PORT,
            ),
        )

    def _run(self, node: SimulatedNode, gang: SimulatedGang, now_ms: int) -> None:
        if node.bad and not node.bad.isdisjoint(gang.gpus[node.name]):
            self._broken(node, gang, now_ms)
            return
        gang.stages[node.name] = Stage.RUNNING
        self._say(node, MemberStarted(node=node.name, job=gang.job, attempt=gang.attempt))
        stages = gang.stages
        if all(stages.get(name) is Stage.RUNNING for name in gang.nodes):
            gang.begin(now_ms)
            self._plan(gang)

    def _stop(self, node: SimulatedNode, gang: SimulatedGang, grace_ms: int, now_ms: int) -> None:
        """Work on through the grace, if the gang works; else be out at once."""
        if not gang.works:
            self._put_out(node, gang, now_ms)
            return
        gang.told.add(node.name)
        if gang.stop_at_ms is None:
            gang.stop_at_ms = now_ms + grace_ms
            self._plan(gang)

    def _put_out(self, node: SimulatedNode, gang: SimulatedGang, now_ms: int) -> None:
        """A member is stopped at once, on order."""
        stage = gang.stages[node.name]
        if stage is Stage.OUT:
            return
        if stage is Stage.RUNNING:
            self._tell_save(gang, now_ms)
            self._exit(node, gang, code=TERMINATED_CODE, reason="stopped")
        else:
            self._exit(node, gang, code=0, reason="not_started")
        self._halt(gang, now_ms)

    def _broken(self, node: SimulatedNode, gang: SimulatedGang, now_ms: int) -> None:
        """The hardware under a member failed it."""
        self._tell_save(gang, now_ms)
        self._exit(node, gang, code=1, reason="infrastructure")
        self._halt(gang, now_ms)

    def _exit(self, node: SimulatedNode, gang: SimulatedGang, *, code: int, reason: str) -> None:
        gang.stages[node.name] = Stage.OUT
        self._say(
            node,
            MemberExited(
                node=node.name, job=gang.job, attempt=gang.attempt, code=code, reason=reason
            ),
        )

    # --- gangs -----------------------------------------------------------------------------------

    def _halt(self, gang: SimulatedGang, now_ms: int) -> None:
        """A member is gone: the others stand still, and those that were told to stop are out."""
        if not gang.works:
            return
        gang.halt(now_ms)
        gang.alarm += 1
        for name in gang.running():
            if name in gang.told:
                self._put_out(self.nodes[name], gang, now_ms)

    def _plan(self, gang: SimulatedGang) -> None:
        """Set the alarm for what happens to the gang next."""
        moment = gang.next_moment()
        gang.alarm += 1
        if moment is None:
            return

        def ring(token: int, now_ms: int) -> None:
            if token == gang.alarm:
                self._ring(gang, moment[1], now_ms)

        self._set_alarm(moment[0], ring, gang.alarm)

    def _ring(self, gang: SimulatedGang, moment: Moment, now_ms: int) -> None:
        if moment is Moment.ENDS:
            self._end(gang, now_ms)
        elif moment is Moment.GRACE_OVER:
            self._grace_over(gang, now_ms)
        else:
            self._save(gang, now_ms)
            gang.saved()
            self._plan(gang)

    def _end(self, gang: SimulatedGang, now_ms: int) -> None:
        """The program ends by itself, on all its nodes."""
        self._tell_save(gang, now_ms)
        gang.halt(now_ms)
        gang.alarm += 1
        for name in gang.running():
            self._exit(self.nodes[name], gang, code=gang.program.end[1], reason="exited")

    def _grace_over(self, gang: SimulatedGang, now_ms: int) -> None:
        """Save if it can, and be out wherever the order to stop was heard."""
        if gang.interval_ms is not None:
            self._save(gang, now_ms)
        gang.halt(now_ms)
        gang.alarm += 1
        for name in gang.running():
            if name in gang.told:
                self._exit(self.nodes[name], gang, code=TERMINATED_CODE, reason="stopped")

    def _tell_saves(self, name: str, now_ms: int) -> None:
        """Gangs on a node say what they have saved, as long as it can be said."""
        for gang in self.gangs_on(name):
            self._tell_save(gang, now_ms)

    def _tell_save(self, gang: SimulatedGang, now_ms: int) -> None:
        """Say the newest checkpoint of a gang that says them only when it matters."""
        if gang.saves is Saves.WHEN_NEEDED and gang.works:
            done_ms = gang.take_unsaid_save(now_ms)
            if done_ms is not None:
                self._say_saved(gang, done_ms)

    def _save(self, gang: SimulatedGang, now_ms: int) -> None:
        """A complete checkpoint exists; the first agent that gets through says so."""
        self._say_saved(gang, gang.done_ms(now_ms))

    def _say_saved(self, gang: SimulatedGang, done_ms: int) -> None:
        running = gang.running()
        name = next((name for name in running if self.nodes[name].reachable), running[0])
        self._say(
            self.nodes[name],
            CheckpointSaved(
                node=name,
                job=gang.job,
                attempt=gang.attempt,
                step=done_ms // STEP_MS,
                path=f"{gang.job}/{gang.attempt}/{done_ms}",
                productive_ms=done_ms,
            ),
        )
