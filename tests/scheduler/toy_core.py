"""A core small enough to see through: one job a node, and each runs for a minute.

It stands in for the real one where only the driver is tested: it keeps the same promises (only
decisions change the state, fold equals step, no decision without being told of all facts).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gangline.events import codec, facts
from gangline.events import decisions as d
from gangline.events.batch import AssignedMember, Edge, MemberPhase
from gangline.events.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gangline.scheduler.core.inputs import Fact

RUN_MS = 60_000


class ToyState:
    """Jobs in order of acceptance, nodes and what runs on them."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {
            "jobs": {},
            "nodes": {},
            "health": {},
            "policy": {"suspect_after": 30_000},
            "leader": "",
        }
        self.touched: dict[str, None] = {}


def _place(state: ToyState) -> Iterator[d.Decision]:
    kept = state.kept
    waiting = [job for job, phase in kept["jobs"].items() if phase == "queued"]
    free = [
        node for node, has in kept["nodes"].items() if has is None and node not in kept["health"]
    ]
    for job, node in zip(waiting, free, strict=False):
        seat = d.Seat(node=node, gpus=(0,))
        yield d.GangPlaced(job=job, attempt=1, seats=(seat,), level="node", crossed=1, borrowed=0)


class ToyCore:
    """`ports.Core`, as far as tests need it. logic_version: which one it pretends to be."""

    def __init__(self, logic_version: int = 1) -> None:
        self.LOGIC_VERSION = logic_version
        self.steps = 0

    def new_state(self) -> ToyState:
        """A cell without anything."""
        return ToyState()

    def step(
        self,
        state: ToyState,
        facts: Sequence[Fact],
        *,
        edges: Sequence[Edge],
        now_ms: int,
        caught_up: bool,
    ) -> list[d.Decision]:
        """Edges, then facts, then, when all was read, ends and placements."""
        self.steps += 1
        made: list[d.Decision] = []

        def decide(decisions: Iterable[d.Decision]) -> None:
            for decision in decisions:
                self._apply(state, decision, now_ms)
                made.append(decision)

        for edge in edges:
            decide(self._edge(state, edge))
        for fact in facts:
            decide(self._fact(state, fact))
        if caught_up:
            decide(self._ends(state, now_ms))
            decide(list(_place(state)))
        return made

    def _edge(self, state: ToyState, edge: Edge) -> list[d.Decision]:
        if edge.kind == "led":
            return [d.LeadershipTaken(leader=edge.node, term=0, why=edge.why)]
        health = d.Health.SUSPECTED if edge.kind == "silent" else d.Health.WELL
        return [d.NodeHealthChanged(node=edge.node, health=health, cause=str(edge.at_ms))]

    def _fact(self, state: ToyState, fact: Fact) -> list[d.Decision]:
        if fact.event is None:
            return [_rejected(fact, fact.problem)]
        body = fact.event.body
        if isinstance(body, facts.JobSubmitted):
            if body.job in state.kept["jobs"]:
                return [_rejected(fact, "duplicate")]
            number = len(state.kept["jobs"]) + 1
            return [
                d.JobQueued(
                    job=body.job,
                    number=number,
                    spec=body.spec,
                    submitted_ms=fact.appended_ms,
                    submitted_at=f"{fact.topic}-{fact.partition}-{fact.offset}",
                )
            ]
        if isinstance(body, facts.NodeAdmitted):
            return [d.NodeAdded(node=body.node, path=(), levels=(), gpus=body.gpus)]
        if isinstance(body, facts.PolicySet):
            return [d.PolicyChanged(values=body.values)]
        return []

    def _ends(self, state: ToyState, now_ms: int) -> list[d.Decision]:
        return [
            d.JobFinished(job=has[0], outcome=d.Outcome.SUCCEEDED, reason=node)
            for node, has in state.kept["nodes"].items()
            if has is not None and has[1] + RUN_MS <= now_ms
        ]

    def fold(self, state: ToyState, decisions: Sequence[d.Decision], *, now_ms: int) -> None:
        """Apply recorded decisions."""
        for decision in decisions:
            self._apply(state, decision, now_ms)

    def _apply(self, state: ToyState, decision: d.Decision, now_ms: int) -> None:
        kept = state.kept
        match decision:
            case d.JobQueued():
                kept["jobs"][decision.job] = "queued"
            case d.GangPlaced():
                node = decision.seats[0].node
                kept["jobs"][decision.job] = "running"
                kept["nodes"][node] = [decision.job, now_ms]
                state.touched[node] = None
            case d.JobFinished():
                kept["jobs"][decision.job] = "ended"
                kept["nodes"][decision.reason] = None
                state.touched[decision.reason] = None
            case d.NodeAdded():
                kept["nodes"][decision.node] = None
            case d.NodeHealthChanged():
                kept["health"].pop(decision.node, None)
                if decision.health is d.Health.SUSPECTED:
                    kept["health"][decision.node] = decision.cause
            case d.PolicyChanged():
                kept["policy"].update(decision.values)
            case d.LeadershipTaken():
                kept["leader"] = decision.leader
            case _:
                pass

    def next_wake(self, state: ToyState) -> int | None:
        """When the first job ends."""
        ends = [has[1] + RUN_MS for has in state.kept["nodes"].values() if has is not None]
        return min(ends, default=None)

    def state_digest(self, state: ToyState) -> bytes:
        """Of everything that is kept."""
        return codec.digest(json.dumps(state.kept).encode())

    def dump(self, state: ToyState) -> Iterator[bytes]:
        """One record for each part."""
        for key, value in state.kept.items():
            yield json.dumps([key, value]).encode()

    def load(self, chunks: Iterable[bytes]) -> ToyState:
        """And back."""
        state = ToyState()
        state.kept = dict(json.loads(chunk) for chunk in chunks)
        return state

    def assigned_members(self, state: ToyState, node: str) -> tuple[AssignedMember, ...]:
        """The job on the node."""
        has = state.kept["nodes"][node]
        if has is None:
            return ()
        return (
            AssignedMember(
                job=has[0],
                number=1,
                attempt=1,
                phase=MemberPhase.RUN,
                gpus=(0,),
                member=0,
                nodes=(node,),
                gpus_by_node=(1,),
                first_rank=0,
                world_size=1,
                spec=Spec(team="a", gpus=1),
            ),
        )

    def take_touched(self, state: ToyState) -> tuple[str, ...]:
        """Nodes with another job than before."""
        touched = tuple(state.touched)
        state.touched.clear()
        return touched

    def policy_value(self, state: ToyState, key: str) -> int:
        """Only what a test needs."""
        value: int = state.kept["policy"][key]
        return value


def _rejected(fact: Fact, reason: str) -> d.InputRejected:
    return d.InputRejected(
        topic=fact.topic,
        partition=fact.partition,
        first=fact.offset,
        last=fact.offset,
        count=1,
        reason=reason,
    )
