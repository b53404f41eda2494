"""Coming up: what the journal remembers meets what the executor finds, both ways.

Order matters to the readers of `nodes`: what ended while nobody looked is stated first, then
NodeRegistered with what still runs, so that a member with a known exit is never taken for lost.
Then what stands is stated again; ids are the same as before, so a repeated fact is known as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gangline.agents.core.actions import State
from gangline.agents.core.cues import Found, Presence, Recovered
from gangline.agents.core.model import BEFORE_START, Exit, Key, Member, Move, Stage
from gangline.agents.core.turn import UNKILLABLE
from gangline.events.facts import NodeRegistered

if TYPE_CHECKING:
    from gangline.agents.core.turn import Turn

_REBOOTED: Final = Exit(code=0, reason="infrastructure", detail="the machine was booted meanwhile")
_VANISHED: Final = Exit(
    code=0, reason="infrastructure", detail="its processes were gone, and nothing said how"
)
_ABSENT: Final = Presence.ABSENT


@dataclass(frozen=True, slots=True)
class _Finding:
    """One member with what is left of it."""

    member: Member
    found: Found | None

    @property
    def presence(self) -> Presence:
        return Presence.ABSENT if self.found is None else self.found.presence


def recover(turn: Turn, cue: Recovered) -> None:
    """Take up again what was left."""
    rebooted = cue.boot_id != turn.state.boot_id and bool(turn.state.boot_id)
    findings = _match(turn, cue)
    gone = [finding for finding in findings if _is_over(finding, rebooted=rebooted)]
    for finding in gone:
        _settle(turn, finding, rebooted=rebooted)
    turn.state.boot_id = cue.boot_id
    turn.state.incarnation += 1
    if rebooted or not turn.state.heard_ms:
        turn.state.heard_ms = turn.now_ms
    _register(turn, cue)
    for gpu, kind in sorted(turn.state.faults, reverse=True):
        if rebooted and kind == UNKILLABLE:
            turn.clear(gpu, kind)
    for finding in findings:
        if finding not in gone:
            _take_up(turn, finding)


def _match(turn: Turn, cue: Recovered) -> list[_Finding]:
    """All members of the journal and all attempts found.

    Whoever the journal lacks is taken in as found.
    """
    found = {Key(one.order.job, one.order.attempt): one for one in cue.found}
    for key, one in found.items():
        if key not in turn.state.members and one.presence in (
            Presence.STARTING,
            Presence.RUNNING,
            Presence.LOST,
        ):
            turn.state.members[key] = Member(order=one.order, stage=Stage.STARTING)
    members = turn.state.members
    return [_Finding(members[key], found.get(key)) for key in sorted(members)]


def _is_over(finding: _Finding, *, rebooted: bool) -> bool:
    """Whether nothing of it can be running any more."""
    if finding.member.stage is Stage.GONE or rebooted:
        return True
    if finding.presence is Presence.ENDED:
        return True
    started_before = finding.member.live and finding.member.stage is not Stage.STARTING
    return finding.presence is _ABSENT and started_before


def _settle(turn: Turn, finding: _Finding, *, rebooted: bool) -> None:
    """State its last checkpoint and how it ended: by its own result if there is one."""
    member = finding.member
    _catch_up(turn, finding)
    if member.stage is Stage.GONE:
        turn.state_exited(member)
    elif finding.found is not None and finding.found.exit is not None:
        turn.end(member, finding.found.exit)
    else:
        turn.end(member, _REBOOTED if rebooted else _VANISHED)


def _catch_up(turn: Turn, finding: _Finding) -> None:
    """What its program did while nobody looked."""
    member, found = finding.member, finding.found
    if found is None or not member.live:
        return
    member.started_ms = member.started_ms or found.started_ms
    if found.saved is not None:
        turn.saved(member, found.saved)


def _take_up(turn: Turn, finding: _Finding) -> None:
    """Go on where it was."""
    member = finding.member
    if member.stage in BEFORE_START:
        if member.stage is not Stage.WAITING:
            member.move(Move.CHECK_AGAIN)
    elif finding.presence is Presence.LOST:
        turn.kill(member, verdict="infrastructure", detail="the supervisor of its processes died")
    elif finding.presence is Presence.ABSENT:
        turn.start(member)
    else:
        _adopt(turn, finding)


def _adopt(turn: Turn, finding: _Finding) -> None:
    """Its supervisor lives."""
    member, found = finding.member, finding.found
    if member.stage is Stage.STARTING and found and finding.presence is Presence.RUNNING:
        member.move(Move.RUN)
        member.started_ms = found.started_ms or turn.now_ms
    if member.stage is Stage.RUNNING:
        member.progress_ms = turn.now_ms
        turn.state_started(member)
        _catch_up(turn, finding)
    elif member.stage is Stage.STOPPING:
        turn.order_stop(member, cause=member.order.stop_cause)
    elif member.stage is Stage.KILLING:
        turn.kill(member)


def _register(turn: Turn, cue: Recovered) -> None:
    state = turn.state
    fact = NodeRegistered(
        node=state.node,
        boot_id=cue.boot_id,
        gpus=cue.gpus,
        address=cue.address,
        agent_version=cue.agent_version,
        path=cue.path,
        levels=cue.levels,
        labels=dict(cue.labels),
        running=state.running(),
    )
    turn.do(State(f"{state.node}/{cue.boot_id[:8]}/registered-{state.incarnation}", fact))
