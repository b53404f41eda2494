"""Nodes: what agents and the driver notice, and what becomes of the gangs on them.

Health is what we can know of a node; service (service.py) is what operators want of it. Silence
makes a node suspected (no new work), longer silence lost: its gangs restart elsewhere from their
checkpoints, and their old attempts there are fenced by number until the node says that they are
gone. Faults and losses are strikes, and so is unreadiness once two distinct jobs have met it; too
many strikes within the window quarantine a node, each time for twice as long. Gangs on a
quarantined node run on.
"""

from __future__ import annotations

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.batch import Edge
from gangline.events.decisions import Health, Service, StopCause
from gangline.scheduler.core import gangs, health
from gangline.scheduler.core.apply import FENCED
from gangline.scheduler.core.entities import Job, Node
from gangline.scheduler.core.fleet import mask_of
from gangline.scheduler.core.inputs import Fact
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.names import is_name
from gangline.scheduler.core.turn import Refusal, Turn

DEAD = "infrastructure"
MAX_GPUS = 63  # of a node: masks of GPUs stand in the state as Avro longs


def gangs_on(turn: Turn, node: Node) -> list[Job]:
    """The gangs with a member there, in order of acceptance."""
    jobs = turn.state.jobs
    return sorted((jobs[name] for name in node.gangs), key=lambda job: job.number)


def registered(turn: Turn, fact: Fact, body: f.NodeRegistered) -> None:
    """An agent came up. Under another boot id, what it does not list is gone."""
    node = turn.state.nodes.get(body.node)
    if node is None:
        if not turn.state.cell.policy["auto_admit"]:
            turn.refuse(fact, Refusal.NO_SUCH_NODE)
            return
        node = admit(turn, fact, body)
        if node is None:
            return
    rebooted = bool(node.boot_id) and node.boot_id != body.boot_id
    if (node.boot_id, node.address) != (body.boot_id, body.address):
        turn.decide(
            d.NodeBooted(
                node=node.name,
                boot_id=body.boot_id,
                address=body.address,
                agent_version=body.agent_version,
            )
        )
    running = {(member.job, member.attempt) for member in body.running}
    clear_lingering(turn, node, running)
    if rebooted:
        members_gone(turn, node, running)


def admit(turn: Turn, fact: Fact, body: f.NodeRegistered | f.NodeAdmitted) -> Node | None:
    """Let a node into the fleet, if its path has the fleet's levels."""
    state = turn.state
    if not is_name(body.node) or not all(is_name(part) for part in body.path):
        turn.refuse(fact, Refusal.BAD_NAME)
        return None
    if not 1 <= body.gpus <= MAX_GPUS:
        turn.refuse(fact, Refusal.BAD_VALUE)
        return None
    levels = next((n.levels for n in state.nodes.values()), body.levels)
    if levels != body.levels or len(body.path) != len(body.levels):
        turn.refuse(fact, Refusal.OTHER_LEVELS)
        return None
    turn.decide(
        d.NodeAdded(
            node=body.node,
            path=body.path,
            levels=body.levels,
            gpus=body.gpus,
            labels=body.labels,
            public_key=body.public_key if isinstance(body, f.NodeAdmitted) else b"",
        )
    )
    return state.nodes[body.node]


def clear_lingering(turn: Turn, node: Node, running: set[tuple[str, int]]) -> None:
    """Fenced attempts that the node does not have any more are gone."""
    for left in node.lingering:
        if (left.job, left.attempt) not in running:
            turn.decide(
                d.MemberEnded(
                    job=left.job, attempt=left.attempt, node=node.name, code=0, reason=FENCED
                )
            )


def members_gone(turn: Turn, node: Node, running: set[tuple[str, int]]) -> None:
    """The machine was started anew: members that it does not list have died with it."""
    for job in gangs_on(turn, node):
        if (job.id, job.attempt) not in running and _alive(job, node):
            gangs.end_member(turn, job, node.name, reason=DEAD)
            gangs.after_end(turn, job)


def _alive(job: Job, node: Node) -> bool:
    return all(end.node != node.name for end in job.ended)


def edge(turn: Turn, edge_: Edge) -> None:
    """A node fell silent, or is heard again."""
    node = turn.state.nodes.get(edge_.node)
    if node is None:
        return
    if edge_.kind == "silent" and not node.silent_ms:
        lost_after = turn.state.cell.policy["lost_after"]
        health.change(
            turn, node, Health.SUSPECTED, cause="silent", until_ms=edge_.at_ms + lost_after
        )
    elif edge_.kind == "heard" and node.silent_ms:
        health.change(turn, node, Health.WELL, cause="heard")


