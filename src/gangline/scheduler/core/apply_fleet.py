"""The fold, as far as it is about nodes, teams, policy and leadership (see apply.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gangline.events import decisions as d
from gangline.events.decisions import Service
from gangline.scheduler.core.entities import Node, Strike, Team, Window
from gangline.scheduler.core.fleet import mask_of
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.rebuild import count_models, link_teams, rearm
from gangline.scheduler.core.state import State


def node_added(state: State, decision: d.NodeAdded) -> None:
    """A node enters the fleet."""
    node = Node(
        name=decision.node,
        order=state.cell.next_node,
        path=decision.path,
        levels=decision.levels,
        gpus=decision.gpus,
        labels=dict(sorted(decision.labels.items())),
        public_key=decision.public_key,
    )
    state.cell.next_node += 1
    state.nodes[node.name] = node
    state.enter_node(node)
    _find_gangs(state, node)
    state.refresh(node)
    state.touch(node)


def _find_gangs(state: State, node: Node) -> None:
    """Gangs that stood on a node of this name when it was withdrawn, and are not out yet.

    It may be the same machine, and until they are out their GPUs are nobody else's.
    """
    for job in state.holding.values():
        for index, seat in enumerate(job.seats):
            if seat.node == node.name:
                node.used |= mask_of(seat.gpus)
                node.gangs[job.id] = index
                if state.models.trees:
                    state.count_by_model(job)


def node_dropped(state: State, decision: d.NodeDropped) -> None:
    """A node leaves the fleet."""
    node = state.nodes.pop(decision.node)
    _judge_anew(state, node)
    state.leave_node(node)
    state.plans_doubted = True
    state.freed()
    state.touch(node)


def node_booted(state: State, decision: d.NodeBooted) -> None:
    """An agent came up."""
    node = state.nodes[decision.node]
    if node.boot_id != decision.boot_id:
        # Numbers of facts may begin anew with the clock of a boot, where the journal is gone too.
        node.fault_seen = {}
    node.boot_id, node.address = decision.boot_id, decision.address
    state.touched[node.name] = None
    state.touch(node)


def node_health_changed(state: State, decision: d.NodeHealthChanged) -> None:
    """Health changes by one event; a strike is remembered."""
    node = state.nodes[decision.node]
    HEALTH_EVENTS[decision.cause](state, node, decision)
    if decision.strike:
        strike = Strike(at_ms=state.cell.now_ms, job=decision.job)
        node.strikes = (*_recent(state, node), strike)
    state.refresh(node)
    state.plans_doubted = True
    state.freed()
    state.touch(node)


def _recent(state: State, node: Node) -> tuple[Strike, ...]:
    oldest = state.cell.now_ms - state.cell.policy["quarantine_window"]
    return tuple(s for s in node.strikes if s.at_ms > oldest)


def _went_silent(state: State, node: Node, decision: d.NodeHealthChanged) -> None:
    node.silent_ms = decision.until_ms - state.cell.policy["lost_after"]
    state.wake(decision.until_ms, "lost", node.name)


def _was_lost(state: State, node: Node, _decision: d.NodeHealthChanged) -> None:
    node.lost = True
    _judge_anew(state, node)


def _was_heard(state: State, node: Node, _decision: d.NodeHealthChanged) -> None:
    node.lost, node.silent_ms = False, 0
    state.touched[node.name] = None
    _judge_anew(state, node)


def _judge_anew(state: State, node: Node) -> None:
    """Gangs that are to stop on a node that was not heard have their whole time anew.

    Kept in the state, so that live and in replay they are judged at the same moment, whatever steps
    there were meanwhile that decided nothing.
    """
    policy, now_ms = state.cell.policy, state.cell.now_ms
    for name in node.gangs:
        job = state.jobs[name]
        if job.phase is Phase.STOPPING:
            job.stop_ms = now_ms
            state.ends.expect(policy, job)
            state.wake(now_ms + job.stop_grace_ms + policy["stop_timeout"], "stop", name)
            state.touch(job)


def _was_unready(state: State, node: Node, decision: d.NodeHealthChanged) -> None:
    node.unready_until_ms = decision.until_ms
    node.unready_times += 1
    node.strikes = (*_recent(state, node), Strike(at_ms=state.cell.now_ms, job=decision.job))
    state.wake(decision.until_ms, "unready", node.name)


def _ready_again(_state: State, node: Node, _decision: d.NodeHealthChanged) -> None:
    node.unready_until_ms = 0


def _quarantined(state: State, node: Node, decision: d.NodeHealthChanged) -> None:
    node.quarantined_until_ms = decision.until_ms
    node.quarantines += 1
    state.wake(decision.until_ms, "quarantine", node.name)


def _quarantine_over(_state: State, node: Node, _decision: d.NodeHealthChanged) -> None:
    node.quarantined_until_ms = 0
    node.strikes = ()


HEALTH_EVENTS: Final[Mapping[str, Callable[[State, Node, d.NodeHealthChanged], None]]] = {
    "silent": _went_silent,
    "lost": _was_lost,
    "heard": _was_heard,
    "unready": _was_unready,
    "ready again": _ready_again,
    "quarantine": _quarantined,
    "quarantine over": _quarantine_over,
}


def node_service_changed(state: State, decision: d.NodeServiceChanged) -> None:
    """Operators' wish changes."""
    node = state.nodes[decision.node]
    node.service, node.service_why = decision.service, decision.cause
    node.deadline_ms = decision.deadline_ms
    if decision.service is Service.OPEN:
        # A window that is over takes itself off; an operator takes all of them off.
        over = decision.by == "scheduler"
        node.windows = tuple(w for w in node.windows if over and w.from_ms > state.cell.now_ms)
        if not node.windows:
            state.windowed.pop(node.name, None)
    if decision.deadline_ms:
        state.wake(decision.deadline_ms, "service", node.name)
    state.refresh(node)
    state.plans_doubted = True
    state.freed()
    state.touch(node)


