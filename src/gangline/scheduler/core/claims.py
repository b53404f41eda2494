"""Preemption as a transaction.

Prove the whole placement (victims.py), tell the victims, keep what they leave for the claimant.
"""

from __future__ import annotations

from gangline.events import decisions as d
from gangline.events.decisions import Certificate, Health, Service
from gangline.events.spec import JobClass
from gangline.scheduler.core import quota
from gangline.scheduler.core.assumed import grace_ms, run_ms
from gangline.scheduler.core.entities import Job, Reservation
from gangline.scheduler.core.fit import shape_of
from gangline.scheduler.core.fleet import Shape, bits, take_bits
from gangline.scheduler.core.keeping import Keeping, ends_ms
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.plans import ask_broken
from gangline.scheduler.core.policy import HOUR
from gangline.scheduler.core.rights import may_claim
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn
from gangline.scheduler.core.victims import Choice, Search


def claim(turn: Turn, job: Job, shape: Shape, order: Order) -> bool:
    """Evict for the job if it has the right and its whole place is proven; whether it did."""
    state = turn.state
    if not may_claim(state, job):
        return False
    search = Search(turn, job, shape, order)
    choice = search.best()
    # Whoever waits only for gangs that leave anyway needs no rights.
    if choice is None or not any(victim.cause for victim in choice.victims):
        return False
    if not _within_cap(turn, job, choice):
        return False
    _evict(turn, job, choice)
    ask_broken(turn, [node.name for node, _ in choice.place.parts], order)
    return True


def _within_cap(turn: Turn, job: Job, choice: Choice) -> bool:
    """The operator's cap on preempted GPU-hours an hour; `urgent` is not bound by it."""
    cap = turn.state.cell.policy["preempted_gpu_hours_cap"]
    if cap < 0 or job.job_class is JobClass.URGENT:
        return True
    since = turn.now_ms - HOUR
    spent = sum(s.gpu_ms for s in turn.state.cell.preempted if s.at_ms > since)
    for victim in choice.victims:
        if victim.cause and victim.job.started_ms:
            spent += victim.job.gpus * (turn.now_ms - victim.job.started_ms)
    return spent <= cap * HOUR


def _evict(turn: Turn, job: Job, choice: Choice) -> None:
    """Tell the victims, and keep the place."""
    state = turn.state
    if job.id in state.reservations:
        turn.decide(d.ReservationReleased(job=job.id, why="changed"))
    free_before = {node.name: node.avail for node, _ in choice.place.parts}
    latest = turn.now_ms
    model = state.models.asked_by(job.spec)
    judged = f", by the guarantees of {model}" if model else ""
    certificate = Certificate(
        binding=f"cheapest victims of a proven place{judged}",
        tie=str(choice.cost),
        alternative=choice.rejected,
        policy_version=state.cell.policy_version,
    )
    for victim in choice.victims:
        if victim.cause:
            grace = grace_ms(state.cell.policy, victim.job) if victim.job.started_ms else 0
            turn.decide(
                d.GangPreempted(
                    job=victim.job.id,
                    attempt=victim.job.attempt,
                    claimant=job.id,
                    claimant_attempt=job.attempt + 1,
                    cause=victim.cause,
                    grace_ms=grace,
                    certificate=certificate,
                )
            )
        latest = max(latest, ends_ms(state, victim.job, turn.now_ms))
    seats = tuple(
        d.ReservedSeat(
            node=node.name, gpus=count, held=bits(take_bits(free_before[node.name], count))
        )
        for node, count in choice.place.parts
    )
    turn.decide(
        d.ReservationPlanned(
            job=job.id,
            kind="claim",
            start_ms=latest,
            end_ms=latest + run_ms(state.cell.policy, job),
            seats=seats,
            victims=tuple(victim.job.id for victim in choice.victims),
        )
    )


# --- when the victims are out ---------------------------------------------------------------------


def settle(turn: Turn) -> list[Reservation]:
    """Claims that are complete and may start; those that were broken or overtaken are let go."""
    ready: list[Reservation] = []
    for reservation in list(turn.state.reservations.values()):
        if reservation.kind != "claim" or reservation.victims:
            continue
        verdict = _verdict(turn.state, reservation)
        if verdict == "ready":
            ready.append(reservation)
        elif verdict != "wait":
            turn.decide(d.ReservationReleased(job=reservation.job, why=verdict))
    overtaken = _overtaken(turn, ready)
    for reservation in overtaken:
        turn.decide(d.ReservationReleased(job=reservation.job, why="overtaken"))
    return [reservation for reservation in ready if reservation not in overtaken]


def _overtaken(turn: Turn, ready: list[Reservation]) -> list[Reservation]:
    """Claims whose jobs an urgent one that waits would evict as soon as they had started.

    Those that are last in order, until it starts. Only for the first urgent job in order, whatever
    keeps it: when a claim is gone it may get a plan, and the others would have to keep off that.
    """
    state = turn.state
    order = Order(state, turn.now_ms)
    given = [r for r in ready if _may_go(state.jobs[r.job])]
    given.sort(key=lambda r: order.key(state.jobs[r.job]), reverse=True)
    urgent = min(_urgent(state), key=order.key, default=None) if given else None
    if urgent is None or quota.barrier(state, urgent.spec) is not None:
        return []
    if quota.breaks_claim(state, urgent) or _starts_with(turn, urgent, [], order):
        return []
    sizes = range(1, len(given) + 1)
    enough = (many for many in sizes if _starts_with(turn, urgent, given[:many], order))
    return given[: next(enough, 0)]


def _may_go(job: Job) -> bool:
    return job.spec.preemptible and job.job_class < JobClass.URGENT


def _urgent(state: State) -> list[Job]:
    """The first of each group of urgent jobs; whoever has a claim stands in no group."""
    heads = (members[0][2] for members in state.groups.values())
    return [job for job in heads if job.job_class is JobClass.URGENT]


def _starts_with(turn: Turn, job: Job, claims: list[Reservation], order: Order) -> bool:
    """Whether a job would start if it could have what claims hold."""
    state, shape = turn.state, shape_of(job)
    tree = state.tree_for(shape.selector)
    before: dict[str, int] = {}
    for seat in (seat for claim in claims for seat in claim.seats):
        if seat.node in tree.counted:
            now = tree.counted[seat.node]
            before.setdefault(seat.node, now)
            tree.count(state.nodes[seat.node], now + seat.held.bit_count())
    with Keeping(turn, job, order).without_kept(tree):
        place = tree.find(shape)
    for name, free in before.items():
        tree.count(state.nodes[name], free)
    return place is not None


def _verdict(state: State, reservation: Reservation) -> str:
    """`ready`, `wait` (a node is silent, and may be heard again), or why the place is broken."""
    job = state.jobs[reservation.job]
    verdict = "ready"
    if quota.barrier_without_claim(state, job, quota.projected) is not None:
        return "withdrawn"
    if quota.barrier_without_claim(state, job) is not None:
        verdict = "wait"  # for gangs of its own branch that are leaving
    for seat in reservation.seats:
        node = state.nodes.get(seat.node)
        if node is None or node.health in (Health.LOST, Health.QUARANTINED):
            return "fault"
        if node.unready_until_ms or seat.held & ~node.sound:
            return "fault"
        if node.service is not Service.OPEN:
            return "withdrawn"
        if seat.held.bit_count() < seat.gpus:
            return "fault"
        if node.silent_ms:
            verdict = "wait"
    return verdict