def lost(turn: Turn, node: Node) -> None:
    """Silent for too long: its gangs go on elsewhere."""
    health.change(turn, node, Health.LOST, cause="lost", strike=not node.quarantined_until_ms)
    for job in gangs_on(turn, node):
        if _alive(job, node):
            gangs.end_member(turn, job, node.name, reason=DEAD, presumed=True)
            gangs.after_end(turn, job)
    health.check_strikes(turn, node)


def fault_detected(turn: Turn, fact: Fact, body: f.FaultDetected) -> None:
    """Hardware is broken: the GPU is out, and the gang on it restarts.

    A copy that comes when something newer is known of the GPU is none.
    """
    node = turn.state.nodes.get(body.node)
    if node is None:
        turn.refuse(fact, Refusal.NO_SUCH_NODE)
        return
    if not -1 <= body.gpu < node.gpus:
        turn.refuse(fact, Refusal.NO_SUCH_GPU)
        return
    gpus = range(node.gpus) if body.gpu < 0 else (body.gpu,)
    fresh = [g for g in gpus if not node.bad >> g & 1 and _is_news(node, g, body.number)]
    if not fresh:
        turn.refuse(fact, Refusal.DUPLICATE)
        return
    for gpu in fresh:
        strike = gpu == fresh[0]
        withdrawn = d.GpuWithdrawn(
            node=node.name,
            gpu=gpu,
            fault=body.fault,
            strike=strike,
            said=fact.id,
            number=body.number,
        )
        turn.decide(withdrawn)
    hit = mask_of(tuple(fresh))
    for job in gangs_on(turn, node):
        seat = job.seats[node.gangs[job.id]]
        if mask_of(seat.gpus) & hit and job.phase is not Phase.STOPPING:
            fail_for_fault(turn, job, node)
    health.check_strikes(turn, node)


def fail_for_fault(turn: Turn, job: Job, node: Node) -> None:
    """A gang lost a GPU under it: what is left of it is stopped, whatever its processes do."""
    grace = turn.state.cell.policy["abort_grace"] if job.started_ms else 0
    gangs.stop(turn, job, cause=StopCause.INFRASTRUCTURE, grace_ms=grace, by=f"node:{node.name}")


def fault_cleared(turn: Turn, fact: Fact, body: f.FaultCleared) -> None:
    """Hardware is well again."""
    node = turn.state.nodes.get(body.node)
    if node is None:
        turn.refuse(fact, Refusal.NO_SUCH_NODE)
        return
    gpus = range(node.gpus) if body.gpu < 0 else (body.gpu,)
    bad = [gpu for gpu in gpus if node.bad >> gpu & 1]
    back = [gpu for gpu in bad if _is_news(node, gpu, body.number)]
    if not back:
        turn.refuse(fact, Refusal.DUPLICATE if bad else Refusal.ALREADY_SO)
    for gpu in back:
        turn.decide(d.GpuReturned(node=node.name, gpu=gpu, number=body.number))


def _is_news(node: Node, gpu: int, number: int) -> bool:
    """Whether nothing newer is known of a GPU; of a fact without a number nobody can say."""
    return not number or number > node.fault_seen.get(str(gpu), 0)


def stop_members(turn: Turn, node: Node, cause: StopCause) -> None:
    """Tell what still runs on a node to stop, for an operator."""
    for job in gangs_on(turn, node):
        if job.phase is not Phase.STOPPING:
            gangs.stop(turn, job, cause=cause)


def unstoppable(turn: Turn, job: Job) -> None:
    """Members that did not end long after their grace.

    Their nodes are drained and stay so, never freed.
    """
    ended = {end.node for end in job.ended}
    for seat in job.seats:
        node = turn.state.nodes.get(seat.node)
        if seat.node in ended or node is None or node.health is Health.LOST:
            continue
        if node.service is not Service.DRAINING:
            turn.decide(
                d.NodeServiceChanged(
                    node=node.name,
                    service=Service.DRAINING,
                    cause=f"processes of {job.id} do not end",
                    by="scheduler",
                )
            )
        gangs.end_member(turn, job, node.name, reason="stopped", presumed=True)
    if len(job.ended) == len(job.seats):
        gangs.release(turn, job)
