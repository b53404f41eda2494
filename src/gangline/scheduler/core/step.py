"""`step`: facts in, decisions out; and when time alone would matter next.

One step takes edges, then facts in the order in which the driver gives them, then (when all inputs
have been read to their ends) what is due by time, the answers that had to wait for that, the cycle,
and the wait causes. Every decision is applied the moment it is made, so that the next line already
sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop
from typing import Any, Final

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.batch import Edge
from gangline.events.decisions import Health, StopCause
from gangline.scheduler.core import (
    causes,
    control,
    gangs,
    health,
    nodes,
    schedule,
    submissions,
)
from gangline.scheduler.core.assumed import NEVER, protected_until_ms
from gangline.scheduler.core.entities import Node
from gangline.scheduler.core.inputs import Fact
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Refusal, Turn

LOGIC_VERSION: Final = 1

Handler = Callable[[Turn, Fact, Any], None]

HANDLERS: Final[Mapping[str, Mapping[type, Any]]] = {
    "control": control.HANDLERS,
    "jobs": submissions.HANDLERS,
    "nodes": {
        **gangs.HANDLERS,
        f.NodeRegistered: nodes.registered,
        f.FaultDetected: nodes.fault_detected,
        f.FaultCleared: nodes.fault_cleared,
    },
}


def step(
    state: State,
    facts: Sequence[Fact],
    *,
    edges: Sequence[Edge],
    now_ms: int,
    caught_up: bool,
) -> list[d.Decision]:
    """Answer facts and edges at a time, and whatever follows; the decisions are already applied.

    facts: of one batch; taken in the order control, jobs, nodes, and as given within each. edges:
    what the driver noticed. now_ms: never less than before. caught_up: all inputs were read to the
    ends seen at now_ms.
    """
    turn = Turn(state, now_ms, caught_up)
    for edge in edges:
        _edge(turn, edge)
    for fact in facts:
        take(turn, fact)
    turn.tell_refusals()
    if caught_up:
        due(turn)
        submissions.verify(turn)
        schedule.cycle(turn)
        causes.record(turn)
        turn.tell_considered()
    return turn.decisions


def _edge(turn: Turn, edge: Edge) -> None:
    if edge.kind != "led":
        nodes.edge(turn, edge)
        return
    term = turn.state.cell.term + (0 if edge.why == "gap" else 1)
    turn.decide(d.LeadershipTaken(leader=edge.node, term=term, why=edge.why))


def take(turn: Turn, fact: Fact) -> None:
    """Answer one fact."""
    if fact.event is None:
        turn.refuse(fact, Refusal.UNDECODABLE, fact.problem)
        return
    body = fact.event.body
    handler = HANDLERS.get(fact.topic, {}).get(type(body))
    if handler is None:
        turn.refuse(fact, Refusal.UNKNOWN_KIND, type(body).__name__)
        return
    if fact.topic == "nodes" and fact.actor != f"node:{body.node}":
        turn.refuse(fact, Refusal.NOT_ITS_NODE)
        return
    handler(turn, fact, body)


# --- time -----------------------------------------------------------------------------------------


def next_wake(state: State) -> int | None:
    """When time alone would matter next, in milliseconds since the epoch; None for never."""
    return state.timers[0][0] if state.timers and state.timers[0][0] < NEVER else None


def due(turn: Turn) -> None:
    """Whatever time has brought."""
    state = turn.state
    while state.timers and state.timers[0][0] <= turn.now_ms:
        woken = set()
        while state.timers and state.timers[0][0] <= turn.now_ms:
            woken.add(heappop(state.timers)[1:])
        # By name, not by the time they were set for: a timer may have been set more than once.
        for kind, name in sorted(woken):
            TIMERS[kind](turn, name)


def _start_due(turn: Turn, name: str) -> None:
    state = turn.state
    job = state.jobs.get(name)
    if job is None or job.phase is not Phase.STARTING:
        return
    since = max(job.placed_ms, state.cell.deadlines_from_ms)
    deadline = since + state.cell.policy["start_timeout"]
    if turn.now_ms < deadline:
        state.wake(deadline, "start", name)
        return
    slow = tuple(s.node for s in job.seats if s.node not in job.ready)
    gangs.abort_start(turn, job, slow=slow, why="not ready in time")


def _stop_due(turn: Turn, name: str) -> None:
    state = turn.state
    job = state.jobs.get(name)
    if job is None or job.phase is not Phase.STOPPING:
        return
    since = max(job.stop_ms, state.cell.deadlines_from_ms)
    deadline = since + job.stop_grace_ms + state.cell.policy["stop_timeout"]
    if turn.now_ms < deadline:
        state.wake(deadline, "stop", name)
    elif not any(_silent(state.nodes.get(s.node)) for s in job.seats):
        # Not heard is not stuck: when the node is heard, lost or gone, the fold wakes us again.
        nodes.unstoppable(turn, job)


def _silent(node: Node | None) -> bool:
    return node is not None and bool(node.silent_ms) and not node.lost


def _limit_due(turn: Turn, name: str) -> None:
    job = turn.state.jobs.get(name)
    if job is None or job.phase is not Phase.RUNNING or job.spec.limit_ms is None:
        return
    deadline = job.started_ms + job.spec.limit_ms - job.resumed_ms
    if turn.now_ms < deadline:
        return
    gangs.stop(turn, job, cause=StopCause.LIMIT)


def _lost_due(turn: Turn, name: str) -> None:
    state = turn.state
    node = state.nodes.get(name)
    if node is None or not _silent(node):
        return
    since = max(node.silent_ms, state.cell.deadlines_from_ms)
    deadline = since + state.cell.policy["lost_after"]
    if turn.now_ms < deadline:
        state.wake(deadline, "lost", name)
        return
    nodes.lost(turn, node)


def _unready_due(turn: Turn, name: str) -> None:
    node = turn.state.nodes.get(name)
    if node is not None and node.unready_until_ms and node.unready_until_ms <= turn.now_ms:
        health.change(turn, node, Health.WELL, cause="ready again")


def _quarantine_due(turn: Turn, name: str) -> None:
    node = turn.state.nodes.get(name)
    if node is None or not node.quarantined_until_ms:
        return
    if node.quarantined_until_ms <= turn.now_ms:
        health.change(turn, node, Health.WELL, cause="quarantine over")


def _service_due(turn: Turn, name: str) -> None:
    node = turn.state.nodes.get(name)
    if node is not None:
        control.service_due(turn, node)


def _window_due(turn: Turn, name: str) -> None:
    node = turn.state.nodes.get(name)
    if node is not None:
        control.window_due(turn, node)


def _backoff_due(turn: Turn, name: str) -> None:
    job = turn.state.jobs.get(name)
    # Whom somebody holds is not released by the end of a back-off, but by whoever holds it.
    if job is None or job.held_by or not job.not_before_ms:
        return
    if job.not_before_ms <= turn.now_ms:
        turn.decide(d.JobReleased(job=name, by="scheduler"))


def _nothing(_turn: Turn, _name: str) -> None:
    """Being awake is enough."""


def _protection_due(turn: Turn, name: str) -> None:
    state = turn.state
    job = state.jobs.get(name)
    if job is None or job.phase is not Phase.RUNNING or not state.groups:
        return
    # The timer of an earlier attempt says nothing of the present one.
    if protected_until_ms(state.cell.policy, job) <= turn.now_ms:
        state.freed()


def _cycle_due(turn: Turn, _name: str) -> None:
    turn.state.freed()


TIMERS: Final[Mapping[str, Callable[[Turn, str], None]]] = {
    "start": _start_due,
    "stop": _stop_due,
    "limit": _limit_due,
    "lost": _lost_due,
    "unready": _unready_due,
    "quarantine": _quarantine_due,
    "service": _service_due,
    "window": _window_due,
    "backoff": _backoff_due,
    "causes": _nothing,
    "cycle": _cycle_due,
    "protection": _protection_due,
}
