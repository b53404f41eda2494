"""What others may ask of the state.

Assignments of nodes, numbers of teams and the fleet, reasons.
"""

from __future__ import annotations

from typing import NamedTuple

from gangline.events.batch import AssignedMember, MemberPhase
from gangline.events.decisions import Health, Service, StopCause, WaitCause
from gangline.events.spec import Spec
from gangline.scheduler.core import causes
from gangline.scheduler.core.apply import FENCED
from gangline.scheduler.core.entities import Job, Lingering, Node
from gangline.scheduler.core.fleet import bits
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn

_PHASES = {
    Phase.STARTING: MemberPhase.PREPARE,
    Phase.RUNNING: MemberPhase.RUN,
    Phase.STOPPING: MemberPhase.STOP,
}


class FleetNumbers(NamedTuple):
    """The fleet in GPUs. held: by gangs; free: in service, neither held nor claimed.

    Unhealthy: see CONTRACTS.
    """

    held: int
    free: int
    unhealthy: int
    total: int


def fleet_numbers(state: State) -> FleetNumbers:
    """The fleet now."""
    held = sum(job.gpus for job in state.holding.values())
    unhealthy = 0
    for node in state.nodes.values():
        if node.service is not Service.OPEN:
            continue
        unhealthy += node.gpus if node.health is not Health.WELL else node.bad.bit_count()
    return FleetNumbers(held, state.tree.root.free, unhealthy, state.capacity)


def job_state(state: State, job_id: str) -> str:
    """queued, starting, running or preempting; empty for a job that is unknown or has ended."""
    job = state.jobs.get(job_id)
    if job is None:
        return ""
    if job.phase is Phase.STOPPING:
        if job.stop_cause in (StopCause.PREEMPTED, StopCause.DRAINED, StopCause.MAINTENANCE):
            return "preempting"
        return "running" if job.started_ms else "starting"
    return "queued" if job.phase is Phase.RELEASED else job.phase.name.lower()


def explain(state: State, job_id: str, *, now_ms: int) -> tuple[WaitCause, str]:
    """Why a live job waits now, and the numbers; KeyError for a job that is not live."""
    turn = Turn(state, now_ms, caught_up=True)
    answer = causes.explain(turn, state.jobs[job_id], Order(state, now_ms))
    return answer.cause, answer.text


def policy_value(state: State, key: str) -> int:
    """A policy key's present value; KeyError for an unknown key."""
    return state.cell.policy[key]


def assigned_members(state: State, node: str) -> tuple[AssignedMember, ...]:
    """What a node should run now; of members that are out, nothing.

    Fenced attempts that may still have processes there stand as members to stop, until the node
    says that they are gone.
    """
    found = state.nodes.get(node)
    if found is None:
        return ()
    jobs = sorted((state.jobs[name] for name in found.gangs), key=lambda job: job.number)
    members = [
        _member(job, found.gangs[job.id])
        for job in jobs
        if all(end.node != node for end in job.ended)
    ]
    return (*members, *(_fenced(found, left) for left in found.lingering))


def _fenced(node: Node, left: Lingering) -> AssignedMember:
    gpus = bits(left.gpus)
    return AssignedMember(
        job=left.job,
        number=0,
        attempt=left.attempt,
        phase=MemberPhase.STOP,
        gpus=gpus,
        member=0,
        nodes=(node.name,),
        gpus_by_node=(len(gpus),),
        first_rank=0,
        world_size=len(gpus),
        spec=Spec(team="", gpus=len(gpus)),
        stop_cause=FENCED,
    )


def _member(job: Job, index: int) -> AssignedMember:
    seat = job.seats[index]
    return AssignedMember(
        job=job.id,
        number=job.number,
        attempt=job.attempt,
        phase=_PHASES[job.phase],
        gpus=seat.gpus,
        member=index,
        nodes=tuple(s.node for s in job.seats),
        gpus_by_node=tuple(len(s.gpus) for s in job.seats),
        first_rank=seat.first_rank,
        world_size=job.gpus,
        spec=job.spec,
        address=job.address,
        port=job.port,
        resume_path=job.saved_path,
        resume_step=job.saved_step,
        resumed_ms=job.resumed_ms if job.started_ms else job.saved_ms,
        grace_ms=job.stop_grace_ms if job.phase is Phase.STOPPING else 0,
        stop_cause=job.stop_cause,
    )


def take_touched(state: State) -> tuple[str, ...]:
    """The nodes whose assignment may have changed since this was asked last, in order of change."""
    touched = tuple(state.touched)
    state.touched.clear()
    return touched
