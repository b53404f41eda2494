"""What the driver is given from outside: the core, the machine's clocks, and a probe for tests.

The driver decides nothing. It hands facts and edges to the core, writes down what the core
answers, and asks it for the few things that it must know. The core is a module; the protocol below
is what the driver uses of it.
"""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gangline.events.batch import AssignedMember, Edge
    from gangline.events.decisions import Decision
    from gangline.scheduler.core.inputs import Fact

State = Any
"""The core's state: the driver carries it and never looks inside."""


class Core(Protocol):
    """What the driver uses of `gangline.scheduler.core`; tests may give a smaller one."""

    @property
    def LOGIC_VERSION(self) -> int:  # noqa: N802 - a module's constant
        """Which core decides."""
        ...

    def new_state(self) -> State:
        """The state of a cell before its first decision."""
        ...

    def step(
        self,
        state: State,
        facts: Sequence[Fact],
        *,
        edges: Sequence[Edge],
        now_ms: int,
        caught_up: bool,
    ) -> list[Decision]:
        """The decisions that facts, edges and the time call for, already applied to the state."""
        ...

    def fold(self, state: State, decisions: list[Decision], *, now_ms: int) -> None:
        """Apply recorded decisions; equal to what `step` did when it made them."""
        ...

    def next_wake(self, state: State) -> int | None:
        """When time alone would matter next, in milliseconds; None for never."""
        ...

    def state_digest(self, state: State) -> bytes:
        """Digest of the whole state; asked once after each step or fold."""
        ...

    def dump(self, state: State) -> Iterator[bytes]:
        """The state as records, for a snapshot."""
        ...

    def load(self, chunks: Iterable[bytes]) -> State:
        """The state of such records."""
        ...

    def assigned_members(self, state: State, node: str) -> tuple[AssignedMember, ...]:
        """What a node should run now."""
        ...

    def take_touched(self, state: State) -> tuple[str, ...]:
        """The nodes whose assignment changed since this was last asked, in order."""
        ...

    def policy_value(self, state: State, key: str) -> int:
        """A number of the policy: milliseconds or a count."""
        ...


class Machine(Protocol):
    """The clocks of the machine that a scheduler runs on."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as far as the machine knows; it may step."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment; never goes back, and goes on while the machine sleeps."""
        ...


class SystemMachine:
    """The real clocks."""

    def wall_ms(self) -> int:
        """The wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Time since boot; on Linux by the clock that also counts a laptop's sleep."""
        clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(clock) // 1_000_000


class Point(StrEnum):
    """The moments at which a scheduler may die differently; tests kill it at each of them."""

    TAKEOVER_BEGUN = "takeover_begun"
    WRITER_OPENED = "writer_opened"
    DECISIONS_READ = "decisions_read"
    ASSIGNMENTS_REPUBLISHED = "assignments_republished"
    BEATS_OPENED = "beats_opened"
    INPUTS_OPENED = "inputs_opened"
    FACTS_TAKEN = "facts_taken"
    STEPPED = "stepped"
    BATCH_BUILT = "batch_built"
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"
    SETTLED = "settled"
    BEFORE_BEAT = "before_beat"
    AFTER_BEAT = "after_beat"
    HANDING_OVER = "handing_over"
    HANDED_OVER = "handed_over"
    SNAPSHOT_BEGUN = "snapshot_begun"
    SNAPSHOT_CHUNK = "snapshot_chunk"
    SNAPSHOT_VERIFIED = "snapshot_verified"
    SNAPSHOT_POINTED = "snapshot_pointed"


class Probe(Protocol):
    """Told when a scheduler passes a point; what it raises ends the scheduler there."""

    def __call__(self, point: Point, /) -> None:
        """Pass a point."""
        ...


def no_probe(point: Point) -> None:
    """Nobody watches."""
