"""Why a job waits: one cause at every moment, the first that holds, with its numbers.

`explain` answers for one job from the state alone, so that the same state always gives the same
answer. The recorded causes (WaitCauseChanged) are brought up to date at the end of a step: for new
jobs at once, for all others at most once in `cause_interval`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import nsmallest
from operator import itemgetter
from typing import Final

from gangline.events import decisions as d
from gangline.events.decisions import Certificate, WaitCause
from gangline.scheduler.core import claims, quota, rights
from gangline.scheduler.core.entities import Job, Node, Reservation
from gangline.scheduler.core.fit import shape_of
from gangline.scheduler.core.fleet import Shape
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.names import are, gpus_in_words
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn

Answer = tuple[WaitCause, str]
MOST_NAMED: Final = 3
PATIENCE: Final = 10
"""After so many intervals the causes are brought up to date in any step."""


def explain(turn: Turn, job: Job, order: Order) -> Answer:
    """The first cause that holds for a waiting job, and its text."""
    state = turn.state
    own = _own(state, job)
    if own is not None:
        return own
    if state.has_claim(job.id):
        leaving = _some(list(state.reservations[job.id].victims)) or "its place"
        return WaitCause.CAPACITY, f"needs {gpus_in_words(job.gpus)}; {leaving} is leaving for it"
    stopped = quota.barrier(state, job.spec.team, job.gpus, preemptible=job.spec.preemptible)
    if stopped is not None:
        return WaitCause.BORROW_LIMIT, _limit_text(job, stopped)
    return _room(turn, job, order)


def _own(state: State, job: Job) -> Answer | None:
    """A cause that lies with the job itself, whatever room there is."""
    if job.phase is not Phase.QUEUED:
        return WaitCause.STARTING, f"attempt {job.attempt} is {job.phase.name.lower()}"
    if job.waiting_for:
        missing = [a for a in job.spec.after if not state.succeeded(a)]
        return WaitCause.DEPENDENCY, f"waits for the success of {_some(missing)}"
    if job.held_by:
        return WaitCause.HOLD, f"held by {job.held_by}: {job.held_why or 'no reason given'}"
    if job.not_before_ms:
        return WaitCause.HOLD, "backed off: its program fails soon after each start"
    return None


def _limit_text(job: Job, stopped: quota.Barrier) -> str:
    what = {
        "guarantee": "its guarantee, which a preemptible=no job may not exceed, is",
        "borrow": "its guarantee and borrow limit are",
        "lend": "what the others lend leaves",
    }[stopped.kind]
    over = stopped.used + job.gpus - stopped.most
    return (
        f"needs {gpus_in_words(job.gpus)}; team {stopped.team} uses {stopped.used} and {what} "
        f"{stopped.most}; starts when {over} of them {'is' if over == 1 else 'are'} released"
    )


def _room(turn: Turn, job: Job, order: Order) -> Answer:
    """Why there is no room, looking at ever kinder fleets."""
    state = turn.state
    shape = shape_of(job)
    tree = state.tree_for(shape.selector)
    free = tree.root.free
    if tree.fits(shape):
        return WaitCause.RESERVATION, _reserved_text(turn, job, free)
    held_back, by = _held_back(turn, job, order)
    if _fits_with(state, shape, held_back):
        return WaitCause.FAIR_SHARE, (
            f"needs {gpus_in_words(job.gpus)}; {are(free)} free, and {_some(by)} before it in "
            "order takes the place"
        )
    if _fits_with(state, shape, turn.remember("claimed", lambda: _claimed(state))):
        return WaitCause.RESERVATION, _reserved_text(turn, job, free)
    if _fits_with(state, shape, turn.remember("all well", lambda: _all_well(state))):
        return WaitCause.NODES_UNHEALTHY, (
            f"needs {gpus_in_words(job.gpus)}; {are(free)} free, and it would fit if the nodes "
            "and GPUs that are out of service were well"
        )
    return _shape_or_count(turn, job, shape, free=free, order=order)


def _fits_with(state: State, shape: Shape, more: dict[str, int]) -> bool:
    """Whether a shape that does not fit would, with these GPUs free too."""
    if not more:
        return False
    with _as_if(state, more):
        return state.tree_for(shape.selector).fits(shape)


def _shape_or_count(turn: Turn, job: Job, shape: Shape, *, free: int, order: Order) -> Answer:
    """Not enough GPUs, or enough but not in the shape that it requires."""
    state = turn.state
    reclaimable = 0
    if rights.may_claim(state, job):
        reclaimable = rights.Reach(turn, job, protects=False).everybody()
        shaped = bool(shape.level or shape.per_node)
        if shaped and free + reclaimable >= job.gpus:
            search = claims.Search(turn, job, shape, order)
            search.ignore_protection = True
            if search.best() is None:
                return WaitCause.TOPOLOGY, _shape_text(job, shape, free + reclaimable)
    elif (shape.level or shape.per_node) and free >= job.gpus:
        return WaitCause.TOPOLOGY, _shape_text(job, shape, free)
    return WaitCause.CAPACITY, (
        f"needs {gpus_in_words(job.gpus)}; {are(free)} free and {reclaimable} may be reclaimed; "
        f"starts when {max(1, job.gpus - free)} more are released{_holders(turn)}"
    )


def _shape_text(job: Job, shape: Shape, within_reach: int) -> str:
    where = f"within one {shape.level}" if shape.level else "in the shape it asks for"
    each = f" with {shape.per_node} on each node" if shape.per_node else ""
    return (
        f"needs {gpus_in_words(job.gpus)}{each} {where}; {are(within_reach)} free or may be "
        "reclaimed, but not in that shape"
    )


def _holders(turn: Turn) -> str:
    """Who holds most."""
    return turn.remember("holders", lambda: _largest(turn.state))


def _largest(state: State) -> str:
    largest = nsmallest(MOST_NAMED, state.holding.values(), key=lambda j: (-j.gpus, j.number))
    named = ", ".join(f"{job.id} ({job.gpus})" for job in largest)
    return f"; most is held by {named}" if named else ""


def _reserved_text(turn: Turn, job: Job, free: int) -> str:
    names = [r.job for r in turn.state.reservations.values() if r.job != job.id]
    for_whom = f"kept for {_some(names)}" if names else "kept for an announced maintenance"
    needs = gpus_in_words(job.gpus)
    return f"needs {needs}; {are(free)} free, but what it needs of them is {for_whom}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


# --- kinder fleets --------------------------------------------------------------------------------


def _claimed(state: State) -> dict[str, int]:
    """GPUs that claims hold, by node, where the node could be used."""
    return {
        name: node.claimed & node.usable
        for name in state.reserved_on
        if (node := state.nodes.get(name)) is not None and node.claimed
    }


def _held_back(turn: Turn, job: Job, order: Order) -> tuple[dict[str, int], list[str]]:
    """GPUs that claims of jobs ahead hold, by node, and whose they are."""
    keys = turn.remember(
        "claims",
        lambda: sorted(
            (order.key(turn.state.jobs[r.job]), place, r)
            for place, r in enumerate(turn.state.reservations.values())
            if r.kind == "claim"
        ),
    )
    ahead = bisect_left(keys, (order.key(job),)) if keys else 0
    if not ahead:
        return {}, []
    whose = sorted(keys[:ahead], key=itemgetter(1))
    return turn.remember(
        ("held back", ahead), lambda: _held_by(turn.state, [claim for _, _, claim in whose])
    )


def _held_by(state: State, claims_ahead: list[Reservation]) -> tuple[dict[str, int], list[str]]:
    """GPUs that some claims hold, by node, and whose they are."""
    masks: dict[str, int] = {}
    for claim in claims_ahead:
        for seat in claim.seats:
            node = state.nodes.get(seat.node)
            if node is not None:
                masks[seat.node] = masks.get(seat.node, 0) | seat.held & node.usable
    return masks, [claim.job for claim in claims_ahead]


def _all_well(state: State) -> dict[str, int]:
    """What every node would have free if it were well, open, and none of its GPUs bad."""
    return {name: node.all & ~(node.used | node.claimed) for name, node in state.ill.items()}


@contextmanager
def _as_if(state: State, more: dict[str, int]) -> Iterator[None]:
    """The fleet with these GPUs free too."""
    before: list[tuple[Node, int]] = []
    for name, mask in more.items():
        node = state.nodes[name]
        before.append((node, node.avail))
        state.set_avail(node, node.avail | mask)
    try:
        yield
    finally:
        for node, avail in before:
            state.set_avail(node, avail)


# --- keeping the record ---------------------------------------------------------------------------


def record(turn: Turn) -> None:
    """Bring the recorded causes up to date: of new jobs now, of all when due."""
    state = turn.state
    order = Order(state, turn.now_ms)
    due_ms = state.cell.causes_ms + state.cell.policy["cause_interval"]
    patience_ms = PATIENCE * state.cell.policy["cause_interval"]
    overdue = state.cell.stale_ms and turn.now_ms >= max(due_ms, state.cell.stale_ms + patience_ms)
    if state.causes_stale and (overdue or (not turn.decisions and turn.now_ms >= due_ms)):
        state.causes_stale = False
        waiting = sorted(
            (j for j in state.jobs.values() if j.phase is Phase.QUEUED), key=lambda j: j.number
        )
        turn.considered += bool(waiting)
        _tell(turn, waiting, order)
    elif state.unverified or state.unexplained:
        fresh = [j for n in state.unverified if (j := state.jobs.get(n)) is not None]
        fresh += [j for n in state.unexplained if (j := state.jobs.get(n)) is not None]
        _tell(turn, [j for j in fresh if j.phase is Phase.QUEUED], order)
    state.unexplained.clear()
    if state.causes_stale and any(True for _ in state.groups):
        state.wake(max(due_ms, turn.now_ms + 1), "causes")


def _tell(turn: Turn, jobs: list[Job], order: Order) -> None:
    """Decide what changed, for all jobs of one answer together."""
    same: dict[object, Answer] = {}
    told: dict[Answer, list[str]] = {}
    for job in jobs:
        key = job.group or job.id
        has_own = job.id in turn.state.reservations
        answer = None if has_own else same.get(key)
        if answer is None:
            answer = explain(turn, job, order)
            if not has_own:
                same[key] = answer
        if (job.cause, job.cause_text) != (str(answer[0]), answer[1]):
            told.setdefault(answer, []).append(job.id)
    for (cause, text), names in told.items():
        turn.decide(
            d.WaitCauseChanged(
                jobs=tuple(names),
                cause=cause,
                text=text,
                certificate=Certificate(policy_version=turn.state.cell.policy_version),
            )
        )
