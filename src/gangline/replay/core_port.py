"""The scheduler's core as those see it who drive it: the verbs of `gangline.scheduler.core`.

The state is opaque to drivers; only decisions change it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gangline.events.batch import AssignedMember, Edge
    from gangline.events.decisions import Decision, WaitCause
    from gangline.scheduler.core.inputs import Fact


State: TypeAlias = Any
"""What the core keeps; nobody else looks into it."""


class Step(NamedTuple):
    """One step of the core: what it was given and decided. digest: of the state after it."""

    facts: tuple[Fact, ...]
    edges: tuple[Edge, ...]
    now_ms: int
    caught_up: bool
    decisions: tuple[Decision, ...]
    digest: bytes


class TeamNumbers(Protocol):
    """GPUs of a team, and its jobs that wait."""

    @property
    def used(self) -> int:
        """GPUs held."""
        ...

    @property
    def guaranteed_used(self) -> int:
        """Those inside the guarantee."""
        ...

    @property
    def borrowed(self) -> int:
        """Those beyond it."""
        ...

    @property
    def lent(self) -> int:
        """Idle guarantee that others of the same parent hold."""
        ...

    @property
    def queued(self) -> int:
        """Jobs that wait."""
        ...


class FleetNumbers(Protocol):
    """GPUs of the fleet."""

    @property
    def held(self) -> int:
        """By gangs, from placement until out."""
        ...

    @property
    def free(self) -> int:
        """In service, neither held nor kept for somebody."""
        ...

    @property
    def unhealthy(self) -> int:
        """Bad ones, and all of nodes that are not well."""
        ...


class Core(Protocol):
    """The pure state machine: `gangline.scheduler.core`, or a test's own."""

    def new_state(self) -> State:
        """The state before anything happened."""
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
        """Decide; the state is changed by the decisions as they are made."""
        ...

    def fold(self, state: State, decisions: list[Decision], *, now_ms: int) -> None:
        """Apply recorded decisions."""
        ...

    def next_wake(self, state: State) -> int | None:
        """When time alone would matter next."""
        ...

    def state_digest(self, state: State) -> bytes:
        """The digest of the state."""
        ...

    def dump(self, state: State) -> Iterator[bytes]:
        """The state as records of a snapshot."""
        ...

    def load(self, chunks: Iterable[bytes]) -> State:
        """The state of a snapshot."""
        ...

    def assigned_members(self, state: State, node: str) -> tuple[AssignedMember, ...]:
        """What a node should run now."""
        ...

    def take_touched(self, state: State) -> tuple[str, ...]:
        """Nodes whose assignment changed since it was last asked."""
        ...

    def policy_value(self, state: State, key: str) -> int:
        """A number of the policy as it stands."""
        ...

    def team_numbers(self, state: State, team: str) -> TeamNumbers:
        """The GPUs of a team."""
        ...

    def fleet_numbers(self, state: State) -> FleetNumbers:
        """The GPUs of the fleet."""
        ...

    def explain(self, state: State, job: str, *, now_ms: int) -> tuple[WaitCause, str]:
        """Why a job waits, as a code and a text."""
        ...

    def job_state(self, state: State, job: str) -> str:
        """`queued`, `starting`, `running` or `preempting`; empty when unknown or ended."""
        ...
