"""A run of steps through the views of a lane, in one open transaction.

First each view loads what it needs; then, while the rows of one are on their way to the server, the
next one folds: writes wait for the server most of their time. A second thread does them, one view
after another, each in a savepoint of its own, so that a view that fails goes back alone.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gangline.projections.positions import Positions
    from gangline.projections.work import ReadModel, Work

# After a failover an old connection lives on and can only read; one that slept in a transaction was
# ended. Nothing of that says anything about a view.
CONNECTION_TROUBLE: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


class Part:
    """What a run of steps is for one view: nothing where the view has them already."""

    def __init__(self, model: ReadModel, work: Work) -> None:
        self.model = model
        self.work = work
        self._rest: Iterator[None] = iter(())

    @property
    def at(self) -> int:
        """The offset of the item at which it stands, else of the run's first record."""
        return self.work.at.offset if self.work.at else self.work.todo.steps[0].last

    def load(self) -> None:
        """Read the rows that it needs."""
        with self.work.connection.transaction():
            self._rest = self.model.apply(self.work)
            next(self._rest)

    def fold(self) -> None:
        """Fold the decisions; the connection may be another thread's meanwhile."""
        next(self._rest, None)

    def write(self, positions: Positions) -> None:
        """Write rows and position, all or nothing."""
        with self.work.connection.transaction():
            self.work.flush()
            positions.move(self.model.name, self.work.todo, self.work.skipped)


class Failure(NamedTuple):
    """A view that could not take the run, and why."""

    part: Part
    error: Exception


def take(parts: Sequence[Part], positions: Positions) -> list[Failure]:
    """Bring views past a run; those that could not, which stand where they were.

    Raises what says something of the connection only.
    """
    failed: list[Failure] = []
    loaded = [
        part for part in parts if part.work.todo.steps and _went_well(part, part.load, failed)
    ]
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="rows") as writer:
        writes = [
            (part, writer.submit(part.write, positions))
            for part in loaded
            if _went_well(part, part.fold, failed)
        ]
    for part, write in writes:
        _went_well(part, write.result, failed)
    return failed


def _went_well(part: Part, do: Callable[[], object], failed: list[Failure]) -> bool:
    """Whether a view did this; what it raised is noted."""
    try:
        do()
    except CONNECTION_TROUBLE:
        raise
    except Exception as error:  # noqa: BLE001 - it stops this view only
        failed.append(Failure(part, error))
        return False
    return True
