"""The verb: one cue in, what is to be done out.

Level-triggered: a record says what should run, whole; whatever was missed before it does not
matter. Only a record of this cell with a higher (term, seq) changes anything, and no record's
absence stops anything. A member with processes that a newer record does not list is fenced:
somebody else may run it now, so it is killed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gangline.agents.core.actions import Action, Forget
from gangline.agents.core.cues import (
    Checked,
    CheckpointSeen,
    Cue,
    Diagnosed,
    Ended,
    Fault,
    Heard,
    Lost,
    Progressed,
    Recovered,
    SavingSeen,
    Started,
    Stuck,
    Tick,
    Told,
)
from gangline.agents.core.model import BEFORE_START, Exit, Key, Member, Move, NodeState, Stage
from gangline.agents.core.recovery import recover
from gangline.agents.core.timing import on_time
from gangline.agents.core.turn import NOT_STARTED, UNKILLABLE, Turn
from gangline.events.batch import AssignedMember, MemberPhase, NodeAssignment
from gangline.events.facts import CheckpointStarted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NEVER_PREPARED: Final = Exit(
    code=0, reason="infrastructure", detail="this node has no memory of having been ready for it"
)


def step(state: NodeState, cue: Cue, *, now_ms: int) -> list[Action]:
    """Take one cue; the state moves on, and what is to be done comes back, in order."""
    turn = Turn(state, now_ms)
    _HANDLERS[type(cue)](turn, cue)
    on_time(turn)
    turn.advance()
    return turn.actions


# --- what should run -----------------------------------------------------------------------------


def _told(turn: Turn, cue: Told) -> None:
    assignment = cue.assignment
    if not _counts(turn, assignment):
        return
    state = turn.state
    state.genesis, state.term, state.seq = assignment.genesis, assignment.term, assignment.seq
    listed = {Key(order.job, order.attempt): order for order in assignment.members}
    for key in sorted(state.members):
        if key not in listed:
            _fence(turn, state.members[key])
    for key in sorted(listed):
        _follow(turn, key, listed[key])


def _counts(turn: Turn, assignment: NodeAssignment) -> bool:
    """Whether it is ours, of this cell, and newer than all before."""
    state = turn.state
    if assignment.node != state.node:
        return False
    if state.genesis and assignment.genesis != state.genesis:
        turn.note(
            f"a record of another cell (genesis {assignment.genesis}, ours is {state.genesis}) "
            "was ignored; if the cell was made anew, give this agent a new folder"
        )
        return False
    return (assignment.term, assignment.seq) > (state.term, state.seq)


def _fence(turn: Turn, member: Member) -> None:
    """A newer record knows nothing of it."""
    member.listed = False
    if member.live:
        turn.kill(member, detail="fenced: a newer order does not list this attempt")
    elif member.stage is Stage.GONE:
        turn.forget(member)
    else:
        turn.end(member, NOT_STARTED)


def _follow(turn: Turn, key: Key, order: AssignedMember) -> None:
    """Take what the record says of one member."""
    member = turn.state.members.get(key)
    if member is None:
        _meet(turn, key, order)
        return
    member.order, member.listed = order, True
    if order.phase is MemberPhase.STOP:
        _obey_stop(turn, member)


def _meet(turn: Turn, key: Key, order: AssignedMember) -> None:
    """A member that was not known; only one that is to prepare may still start."""
    member = turn.state.members[key] = Member(order=order)
    if order.phase is MemberPhase.STOP:
        turn.end(member, NOT_STARTED)
    elif order.phase is MemberPhase.RUN:
        turn.end(member, _NEVER_PREPARED)


def _obey_stop(turn: Turn, member: Member) -> None:
    if member.stage is Stage.GONE:
        turn.state_exited(member)
    elif member.stage in BEFORE_START:
        turn.end(member, NOT_STARTED)
    elif member.stage is not Stage.KILLING:
        turn.stop(member, grace_ms=member.order.grace_ms, cause=member.order.stop_cause)


# --- what happened here --------------------------------------------------------------------------


def _checked(turn: Turn, cue: Checked) -> None:
    member = turn.state.members.get(cue.key)
    if member is None or member.stage is Stage.GONE:
        turn.do(Forget(cue.key))  # the port that was found for it
        return
    if member.stage is not Stage.CHECKING:
        return
    if cue.fault:
        turn.fault(Fault(cue.gpu, cue.fault, cue.problem))
    if cue.problem:
        turn.end(member, Exit(code=cue.code, reason=cue.reason, detail=cue.problem))
        return
    member.move(Move.PASS)
    member.address, member.port = cue.address, cue.port
    turn.state_ready(member)


def _started(turn: Turn, cue: Started) -> None:
    member = turn.state.members.get(cue.key)
    if member is None or member.stage is not Stage.STARTING:
        return
    member.move(Move.RUN)
    member.started_ms = member.progress_ms = turn.now_ms
    turn.state_started(member)


def _ended(turn: Turn, cue: Ended) -> None:
    member = turn.state.members.get(cue.key)
    if member is not None and member.live:
        turn.end(member, cue.exit)


def _lost(turn: Turn, cue: Lost) -> None:
    member = turn.state.members.get(cue.key)
    if member is not None and member.live:
        turn.kill(member, verdict="infrastructure", detail="the supervisor of its processes died")


def _stuck(turn: Turn, cue: Stuck) -> None:
    """The GPUs of a process that cannot be killed are nobody's; others on the node run on."""
    member = turn.state.members.get(cue.key)
    for gpu in member.order.gpus if member else ():
        turn.fault(Fault(gpu, UNKILLABLE, cue.detail))


