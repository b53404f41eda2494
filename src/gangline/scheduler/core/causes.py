"""Why a job waits: one cause at every moment, the first that holds, with its numbers.

`explain` answers for one job from the state alone, so that the same state always gives the same
answer. The recorded causes (WaitCauseChanged) are brought up to date at the end of a step: for new
jobs at once, for all others at most once in `cause_interval`.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import Final, NamedTuple

from gangline.events import decisions as d
from gangline.events.decisions import Certificate, WaitCause
from gangline.scheduler.core import quota, remedies, rights
from gangline.scheduler.core.entities import Job, Reservation
from gangline.scheduler.core.fit import shape_of
from gangline.scheduler.core.fleet import Shape
from gangline.scheduler.core.lifecycle import Phase
from gangline.scheduler.core.names import are, gpus_in_words, some
from gangline.scheduler.core.order import Order
from gangline.scheduler.core.remedies import Change
from gangline.scheduler.core.state import State
from gangline.scheduler.core.turn import Turn

PATIENCE: Final = 10
"""After so many intervals the causes are brought up to date in any step."""


class Answer(NamedTuple):
    """Why a job waits. binding: what exactly stands in the way. change: what would start it."""

    cause: WaitCause
    text: str
    binding: str = ""
    change: Change = remedies.NOTHING


def explain(turn: Turn, job: Job, order: Order) -> Answer:
    """The first cause that holds for a waiting job, and its text."""
    state = turn.state
    own = _own(state, job)
    if own is not None:
        return own
    if state.has_claim(job.id):
        leaving = some(list(state.reservations[job.id].victims)) or "its place"
        needs = gpus_in_words(job.gpus)
        text = f"needs {needs}; {leaving} is leaving for it"
        return Answer(WaitCause.CAPACITY, text, "its victims' grace")
    spec = job.spec
    stopped = quota.barriers(state, spec)
    if stopped:
        return _limited(state, job, stopped)
    return _room(turn, job, order)


def _own(state: State, job: Job) -> Answer | None:
    """A cause that lies with the job itself, whatever room there is."""
    if job.phase is not Phase.QUEUED:
        return Answer(WaitCause.STARTING, f"attempt {job.attempt} is {job.phase.name.lower()}")
    if job.waiting_for:
        missing = [a for a in job.spec.after if not state.succeeded(a)]
        return Answer(WaitCause.DEPENDENCY, f"waits for the success of {some(missing)}")
    if job.held_by:
        why = job.held_why or "no reason given"
        return Answer(WaitCause.HOLD, f"held by {job.held_by}: {why}; starts when it is released")
    if job.not_before_ms:
        return Answer(WaitCause.HOLD, "backed off: its program fails soon after each start")
    return None


def _limited(state: State, job: Job, stopped: list[quota.Barrier]) -> Answer:
    first, *others = stopped
    change = f"starts when {_release(job, first)}"
    for other in others:
        change += f" and {_release(job, other)}"
    shape = shape_of(job)
    if not state.tree_for(shape.selector).fits(shape):
        change += " and there is room"
    text = f"needs {gpus_in_words(job.gpus)}; {_limit_text(first)}; {change}"
    of_model = f" of {first.model}" if first.model else ""
    binding = f"{first.kind} limit{of_model} of team {first.team}"
    over = first.used + job.gpus - first.most
    return Answer(WaitCause.BORROW_LIMIT, text, binding, Change(change, gpus=over))


def _limit_text(stopped: quota.Barrier) -> str:
    if stopped.kind == "lend":
        return f"of {stopped.most} in all, {stopped.used} are used, or idle and not lent"
    of_model = f" of {stopped.model}" if stopped.model else ""
    what = {
        "guarantee": f"its guarantee{of_model}, which a preemptible=no job may not exceed, is",
        "borrow": "its guarantee and borrow limit are",
    }[stopped.kind]
    return f"team {stopped.team} uses {stopped.used}{of_model} and {what} {stopped.most}"


def _release(job: Job, stopped: quota.Barrier) -> str:
    """How many GPUs have to be released for one limit, and whose."""
    over = stopped.used + job.gpus - stopped.most
    whose = "that are borrowed" if stopped.kind == "lend" else f"of team {stopped.team}"
    if stopped.model:
        whose = f"{stopped.model} {whose}"
    return f"{over} {whose} {'is' if over == 1 else 'are'} released"


def _room(turn: Turn, job: Job, order: Order) -> Answer:
    """Why there is no room, looking at ever kinder fleets."""
    state = turn.state
    shape = shape_of(job)
    tree = state.tree_for(shape.selector)
    free = tree.root.free
    if tree.fits(shape):
        return _reserved(turn, job, order, free=free)
    held_back, by = _held_back(turn, job, order)
    if remedies.fits_with(state, shape, held_back):
        take = "takes" if len(by) == 1 else "take"
        text = (
            f"needs {gpus_in_words(job.gpus)}; {are(free)} free, and {some(by)} before it in "
            f"order {take} the place"
        )
        return Answer(WaitCause.FAIR_SHARE, text, f"order: {some(by)}")
    if remedies.fits_with(state, shape, turn.remember("claimed", lambda: _claimed(state))):
        return _reserved(turn, job, order, free=free)
    if remedies.fits_with(
        state, shape, turn.remember("all well", lambda: remedies.all_well(state))
    ):
        change = remedies.back_in_service(turn, shape)
        text = (
            f"needs {gpus_in_words(job.gpus)}; {are(free)} free, and it would fit if the nodes "
            f"and GPUs that are out of service were well; {change.text}"
        )
        return Answer(WaitCause.NODES_UNHEALTHY, text, "nodes out of service", change)
    return _shape_or_count(turn, job, shape, free=free, order=order)


def _shape_or_count(turn: Turn, job: Job, shape: Shape, *, free: int, order: Order) -> Answer:
    """Not enough GPUs, or enough but not in the shape that it requires."""
    reclaimable = 0
    later: Change | None = None
    shaped = bool(shape.level or shape.per_node)
    if rights.may_claim(turn.state, job):
        reclaimable = rights.Reach(turn, job, protects=False).everybody()
        # Only for a shape: where any GPUs do, a whole search for each waiting job costs too much.
        if shaped and free + reclaimable >= job.gpus:
            later = remedies.may_evict_later(turn, job, shape, order)
    enough = free + reclaimable >= job.gpus
    change = remedies.more_room(turn, job, shape, order)
    held = remedies.holders(turn, shape, change.within)
    if later is not None and later.text:
        change = later
    if shaped and enough and later is None:
        text = f"{_shape_text(job, shape, free + reclaimable)}; {change.text}{held}"
        return Answer(WaitCause.TOPOLOGY, text, f"shape: {_shape_words(shape)}", change)
    model = turn.state.models.asked_by(job.spec)
    text = (
        f"needs {gpus_in_words(job.gpus, model)}; {are(free)} free and {reclaimable} may be "
        f"reclaimed; {change.text}{held}"
    )
    return Answer(WaitCause.CAPACITY, text, "free GPUs", change)


def _shape_words(shape: Shape) -> str:
    where = f"within one {shape.level}" if shape.level else "in the shape it asks for"
    return f"with {shape.per_node} on each node {where}" if shape.per_node else where


def _shape_text(job: Job, shape: Shape, within_reach: int) -> str:
    return (
        f"needs {gpus_in_words(job.gpus)} {_shape_words(shape)}; {are(within_reach)} free or may "
        "be reclaimed, but not in that shape"
    )


def _reserved(turn: Turn, job: Job, order: Order, *, free: int) -> Answer:
    """What it needs is kept for others."""
    change = remedies.shorter_limit(turn, job, shape_of(job), order)
    needs = f"needs {gpus_in_words(job.gpus)}; {are(free)} free, but what it needs of them is"
    if change.text:
        for_whom = change.kept_for
        text = f"{needs} kept for {for_whom}; {change.text}"
        return Answer(WaitCause.RESERVATION, text, f"kept for {for_whom}", change)
    names = [r.job for r in turn.state.reservations.values() if r.job != job.id]
    for_whom = some(names) if names else "an announced maintenance"
    return Answer(WaitCause.RESERVATION, f"{needs} kept for {for_whom}", f"kept for {for_whom}")


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
        back = [j for n in state.unexplained if (j := state.jobs.get(n)) is not None]
        fresh += sorted(back, key=lambda job: job.number)
        _tell(turn, [j for j in fresh if j.phase is Phase.QUEUED], order)
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
        if (job.cause, job.cause_text) != (str(answer.cause), answer.text):
            told.setdefault(answer, []).append(job.id)
    for answer, names in told.items():
        turn.decide(
            d.WaitCauseChanged(
                jobs=tuple(names),
                cause=answer.cause,
                text=answer.text,
                certificate=Certificate(
                    binding=answer.binding,
                    alternative=answer.change.text,
                    policy_version=turn.state.cell.policy_version,
                ),
            )
        )
