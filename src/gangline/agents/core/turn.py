"""One turn of the core.

The state, the time, what is to be done; and the moves that several cues share.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from gangline.agents.core.actions import (
    Action,
    Check,
    Forget,
    Kill,
    Lease,
    Note,
    Start,
    State,
    Stop,
)
from gangline.agents.core.model import BEFORE_START, Exit, Member, Move, NodeState, Stage
from gangline.events.batch import MemberPhase
from gangline.events.facts import (
    CheckpointSaved,
    FaultCleared,
    FaultDetected,
    MemberExited,
    MemberReady,
    MemberStarted,
    NodeFact,
)

if TYPE_CHECKING:
    from gangline.agents.core.cues import CheckpointSeen, Fault

HUNG_GRACE_MS: Final = 10_000
UNKILLABLE: Final = "unkillable"
NOT_STARTED: Final = Exit(code=0, reason="not_started")


@dataclass(slots=True)
class Turn:
    """What a cue is answered with is gathered in `actions`, in the order of doing."""

    state: NodeState
    now_ms: int
    actions: list[Action] = field(default_factory=list)

    def do(self, action: Action) -> None:
        """Ask for something."""
        self.actions.append(action)

    def note(self, text: str) -> None:
        """Tell the operator."""
        self.actions.append(Note(text))

    def state_of(self, member: Member, what: str, fact: NodeFact) -> None:
        """State a fact of a member; `what` makes its id."""
        key = member.key
        self.actions.append(State(f"{self.state.node}/{key.job}/{key.attempt}/{what}", fact))

    # --- before the start ------------------------------------------------------------------------

    def advance(self) -> None:
        """Whoever waited for GPUs or for the start, and may go on now, goes on."""
        for key in sorted(self.state.members):
            member = self.state.members[key]
            if member.stage not in BEFORE_START or self.state.blocked(member):
                continue
            if member.stage is Stage.WAITING:
                self.check(member)
            elif self._may_start(member):
                member.move(Move.START)
                self.start(member)

    def _may_start(self, member: Member) -> bool:
        """Whether it and its gang are ready, and a lease that it needs would not be over soon."""
        if member.stage is not Stage.READY or member.order.phase is not MemberPhase.RUN:
            return False
        heard_ago_ms = self.now_ms - self.state.heard_ms
        return not _needs_lease(member) or heard_ago_ms < self.state.lease_ms // 2

    def start(self, member: Member) -> None:
        """Ask for its supervisor."""
        if _needs_lease(member):
            self._lease(member)
        self.do(Start(member.order))

    def renew_leases(self) -> None:
        """Tell the supervisors of at-most-one writers that we were heard; not all the time."""
        state = self.state
        if state.heard_ms - state.renewed_ms < state.lease_ms // 10:
            return
        state.renewed_ms = state.heard_ms
        for key in sorted(state.members):
            if state.members[key].live and _needs_lease(state.members[key]):
                self._lease(state.members[key])

    def _lease(self, member: Member) -> None:
        state = self.state
        until_ms = state.heard_ms + state.lease_ms
        self.do(Lease(key=member.key, until_ms=until_ms, grace_ms=state.lease_grace_ms))

    def check(self, member: Member) -> None:
        """Look whether it could start; the first member on the port that the gang knows, if any.

        Nobody meets at the others' ports: theirs may be taken when the agent comes up again.
        """
        member.move(Move.CHECK)
        order = member.order
        known = (order.port or member.port) if order.member == 0 else 0
        self.do(Check(order=order, port=known))

    def state_ready(self, member: Member) -> None:
        """It could start at once."""
        fact = MemberReady(
            node=self.state.node,
            job=member.order.job,
            attempt=member.order.attempt,
            address=member.address,
            port=member.port,
        )
        self.state_of(member, f"ready-{member.port}", fact)

    def state_started(self, member: Member) -> None:
        """Its ranks run."""
        order = member.order
        fact = MemberStarted(node=self.state.node, job=order.job, attempt=order.attempt)
        self.state_of(member, "started", fact)

    def saved(self, member: Member, seen: CheckpointSeen) -> None:
        """The newest complete checkpoint counts.

        The time it holds is what was restored at the start plus what ran since, unless the
        program counts for itself.
        """
        if seen.step <= member.saved_step:
            return
        member.saved_step = seen.step
        member.progress_ms = max(member.progress_ms, seen.at_ms)
        productive = seen.productive_ms
        if productive is None:
            productive = member.order.resumed_ms + max(0, seen.at_ms - member.started_ms)
        fact = CheckpointSaved(
            node=self.state.node,
            job=member.order.job,
            attempt=member.order.attempt,
            step=seen.step,
            path=seen.path,
            productive_ms=productive,
        )
        self.state_of(member, f"saved-{seen.step}", fact)

    # --- the end ---------------------------------------------------------------------------------

    def stop(self, member: Member, *, grace_ms: int, cause: str) -> None:
        """Begin its grace; one that runs already only ever gets shorter."""
        deadline = self.now_ms + max(0, grace_ms)
        if member.stage is Stage.STOPPING:
            if deadline >= member.deadline_ms:
                return
        else:
            member.move(Move.STOP)
        member.deadline_ms = deadline
        self.order_stop(member, cause=cause)

    def order_stop(self, member: Member, *, cause: str) -> None:
        """Tell the supervisor; saying it again changes nothing."""
        launch = member.order.spec.launch
        latest = member.deadline_ms - launch.stop_lead_ms if launch.stop_lead_ms else self.now_ms
        self.do(
            Stop(
                key=member.key,
                signal=launch.stop_signal,
                signal_ms=max(self.now_ms, latest),
                deadline_ms=member.deadline_ms,
                cause=cause,
            )
        )

    def kill(self, member: Member, *, verdict: str = "", detail: str = "") -> None:
        """It is to be gone now, whatever it says."""
        member.verdict = member.verdict or verdict
        member.detail = member.detail or detail
        if member.stage is not Stage.KILLING:
            member.move(Move.KILL)
        self.do(Kill(member.key))

    def end(self, member: Member, how: Exit) -> None:
        """Nothing is left of it; a verdict of ours goes before what its processes say."""
        if member.verdict:
            how = replace(how, reason=member.verdict, detail=member.detail or how.detail)
        member.move(Move.END)
        member.exit = how
        self.state_exited(member)
        if not member.listed:
            self.forget(member)

    def forget(self, member: Member) -> None:
        """Nobody asks for it any more."""
        del self.state.members[member.key]
        self.do(Forget(member.key))

    def state_exited(self, member: Member) -> None:
        """How it ended."""
        if member.exit is None:
            return
        fact = MemberExited(
            node=self.state.node,
            job=member.order.job,
            attempt=member.order.attempt,
            code=member.exit.code,
            signal=member.exit.signal,
            reason=member.exit.reason,
            detail=member.exit.detail,
            failed_at_ms=member.exit.failed_at_ms,
        )
        self.state_of(member, "exited", fact)

    # --- hardware --------------------------------------------------------------------------------

    def fault(self, fault: Fault) -> None:
        """State a fault once, until it is cleared."""
        if (fault.gpu, fault.kind) not in self.state.faults:
            self._state_fault(fault.gpu, fault.kind, fault.detail)

    def _state_fault(self, gpu: int, kind: str, detail: str = "") -> None:
        number = self.state.faults[gpu, kind] = self._next_number()
        fact = FaultDetected(
            node=self.state.node, gpu=gpu, fault=kind, detail=detail, number=number
        )
        self.do(State(f"{self.state.node}/fault-{number}", fact))

    def clear(self, gpu: int, kind: str) -> None:
        """A fault is over; the GPU is well when it was the last one there, or of the machine.

        What else is wrong is stated again after the machine's, whose end is that of all its GPUs'.
        """
        del self.state.faults[gpu, kind]
        left = sorted(self.state.faults)
        if any(other in (gpu, -1) for other, _ in left):
            return
        number = self._next_number()
        fact = FaultCleared(node=self.state.node, gpu=gpu, number=number)
        self.do(State(f"{self.state.node}/cleared-{number}", fact))
        for other, its_kind in left if gpu < 0 else ():
            self._state_fault(other, its_kind)

    def _next_number(self) -> int:
        """One more than the last, or the time since the boot: who lost the journal counts on."""
        self.state.fault_number = max(self.state.fault_number + 1, self.now_ms)
        return self.state.fault_number


def _needs_lease(member: Member) -> bool:
    return member.order.spec.launch.at_most_one_writer
