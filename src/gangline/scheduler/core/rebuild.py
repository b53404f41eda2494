"""Deriving a state's indexes and timers from its entities alone.

A snapshot holds the entities; `rebuild` makes a state of them. `rearm` sets every timer anew and
forgets what was answered: at a takeover, and when the policy changes.
"""

from __future__ import annotations

from gangline.scheduler.core.assumed import protected_until_ms
from gangline.scheduler.core.entities import Job, Node, Reservation, Team
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.models import Models
from gangline.scheduler.core.state import HOLDING, ROOT, State


def rebuild(state: State) -> None:
    """Derive everything from the entities, as after reading a snapshot."""
    link_teams(state)
    for node in state.nodes.values():
        state.enter_node(node)
        node.stuck = 0
        if node.windows:
            state.windowed[node.name] = None
        for lingering in node.lingering:
            node.stuck |= lingering.gpus
    for reservation in sorted(state.reservations.values(), key=lambda r: r.planned_ms):
        _rebuild_reservation(state, reservation)
    usage = {t.name: (t.usage, t.usage_ms) for t in state.teams.values()}
    for job in state.jobs.values():
        _rebuild_job(state, job)
    count_models(state)
    for team in state.teams.values():
        team.usage, team.usage_ms = usage[team.name]
    for node in state.nodes.values():
        state.refresh(node)
    rearm(state)
    state.touched.clear()
    state.dirty.clear()


def link_teams(state: State) -> None:
    """Hang the teams under their parents again, and add their use up."""
    state.root = Team(name=ROOT, order=0)
    for team in state.teams.values():
        team.children = []
        team.used, team.pledged = team.own, team.own_pledged
    for team in state.teams.values():
        parent = state.teams[team.parent] if team.parent else state.root
        team.up = parent
        parent.children.append(team)
    state.lending_limited = any(team.lend >= 0 for team in state.teams.values())
    for team in state.teams.values():
        above = team.up
        while above is not None and above is not state.root:
            above.used += team.own
            above.pledged += team.own_pledged
            above = above.up


def count_models(state: State) -> None:
    """Count anew what is guaranteed, held and kept for claims of each guaranteed model."""
    before, state.models = state.models, Models(state.teams)
    if not before.trees and not state.models.trees:
        return
    for job in state.holding.values():
        job.by_model = {}
        state.count_by_model(job)
    for claim in state.reservations.values():
        if claim.kind == "claim":
            spec = state.jobs[claim.job].spec
            parts = ((state.nodes.get(seat.node), seat.gpus) for seat in claim.seats)
            state.models.pledge(spec.team, state.models.on(parts), 1)
            state.models.pledge_inside(spec, 1)


def _rebuild_reservation(state: State, reservation: Reservation) -> None:
    for seat in reservation.seats:
        state.reserved_on.setdefault(seat.node, []).append(reservation.job)
        if seat.node in state.nodes:
            state.nodes[seat.node].claimed |= seat.held
    if reservation.kind == "claim":
        state.pledge_claim(reservation, 1)


def _rebuild_job(state: State, job: Job) -> None:
    state.enter_array(job)
    state.link_dependencies(job)
    if job.phase in HOLDING:
        state.seat(job)
        return
    state.enqueue(job)
    if job.phase is Phase.QUEUED and not job.cause:
        (state.unexplained if job.attempt else state.unverified)[job.id] = None


def rearm(state: State) -> None:
    """Set every timer anew, from the entities alone; also forgets what was answered."""
    state.timers = []
    state.answered = {}
    state.shortest = {}
    state.ends.wants.clear()
    for team in state.teams.values():
        state.forget_reach(team.name)
    state.plans_doubted = True
    for job in state.holding.values():
        state.ends.expect(state.cell.policy, job)
    for job in state.jobs.values():
        _arm_job(state, job)
    for node in state.nodes.values():
        _arm_node(state, node)
    for reservation in state.reservations.values():
        state.wake(reservation.start_ms, "cycle")
        if reservation.disturbed:
            state.wake(state.again_ms(reservation), "cycle")


def _arm_job(state: State, job: Job) -> None:
    policy = state.cell.policy
    if job.phase is Phase.QUEUED:
        if job.not_before_ms:
            state.wake(job.not_before_ms, "backoff", job.id)
        if job.gpus >= policy["large_gang_gpus"]:
            state.wake(job.queued_ms + policy["large_gang_wait_bound"], "cycle")
    elif job.phase is Phase.STARTING:
        since = max(job.placed_ms, state.cell.deadlines_from_ms)
        state.wake(since + policy["start_timeout"], "start", job.id)
    elif job.phase is Phase.STOPPING:
        since = max(job.stop_ms, state.cell.deadlines_from_ms)
        state.wake(since + job.stop_grace_ms + policy["stop_timeout"], "stop", job.id)
    if job.phase is Phase.RUNNING:
        state.wake(protected_until_ms(state.cell.policy, job), "protection", job.id)
    if job.started_ms and job.spec.limit_ms is not None and job.phase is Phase.RUNNING:
        state.wake(job.started_ms + job.spec.limit_ms - job.resumed_ms, "limit", job.id)


def _arm_node(state: State, node: Node) -> None:
    if node.silent_ms and not node.lost:
        since = max(node.silent_ms, state.cell.deadlines_from_ms)
        state.wake(since + state.cell.policy["lost_after"], "lost", node.name)
    for at_ms, kind in (
        (node.unready_until_ms, "unready"),
        (node.quarantined_until_ms, "quarantine"),
        (node.deadline_ms, "service"),
    ):
        if at_ms:
            state.wake(at_ms, kind, node.name)
    for window in node.windows:
        state.wake(window.from_ms, "window", node.name)
