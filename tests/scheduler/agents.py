"""Agents of a test's nodes: they do what `assignments` says, at once, and report it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangline.events import codec, facts
from gangline.events.batch import AssignedMember, MemberPhase, NodeAssignment
from gangline.events.log import Topic
from gangline.events.reading import from_the_start

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.scheduler.cell import Cell


class Agents:
    """All agents of a cell. run_ms: how long a member runs. dead: nodes that say and do nothing."""

    def __init__(self, cell: Cell, nodes: Iterable[str], *, run_ms: int = 30_000) -> None:
        self._cell = cell
        self._reader = cell.log.reader(from_the_start([Topic.ASSIGNMENTS]))
        self._newest: dict[str, NodeAssignment] = {}
        self._done: dict[tuple[str, str, int, MemberPhase], int] = {}
        self._beaten_ms = -10_000
        self._said: set[tuple[Any, ...]] = set()
        self._run_ms = run_ms
        self.nodes = tuple(nodes)
        self.dead: set[str] = set()

    def register(self) -> None:
        """Every agent comes up."""
        for node in self.nodes:
            self._say(node, facts.NodeRegistered(node=node, boot_id="b1", gpus=8, address=node))

    def act(self) -> None:
        """Read what is wanted, and report what follows; beat every ten seconds."""
        self._read()
        for node in self.nodes:
            assignment = self._newest.get(node)
            if node not in self.dead and assignment is not None:
                for member in assignment.members:
                    self._reconcile(node, member)
        if self._cell.clocks.passed_ms - self._beaten_ms >= 10_000:
            self._beaten_ms = self._cell.clocks.passed_ms
            self._cell.heartbeat(*(node for node in self.nodes if node not in self.dead))

    def _read(self) -> None:
        for record in self._reader.poll(0):
            body = codec.decode(record.value).body
            known = self._newest.get(body.node)
            if known is None or (body.term, body.seq) > (known.term, known.seq):
                self._newest[body.node] = body

    def _reconcile(self, node: str, member: AssignedMember) -> None:
        now = self._cell.clocks.passed_ms
        key = (node, member.job, member.attempt, member.phase)
        since = self._done.setdefault(key, now)
        place: dict[str, Any] = {"node": node, "job": member.job, "attempt": member.attempt}
        if since == now and member.phase is MemberPhase.PREPARE:
            self._once(key, facts.MemberReady(**place, address=node, port=29_500))
        elif since == now and member.phase is MemberPhase.RUN:
            self._once(key, facts.MemberStarted(**place))
        elif member.phase is MemberPhase.STOP:
            self._once(key, facts.MemberExited(**place, code=143, reason="stopped"))
        elif member.phase is MemberPhase.RUN and now - since >= self._run_ms:
            self._once((*key[:3], MemberPhase.STOP), facts.MemberExited(**place, code=0))

    def _once(self, key: tuple[str, str, int, MemberPhase], body: Any) -> None:
        said = (*key, type(body).__name__)
        if said not in self._said:
            self._said.add(said)
            self._say(key[0], body)

    def _say(self, node: str, body: Any) -> None:
        self._cell.say(Topic.NODES, body, actor=f"node:{node}", key=node)
