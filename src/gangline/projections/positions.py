"""How far each view has come, and what some remember between runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import class_row, tuple_row

from gangline.events.log import Position, Topic
from gangline.events.named_sql import load_sql
from gangline.projections.steps import Link
from gangline.projections.work import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from gangline.projections.steps import Item, Steps

_SQL: Final = load_sql("gangline.projections", "positions.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPosition:
    """Where a view stands.

    next_offset: what to read next. problem: empty while it moves. generation: counts rebuilds.
    """

    view: str
    next_offset: int
    applied_offset: int
    seq: int
    term: int
    genesis: str
    digest: bytes
    as_of_ms: int
    problem: str
    generation: int

    @property
    def link(self) -> Link:
        """The end of the chain that the view contains."""
        return Link(genesis=self.genesis, term=self.term, seq=self.seq, digest=self.digest)


class Positions:
    """The positions of one cell's views, over one connection."""

    def __init__(self, connection: psycopg.Connection[Any], cell: str) -> None:
        self._connection = connection
        self._cell = cell

    def ensure(self, views: Sequence[str]) -> None:
        """Make the rows of views that have none."""
        self._run("ensure", views=list(views))

    def read(self, views: Sequence[str]) -> dict[str, ViewPosition]:
        """Where views stand, by name."""
        return self._rows("read", views)

    def lock(self, views: Sequence[str]) -> dict[str, ViewPosition]:
        """Where views stand, and nobody else moves them until the transaction ends."""
        return self._rows("lock", views)

    def move(self, view: str, done: Steps, skipped: Sequence[Item]) -> None:
        """A view contains these steps now."""
        last = done.steps[-1]
        self._run(
            "move",
            views=[view],
            next_offset=last.last + 1,
            applied_offset=last.last,
            seq=last.link.seq,
            term=last.link.term,
            genesis=last.link.genesis,
            digest=last.link.digest,
            as_of_ms=last.now_ms,
            appended_ms=last.appended_ms,
            inputs=as_json(done.inputs),
            skipped=len(skipped),
            skipped_position=position_of(skipped[-1].offset) if skipped else None,
        )

    def note_problem(
        self, views: Sequence[str], *, problem: str, position: str, now_ms: int
    ) -> None:
        """Say why views stand still."""
        self._run(
            "note_problem", views=list(views), problem=problem, position=position, now_ms=now_ms
        )

    def look(self, views: Sequence[str], *, head: int, read_to: int, now_ms: int) -> None:
        """Note how far the log goes. read_to: a view that stands there or later has read all."""
        self._run("look", views=list(views), head=head, read_to=read_to, now_ms=now_ms)

    def _run(self, statement: str, **parameters: object) -> None:
        self._connection.execute(_SQL[statement], {"cell": self._cell, **parameters})

    def _rows(self, statement: str, views: Sequence[str]) -> dict[str, ViewPosition]:
        with self._connection.cursor(row_factory=class_row(ViewPosition)) as cursor:
            cursor.execute(_SQL[statement], {"cell": self._cell, "views": list(views)})
            return {row.view: row for row in cursor}


class Memory:
    """What one view remembers beside its rows: JSON values by key."""

    def __init__(self, connection: psycopg.Connection[Any], *, cell: str, view: str) -> None:
        self._connection = connection
        self._names = {"cell": cell, "view": view}

    def load(self) -> dict[str, Any]:
        """All of it."""
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(_SQL["load_memory"], self._names)
            return dict(cursor.fetchall())

    def write(self, values: Mapping[str, Any], *, run: Callable[..., None]) -> None:
        """Change some by `run`; None forgets a key."""
        kept = {key: value for key, value in values.items() if value is not None}
        gone = [key for key, value in values.items() if value is None]
        if kept:
            run(_SQL["write_memory"], **self._names, values=as_json(kept))
        if gone:
            run(_SQL["forget"], **self._names, keys=gone)


def position_of(offset: int) -> str:
    """The public form of a place in `decisions`."""
    return str(Position(Topic.DECISIONS, 0, offset))
