"""Wrong agents: what they obey, what they start and stop, what they state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gangline.agents.core import Exit, Start
from gangline.agents.core.model import Move
from tests.mutants.mutant import Mutant, answering, silenced

CORE: Final = "gangline.agents.core"


def _stops_that_are_no_end(right: Any, turn: Any, member: Any) -> None:
    """It says at once that it is out, and its processes run on through the grace."""
    live = member.live
    right(turn, member)
    if live:
        kept, member.exit = member.exit, Exit(code=143, reason="stopped")
        turn.state_exited(member)
        member.exit = kept


def _code_lost(right: Any, turn: Any, member: Any, how: Any) -> None:
    right(turn, member, replace(how, code=0, signal=0, reason="exited"))


def _boasts(right: Any, turn: Any, member: Any, seen: Any) -> None:
    more_ms = 1_000 if seen.productive_ms is None else seen.productive_ms + 1_000
    right(turn, member, replace(seen, productive_ms=more_ms))


def _wrong_attempt(right: Any, turn: Any, member: Any, what: str, fact: Any) -> None:
    if hasattr(fact, "attempt"):
        fact = replace(fact, attempt=fact.attempt + 1)
    right(turn, member, what, fact)


def _no_grace(right: Any, turn: Any, member: Any, *, grace_ms: int, cause: str) -> None:
    right(turn, member, grace_ms=grace_ms * 0 + 10**8, cause=cause)


def _lists_nothing(right: Any, self: Any) -> Any:
    return right(self)[:0]


def _starts_when_ready(right: Any, turn: Any, member: Any) -> None:
    """It does not wait for the order to run."""
    right(turn, member)
    member.move(Move.START)
    turn.do(Start(member.order))


MUTANTS: Final = (
    Mutant(
        name="obeys-nobody",
        room="agent",
        says="no record counts",
        breaks=answering(f"{CORE}.reconcile:_counts", answer=False),
    ),
    Mutant(
        name="fences-nobody",
        room="agent",
        says="what a newer record does not list runs on",
        breaks=silenced(f"{CORE}.reconcile:_fence"),
    ),
    Mutant(
        name="starts-by-itself",
        room="agent",
        says="a member starts as soon as it is ready, before all others are",
        breaks=lambda patch: patch.around(f"{CORE}.turn:Turn.state_ready", _starts_when_ready),
    ),
    Mutant(
        name="stop-ignored",
        room="agent",
        says="a member that is told to stop runs on",
        breaks=silenced(f"{CORE}.reconcile:_obey_stop"),
    ),
    Mutant(
        name="says-out-too-early",
        room="agent",
        says="a member counts as out when it is told to stop, while its processes run",
        breaks=lambda patch: patch.around(f"{CORE}.reconcile:_obey_stop", _stops_that_are_no_end),
    ),
    Mutant(
        name="endless-grace",
        room="agent",
        says="a member has more than a day to stop",
        breaks=lambda patch: patch.around(f"{CORE}.turn:Turn.stop", _no_grace),
    ),
    Mutant(
        name="exit-codes-lost",
        room="agent",
        says="everything has ended well",
        breaks=lambda patch: patch.around(f"{CORE}.turn:Turn.end", _code_lost),
    ),
    Mutant(
        name="ends-not-stated",
        room="agent",
        says="nobody is told that a member has ended",
        breaks=silenced(f"{CORE}.turn:Turn.state_exited"),
    ),
    Mutant(
        name="checkpoints-boast",
        room="agent",
        says="a checkpoint is said to hold a second more than it does",
        breaks=lambda patch: patch.around(f"{CORE}.turn:Turn.saved", _boasts),
    ),
    Mutant(
        name="next-attempts-number",
        room="agent",
        says="facts carry the number of the next attempt",
        breaks=lambda patch: patch.around(f"{CORE}.turn:Turn.state_of", _wrong_attempt),
    ),
    Mutant(
        name="comes-back-silently",
        room="agent",
        says="what ended while the agent was down is not stated",
        breaks=silenced(f"{CORE}.recovery:_settle"),
    ),
    Mutant(
        name="disowns-its-members",
        room="agent",
        says="an agent that comes up says that nothing runs",
        breaks=lambda patch: patch.around(f"{CORE}.model:NodeState.running", _lists_nothing),
    ),
    Mutant(
        name="faults-hidden",
        room="agent",
        says="broken hardware is not stated",
        breaks=silenced(f"{CORE}.turn:Turn.fault"),
    ),
    Mutant(
        name="mended-not-stated",
        room="agent",
        says="that a GPU is well again is not stated",
        breaks=silenced(f"{CORE}.turn:Turn.clear"),
    ),
)
