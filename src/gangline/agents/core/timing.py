"""What time alone brings about: a program that shows no progress, and a lease that ran out.

The end of a grace is not here: the supervisor of the attempt keeps it, so that it holds while the
agent is down. It keeps the lease too, as far as it was last renewed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.agents.core.model import Member, NodeState, Stage
from gangline.agents.core.turn import HUNG_GRACE_MS, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator


def on_time(turn: Turn) -> None:
    """Stop what hangs, and at-most-one writers that nobody can reach."""
    for key in sorted(turn.state.members):
        member = turn.state.members[key]
        if member.stage is not Stage.RUNNING:
            continue
        if (due := _hangs_at(member)) is not None and turn.now_ms >= due:
            member.verdict = "hung"
            member.detail = f"no progress for {turn.now_ms - member.progress_ms} ms"
            turn.stop(member, grace_ms=HUNG_GRACE_MS, cause="hung")
        elif (due := _lease_ends_at(turn.state, member)) is not None and turn.now_ms >= due:
            member.verdict = "infrastructure"
            member.detail = "the log did not hear us for the lease of an at-most-one writer"
            turn.stop(member, grace_ms=turn.state.lease_grace_ms, cause="lease")


def next_wake(state: NodeState) -> int | None:
    """When time alone would matter next, None for never."""
    return min(_dues(state), default=None)


def _dues(state: NodeState) -> Iterator[int]:
    for member in state.members.values():
        if member.stage is Stage.RUNNING:
            for due in (_hangs_at(member), _lease_ends_at(state, member)):
                if due is not None:
                    yield due


def _hangs_at(member: Member) -> int | None:
    timeout = member.order.spec.launch.progress_timeout_ms
    return None if timeout is None else member.progress_ms + timeout


def _lease_ends_at(state: NodeState, member: Member) -> int | None:
    return state.heard_ms + state.lease_ms if member.order.spec.launch.at_most_one_writer else None
