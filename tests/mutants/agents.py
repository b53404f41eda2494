"""Wrong agents: what they obey, what they start and stop, what they state."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from gangline.agents.core import Exit, Start
from gangline.agents.core.model import Move
from tests.mutants.mutant import Mutant, answering, instead, silenced

CORE: Final = "gangline.agents.core"
_wrong = partial(Mutant, room="agent")


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


def _endless_grace(right: Any, turn: Any, member: Any, **more: Any) -> None:
    right(turn, member, **(more | {"grace_ms": 10**8}))


def _lists_nothing(right: Any, self: Any) -> Any:
    return right(self)[:0]


def _starts_when_ready(right: Any, turn: Any, member: Any) -> None:
    """It does not wait for the order to run."""
    right(turn, member)
    member.move(Move.START)
    turn.do(Start(member.order))


MUTANTS: Final = (
    _wrong(
        name="obeys-nobody",
        says="no record counts",
        breaks=answering(f"{CORE}.reconcile:_counts", answer=False),
    ),
    _wrong(
        name="fences-nobody",
        says="what a newer record does not list runs on",
        breaks=silenced(f"{CORE}.reconcile:_fence"),
    ),
    _wrong(
        name="starts-by-itself",
        says="a member starts as soon as it is ready, before all others are",
        breaks=instead(f"{CORE}.turn:Turn.state_ready", _starts_when_ready),
    ),
    _wrong(
        name="stop-ignored",
        says="a member that is told to stop runs on",
        breaks=silenced(f"{CORE}.reconcile:_obey_stop"),
    ),
    _wrong(
        name="says-out-too-early",
        says="a member counts as out when it is told to stop, while its processes run",
        breaks=instead(f"{CORE}.reconcile:_obey_stop", _stops_that_are_no_end),
    ),
    _wrong(
        name="endless-grace",
        says="a member has more than a day to stop",
        breaks=instead(f"{CORE}.turn:Turn.stop", _endless_grace),
    ),
    _wrong(
        name="exit-codes-lost",
        says="everything has ended well",
        breaks=instead(f"{CORE}.turn:Turn.end", _code_lost),
    ),
    _wrong(
        name="ends-not-stated",
        says="nobody is told that a member has ended",
        breaks=silenced(f"{CORE}.turn:Turn.state_exited"),
    ),
    _wrong(
        name="checkpoints-boast",
        says="a checkpoint is said to hold a second more than it does",
        breaks=instead(f"{CORE}.turn:Turn.saved", _boasts),
    ),
    _wrong(
        name="next-attempts-number",
        says="facts carry the number of the next attempt",
        breaks=instead(f"{CORE}.turn:Turn.state_of", _wrong_attempt),
    ),
    _wrong(
        name="comes-back-silently",
        says="what ended while the agent was down is not stated",
        breaks=silenced(f"{CORE}.recovery:_settle"),
    ),
    _wrong(
        name="disowns-its-members",
        says="an agent that comes up says that nothing runs",
        breaks=instead(f"{CORE}.model:NodeState.running", _lists_nothing),
    ),
    _wrong(
        name="faults-hidden",
        says="broken hardware is not stated",
        breaks=silenced(f"{CORE}.turn:Turn.fault"),
    ),
    _wrong(
        name="mended-not-stated",
        says="that a GPU is well again is not stated",
        breaks=silenced(f"{CORE}.turn:Turn.clear"),
    ),
)