def _saving(turn: Turn, cue: SavingSeen) -> None:
    member = turn.state.members.get(cue.key)
    if member is None or not member.live or cue.step <= member.saving_step:
        return
    member.saving_step = cue.step
    fact = CheckpointStarted(
        node=turn.state.node, job=cue.key.job, attempt=cue.key.attempt, step=cue.step
    )
    turn.state_of(member, f"saving-{cue.step}", fact)


def _saved(turn: Turn, cue: CheckpointSeen) -> None:
    member = turn.state.members.get(cue.key)
    if member is not None and member.live:
        turn.saved(member, cue)


def _progressed(turn: Turn, cue: Progressed) -> None:
    member = turn.state.members.get(cue.key)
    if member is not None:
        member.progress_ms = max(member.progress_ms, min(cue.at_ms, turn.now_ms))


def _diagnosed(turn: Turn, cue: Diagnosed) -> None:
    """What is new is stated, what is over is cleared.

    Unkillable processes are not for it to see.
    """
    for fault in sorted(cue.faults):
        turn.fault(fault)
    broken = {(fault.gpu, fault.kind) for fault in cue.faults}
    for gpu, kind in sorted(turn.state.faults.keys() - broken, reverse=True):
        if kind != UNKILLABLE:
            turn.clear(gpu, kind)


def _heard(turn: Turn, cue: Heard) -> None:
    """Its other side has heard us then, or later: a lease counts from then."""
    at_ms = turn.now_ms if cue.at_ms is None else min(cue.at_ms, turn.now_ms)
    turn.state.heard_ms = max(turn.state.heard_ms, at_ms)
    turn.renew_leases()


def _tick(_turn: Turn, _cue: Tick) -> None:
    """Time is looked at after every cue."""


def _recovered(turn: Turn, cue: Recovered) -> None:
    recover(turn, cue)


_HANDLERS: Final[Mapping[type, Callable[[Turn, Any], None]]] = {
    Told: _told,
    Checked: _checked,
    Started: _started,
    Ended: _ended,
    Lost: _lost,
    Stuck: _stuck,
    SavingSeen: _saving,
    CheckpointSeen: _saved,
    Progressed: _progressed,
    Diagnosed: _diagnosed,
    Heard: _heard,
    Tick: _tick,
    Recovered: _recovered,
}
