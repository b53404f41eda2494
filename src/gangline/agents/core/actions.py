"""What the core asks for.

The runner carries it out in order: first what is stated, then, when the journal holds the new
state, all else.
"""

from __future__ import annotations

from dataclasses import dataclass

from gangline.agents.core.model import Key
from gangline.events.batch import AssignedMember
from gangline.events.facts import NodeFact


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Look whether a member could start here. port: the one to take if it is free, 0 for any."""

    order: AssignedMember
    port: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """Start a supervisor with the ranks of a member, if it has none."""

    order: AssignedMember


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Let an at-most-one writer run until then, whatever becomes of us; then it has its grace."""

    key: Key
    until_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Signal a member's processes and kill them at the deadline. Times: milliseconds since boot."""

    key: Key
    signal: str
    signal_ms: int
    deadline_ms: int
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill everything of a member until nothing is left."""

    key: Key


@dataclass(frozen=True, slots=True)
class Forget:
    """Nobody asks for this member any more; its files may go when they are old."""

    key: Key


@dataclass(frozen=True, slots=True)
class State:
    """State a fact. id: the same for the same fact, however often it is stated."""

    id: str
    fact: NodeFact


@dataclass(frozen=True, slots=True)
class Note:
    """Tell the operator, in the agent's own log."""

    text: str


Action = Check | Start | Lease | Stop | Kill | Forget | State | Note
