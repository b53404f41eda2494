"""Build views anew from the log beside the live ones, and swap them in without downtime.

The new rows are written into the same tables in a schema of their own (`gangline_rebuild`) by the
same projector. When they have caught up, one transaction holds the live positions still, lets the
new rows go on to them, compares, puts the new rows in the place of the old, and moves the
positions. Readers see the old rows until it commits and the new ones afterwards; projectors that
run wait for it, and go on from the new positions. One cell's views can be rebuilt while others of
the database go on.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from gangline.events.named_sql import load_sql
from gangline.projections.migrations import SCHEMA, migrate
from gangline.projections.models import all_models
from gangline.projections.positions import Positions
from gangline.projections.projector import Pace, Session, connect
from gangline.projections.work import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gangline.events.log import Log
    from gangline.projections.positions import ViewPosition
    from gangline.projections.work import ReadModel

BESIDE: Final = "gangline_rebuild"
_SHARED: Final = ("view_position", "view_memory")
_PLACES: Final = {"decision": "applied_offset", "ledger_entry": "to_ms"}
_SQL: Final = load_sql("gangline.projections", "rebuild.sql")
_PACE: Final = Pace(poll_s=0.2, look_s=0.5, records=5000)


class RebuildError(Exception):
    """The views could not be built; the live ones are as they were. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What a rebuild did to one table.

    same: whether rows and their hash were equal at the same position; None where the old rows stood
    elsewhere.
    """

    view: str
    table: str
    rows_before: int
    rows_after: int
    same: bool | None


def rebuild(
    log: Log,
    dsn: str,
    cell: str,
    *,
    views: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[TableReport]:
    """Build views of a cell anew (None: all), and swap them in.

    progress: told the offset reached and the end of `decisions`. Raises RebuildError,
    ChainBrokenError.
    """
    models = _chosen(views)
    migrate(dsn)
    with connect(dsn, schema=SCHEMA) as live, _beside(live, models):
        Positions(live, cell).ensure([model.name for model in models])
        with Session(log, dsn, cell, models, pace=_PACE, schema=BESIDE) as session:
            _catch_up(session, until=None, progress=progress)
            with live.transaction():
                places = Positions(live, cell).lock([model.name for model in models])
                until = max(place.next_offset for place in places.values())
                _catch_up(session, until=until, progress=progress)
                return _swap(live, cell, models=models, before=places, at=session.next_offset)


def _chosen(views: Sequence[str] | None) -> list[ReadModel]:
    models = all_models()
    if views is None:
        return models
    unknown = sorted(set(views) - {model.name for model in models})
    if unknown:
        names = ", ".join(sorted(model.name for model in models))
        raise RebuildError(f"there is no view {', '.join(unknown)} to build; there are {names}")
    return [model for model in models if model.name in views]


@contextmanager
def _beside(live: psycopg.Connection[Any], models: Sequence[ReadModel]) -> Iterator[None]:
    """The schema for the new rows, as long as the block lasts."""
    row = live.execute(_SQL["lock"]).fetchone()
    if row is None or not row[0]:
        raise RebuildError("another rebuild runs in this database")
    live.execute(_SQL["drop_beside"])
    live.execute(_SQL["make_beside"])
    for table in (*_SHARED, *(table for model in models for table in model.tables)):
        live.execute(_of_table("make_table", table))
    yield
    live.execute(_SQL["drop_beside"])


def _catch_up(
    session: Session, *, until: int | None, progress: Callable[[int, int], None] | None
) -> None:
    """Read on to an offset, or to the end of the log as it is seen now."""
    while True:
        session.turn(0.2)
        stuck = session.stuck()
        if stuck:
            raise RebuildError(f"the new {stuck[0]} is stuck: {session.problem_of(stuck[0])}")
        end = session.end()
        if progress is not None:
            progress(session.next_offset, max(end, session.next_offset))
        if session.next_offset >= until if until is not None else session.look():
            return


def _swap(
    live: psycopg.Connection[Any],
    cell: str,
    *,
    models: Sequence[ReadModel],
    before: dict[str, ViewPosition],
    at: int,
) -> list[TableReport]:
    """Put the new rows in the place of the old ones."""
    reports = []
    for model in models:
        same_place = before[model.name].next_offset == at and not before[model.name].problem
        for table in model.tables:
            old = _measure(live, cell, schema=SCHEMA, table=table)
            new = _measure(live, cell, schema=BESIDE, table=table)
            live.execute(_of_table("clear", table), {"cell": cell})
            if table in PARTS:
                _make_parts(live, table)
            live.execute(_of_table("fill", table), {"cell": cell})
            reports.append(
                TableReport(
                    view=model.name,
                    table=table,
                    rows_before=old[0],
                    rows_after=new[0],
                    same=old == new if same_place else None,
                )
            )
    names = {"cell": cell, "views": [model.name for model in models]}
    for statement in ("clear_memory", "fill_memory", "move"):
        live.execute(_SQL[statement], names)
    return reports


def _make_parts(live: psycopg.Connection[Any], table: str) -> None:
    text: Any = _SQL["make_parts"].decode()
    column = sql.Identifier(_PLACES[table])
    statement = sql.SQL(text).format(column=column, table=sql.Identifier(table))
    live.execute(statement, {"parent": table, "size": PARTS[table]})


def _measure(
    live: psycopg.Connection[Any], cell: str, *, schema: str, table: str
) -> tuple[int, int]:
    found = live.execute(_of_table("measure", table, schema=schema), {"cell": cell})
    ((count, digest),) = found.fetchall()
    return int(count), int(digest)


def _of_table(statement: str, table: str, *, schema: str = SCHEMA) -> sql.Composed:
    # The text is this room's own file, and the names are its own tables'.
    text: Any = _SQL[statement].decode()
    return sql.SQL(text).format(table=sql.Identifier(table), schema=sql.Identifier(schema))
