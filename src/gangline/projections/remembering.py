"""Read models that keep a state in memory, saved in pieces beside their rows.

The state is what the saved pieces say at the view's position. Where the position is not the one
that this process left (it just started, another projector moved the view, a transaction was
undone), the state is built again from the saved pieces.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from gangline.projections.positions import Memory
from gangline.projections.work import ReadModel, Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Saved(Protocol):
    """A state that can say what changed of it."""

    def take_changed(self) -> Mapping[str, Any]:
        """Pieces that changed since the last call; None for those gone."""
        ...


S = TypeVar("S", bound=Saved)


class RememberingModel(ReadModel, Generic[S]):
    """A read model with a state."""

    def __init__(self) -> None:
        self._state: S | None = None
        self._place: tuple[str, int, int] | None = None

    @abstractmethod
    def restore(self, work: Work, records: Mapping[str, Any]) -> S:
        """Build the state from saved pieces, or a new one from none."""

    @abstractmethod
    def fold(self, work: Work, state: S) -> None:
        """Fold the steps of `work` into the state and the tables."""

    def apply(self, work: Work) -> Iterator[None]:
        """Fold a run of steps, and save what changed of the state."""
        memory = Memory(work.connection, cell=work.cell, view=self.name)
        state, before = self._state, self._place
        # Whatever goes wrong from here on leaves a state that nobody may use.
        self._state = self._place = None
        if state is None or before != (work.cell, work.generation, work.next_offset):
            state = self.restore(work, memory.load())
        yield
        self.fold(work, state)
        memory.write(state.take_changed(), run=work.run_text)
        self._state = state
        self._place = (work.cell, work.generation, work.last.last + 1)