def maintenance_announced(state: State, decision: d.MaintenanceAnnounced) -> None:
    """A window is announced."""
    node = state.nodes[decision.node]
    window = Window(
        from_ms=decision.from_ms, until_ms=decision.until_ms, why=decision.why, by=decision.by
    )
    node.windows = tuple(sorted((*node.windows, window), key=lambda w: (w.from_ms, w.until_ms)))
    state.windowed[node.name] = None
    state.wake(decision.from_ms, "window", node.name)
    state.freed()
    state.touch(node)


def gpu_withdrawn(state: State, decision: d.GpuWithdrawn) -> None:
    """A GPU is out, which may be a strike."""
    node = state.nodes[decision.node]
    node.bad |= 1 << decision.gpu
    node.faults = {**node.faults, str(decision.gpu): decision.fault}
    _see(node, decision.gpu, decision.number)
    if decision.strike:
        node.strikes = (*_recent(state, node), Strike(at_ms=state.cell.now_ms, job=""))
    state.refresh(node)
    state.plans_doubted = True
    state.freed()
    state.touch(node)


def _see(node: Node, gpu: int, number: int) -> None:
    if number:
        node.fault_seen = {**node.fault_seen, str(gpu): number}


def gpu_returned(state: State, decision: d.GpuReturned) -> None:
    """A GPU is back."""
    node = state.nodes[decision.node]
    node.bad &= ~(1 << decision.gpu)
    node.faults = {k: v for k, v in node.faults.items() if k != str(decision.gpu)}
    _see(node, decision.gpu, decision.number)
    state.refresh(node)
    state.touch(node)


# --- teams, policy, leadership --------------------------------------------------------------------


def team_changed(state: State, decision: d.TeamChanged) -> None:
    """A team is new or changed."""
    team = state.teams.get(decision.team)
    cell = state.cell
    if team is None:
        team = Team(name=decision.team, order=cell.next_team, usage_ms=cell.now_ms)
        cell.next_team += 1
        state.teams[team.name] = team
    state.settle_usage()
    team.guaranteed, team.borrow, team.lend = decision.guaranteed, decision.borrow, decision.lend
    team.weight, team.parent = decision.weight, decision.parent
    team.by_model = dict(sorted(decision.by_model.items()))
    cell.policy_version += 1
    link_teams(state)
    count_models(state)
    _count_waiting(state, team)
    state.freed()
    state.touch(team)


def _count_waiting(state: State, team: Team) -> None:
    """Count the jobs that wait for a team; some may have come before the team was known."""
    waiting = [
        job
        for job in state.jobs.values()
        if job.phase is Phase.QUEUED and job.spec.team == team.name
    ]
    team.queued = len(waiting)
    team.wanted = sum(job.gpus for job in waiting)
    for job in waiting:
        state.regroup(job)


def policy_changed(state: State, decision: d.PolicyChanged) -> None:
    """Policy keys change."""
    state.settle_usage()
    state.cell.policy = {**state.cell.policy, **decision.values}
    state.cell.policy_version += 1
    rearm(state)
    state.plans_doubted = True
    state.freed()


def input_rejected(_state: State, _decision: d.InputRejected) -> None:
    """Facts that change nothing."""


def queue_considered(state: State, _decision: d.QueueConsidered) -> None:
    """Nobody starts, and no cause is another."""
    state.cell.stale_ms = 0


def leadership_taken(state: State, decision: d.LeadershipTaken) -> None:
    """Somebody leads; deadlines that wait for facts start again."""
    cell = state.cell
    cell.term, cell.leader = decision.term, decision.leader
    cell.deadlines_from_ms = cell.now_ms
    rearm(state)
    state.freed()


def logic_upgraded(state: State, decision: d.LogicUpgraded) -> None:
    """Another logic version decides from the next batch on."""
    state.cell.logic_version = decision.new_version
