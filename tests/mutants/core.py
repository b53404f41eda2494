"""Wrong schedulers: what the core decides, and when.

Many break a decision as it is made (`Turn.decide`), so that leader, standbys and verify all agree
on what is wrong: only an auditor that knows better can tell.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events.batch import MemberPhase
from gangline.events.spec import JobClass
from tests.mutants.mutant import Mutant, Patch, answering, instead, silenced

if TYPE_CHECKING:
    from collections.abc import Callable

CORE: Final = "gangline.scheduler.core"
_wrong = partial(Mutant, room="core")


def deciding(kind: type, change: Callable[[Any, Any], Any]) -> Callable[[Patch], None]:
    """Decisions of a kind come out otherwise. change: of turn and decision; None swallows it."""

    def broken(right: Any, turn: Any, decision: Any) -> None:
        changed = change(turn, decision) if type(decision) is kind else decision
        if changed is not None:
            right(turn, changed)

    return instead(f"{CORE}.turn:Turn.decide", broken)


def never_deciding(kind: type) -> Callable[[Patch], None]:
    """Decisions of a kind are never made."""
    return deciding(kind, lambda _turn, _decision: None)


def _with(**values: Any) -> Callable[[Any, Any], Any]:
    return lambda _turn, decision: replace(decision, **values)


def _first_gpus(_turn: Any, placed: d.GangPlaced) -> d.GangPlaced:
    seats = tuple(
        replace(seat, gpus=tuple(range(len(seat.gpus)))) if len(placed.seats) == 1 else seat
        for seat in placed.seats
    )
    return replace(placed, seats=seats)


def _one_gpu_less(_turn: Any, placed: d.GangPlaced) -> d.GangPlaced:
    first = placed.seats[0]
    if len(first.gpus) == 1:
        return placed
    return replace(placed, seats=(replace(first, gpus=first.gpus[:-1]), *placed.seats[1:]))


def _start_early(right: Any, turn: Any, fact: Any, body: Any) -> None:
    """The last member but one starts the gang."""
    right(turn, fact, body)
    job = turn.state.jobs.get(body.job)
    if job is not None and 0 < len(job.ready) == len(job.seats) - 1 and not job.started_ms:
        started = d.GangStarted(job=job.id, attempt=job.attempt, resumed_ms=job.saved_ms)
        turn.decide(started)


def _not_for(cause: d.StopCause) -> Callable[[Any, Any], Any]:
    return lambda _turn, decision: None if decision.cause is cause else decision


def _any_node_said_it(right: Any, turn: Any, fact: Any) -> None:
    if fact.event is not None and fact.topic == "nodes":
        actor = f"node:{fact.event.body.node}" if hasattr(fact.event.body, "node") else ""
        envelope = replace(fact.event.envelope, actor=actor or fact.event.envelope.actor)
        fact = fact._replace(event=replace(fact.event, envelope=envelope))
    right(turn, fact)


def _newest_first(right: Any, order: Any, job: Any) -> Any:
    *before, submitted_ms, number = right(order, job)
    return (*before, -submitted_ms, -number)


def _all_one_class(right: Any, order: Any, job: Any) -> Any:
    return (0, *right(order, job)[1:])


def _no_dependencies(_right: Any, _state: Any, job: Any) -> None:
    job.waiting_for = 0


def _never_free(right: Any, state: Any, name: str, gpus: int) -> None:
    if gpus > 0 or state.cell.next_number < 4:
        right(state, name, gpus)


def _run_at_once(right: Any, state: Any, node: str) -> Any:
    members = right(state, node)
    return tuple(
        replace(m, phase=MemberPhase.RUN) if m.phase is MemberPhase.PREPARE else m for m in members
    )


def _only_one(right: Any, state: Any, node: str) -> Any:
    return right(state, node)[:1]


def _stopping_is_over(right: Any, state: Any, node: str) -> Any:
    return tuple(m for m in right(state, node) if m.phase is not MemberPhase.STOP)


def _forgets_last(right: Any, state: Any) -> Any:
    *records, _last = list(right(state))
    return iter(records)


def _by_hardware(_right: Any, _job: Any) -> d.StopCause:
    return d.StopCause.INFRASTRUCTURE


MUTANTS: Final = (
    _wrong(
        name="double-booking",
        says="a gang on one node always gets the lowest GPUs, whoever holds them",
        breaks=deciding(d.GangPlaced, _first_gpus),
    ),
    _wrong(
        name="gang-too-small",
        says="a gang is placed with one GPU less than it asked for",
        breaks=deciding(d.GangPlaced, _one_gpu_less),
    ),
    _wrong(
        name="attempt-not-counted",
        says="every attempt has the number 1",
        breaks=deciding(d.GangPlaced, _with(attempt=1)),
    ),
    _wrong(
        name="start-without-the-last",
        says="a gang starts when all members but one are ready",
        breaks=instead(f"{CORE}.gangs:member_ready", _start_early),
    ),
    _wrong(
        name="resume-too-far",
        says="a gang goes on from a second of work that was never saved",
        breaks=deciding(
            d.GangStarted, lambda _turn, one: replace(one, resumed_ms=one.resumed_ms + 1_000)
        ),
    ),
    _wrong(
        name="resume-from-nothing",
        says="a gang starts from the beginning though it has saved",
        breaks=deciding(d.GangStarted, _with(resumed_ms=0, resume_step=0, resume_path="")),
    ),
    _wrong(
        name="checkpoints-ignored",
        says="nobody records that a checkpoint exists",
        breaks=never_deciding(d.CheckpointRecorded),
    ),
    _wrong(
        name="checkpoint-boasts",
        says="a checkpoint is recorded with a second more than it holds",
        breaks=deciding(
            d.CheckpointRecorded,
            lambda _turn, one: replace(one, productive_ms=one.productive_ms + 1_000),
        ),
    ),
    _wrong(
        name="fenced-forgotten",
        says="a lost node's GPUs are free though its old processes may run on",
        breaks=deciding(d.GangReleased, _with(lingering=())),
    ),
    _wrong(
        name="lingering-for-ever",
        says="what lingers on a node that is back stays there for ever",
        breaks=silenced(f"{CORE}.nodes:clear_lingering"),
    ),
    _wrong(
        name="lost-nodes-kept",
        says="a node that is silent for long is never given up",
        breaks=silenced(f"{CORE}.nodes:lost"),
    ),
    _wrong(
        name="deaf",
        says="that a silent node is heard again changes nothing",
        breaks=instead(
            f"{CORE}.nodes:edge",
            lambda right, turn, edge: right(turn, edge) if edge.kind == "silent" else None,
        ),
    ),
    _wrong(
        name="cancel-ignored",
        says="a running gang that is cancelled is not told to stop",
        breaks=deciding(d.GangStopping, _not_for(d.StopCause.CANCELLED)),
    ),
    _wrong(
        name="limit-ignored",
        says="nobody stops a job that is over its limit",
        breaks=deciding(d.GangStopping, _not_for(d.StopCause.LIMIT)),
    ),
    _wrong(
        name="hold-ignored",
        says="a job that somebody holds may start all the same",
        breaks=never_deciding(d.JobHeld),
    ),
    _wrong(
        name="priority-ignored",
        says="a job stays in its class whatever is asked",
        breaks=never_deciding(d.PriorityChanged),
    ),
    _wrong(
        name="endless-retries",
        says="a job's own failures cost it nothing",
        breaks=deciding(d.JobRequeued, _with(retries_used=0)),
    ),
    _wrong(
        name="machines-are-to-blame",
        says="what the program did counts as a failure of the machine",
        breaks=instead(f"{CORE}.gangs:_failure_cause", _by_hardware),
    ),
    _wrong(
        name="no-grace",
        says="victims have no time to save",
        breaks=deciding(d.GangPreempted, _with(grace_ms=0)),
    ),
    _wrong(
        name="young-victims",
        says="a gang that has just started is evicted like any other",
        breaks=answering(f"{CORE}.assumed:protected_until_ms", 0),
    ),
    _wrong(
        name="evicted-in-vain",
        says="the room that victims make is kept for nobody",
        breaks=deciding(
            d.ReservationPlanned, lambda _turn, one: None if one.kind == "claim" else one
        ),
    ),
    _wrong(
        name="everything-is-urgent",
        says="every claim evicts as if it were urgent",
        breaks=instead(
            f"{CORE}.submissions:accept",
            lambda right, turn, fact, job, spec, **more: right(
                turn, fact, job, replace(spec, job_class=JobClass.URGENT), **more
            ),
        ),
    ),
    _wrong(
        name="newest-first",
        says="of jobs that are alike the newest goes first",
        breaks=instead(f"{CORE}.order:Order.key", _newest_first),
    ),
    _wrong(
        name="classless",
        says="classes do not count in the queue",
        breaks=instead(f"{CORE}.order:Order.key", _all_one_class),
    ),
    _wrong(
        name="no-borrow-limit",
        says="a team may hold whatever is free",
        breaks=answering(f"{CORE}.quota:barrier", None),
    ),
    _wrong(
        name="use-never-falls",
        says="what a team lets go of stays on its bill",
        breaks=instead(f"{CORE}.state:State.use", _never_free),
    ),
    _wrong(
        name="dependencies-ignored",
        says="a job starts though what it waits for has not succeeded",
        breaks=instead(f"{CORE}.state:State.link_dependencies", _no_dependencies),
    ),
    _wrong(
        name="accepted-twice",
        says="a submission that arrives twice is two jobs",
        breaks=answering(f"{CORE}.submissions:is_taken", answer=False),
    ),
    _wrong(
        name="anybody-speaks-for-anybody",
        says="a node may state facts of another one",
        breaks=instead(f"{CORE}.step:take", _any_node_said_it),
    ),
    _wrong(
        name="never-says-never",
        says="a job that can never start is not refused",
        breaks=answering(f"{CORE}.fit:never_fits", None),
    ),
    _wrong(
        name="waits-for-ever-to-start",
        says="a start that not all are ready for is never called off",
        breaks=silenced(f"{CORE}.gangs:abort_start"),
    ),
    _wrong(
        name="no-reasons",
        says="nobody is told why a job waits",
        breaks=silenced(f"{CORE}.causes:record"),
    ),
    _wrong(
        name="broken-gpus-used",
        says="a GPU that is broken stays in use",
        breaks=never_deciding(d.GpuWithdrawn),
    ),
    _wrong(
        name="mended-gpus-lost",
        says="a GPU that is well again is never used",
        breaks=silenced(f"{CORE}.nodes:fault_cleared"),
    ),
    _wrong(
        name="no-second-phase",
        says="nodes are told to run a gang as soon as it has a place",
        breaks=instead(f"{CORE}.views:assigned_members", _run_at_once),
    ),
    _wrong(
        name="one-member-a-node",
        says="a node is told of its first member only",
        breaks=instead(f"{CORE}.views:assigned_members", _only_one),
    ),
    _wrong(
        name="stops-are-not-told",
        says="a node is not told of members that are to stop, so it fences them",
        breaks=instead(f"{CORE}.views:assigned_members", _stopping_is_over),
    ),
    _wrong(
        name="snapshot-without-its-end",
        says="a snapshot lacks the state's last record",
        breaks=instead(f"{CORE}.snapshot:dump", _forgets_last),
    ),
)
