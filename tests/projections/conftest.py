"""Fixtures of the views' tests: a migrated database, and views brought up to date by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from gangline.events.log import Topic
from gangline.projections.migrations import migrate
from gangline.projections.models import all_models
from gangline.projections.projector import Pace, Session
from gangline.projections.queries import Views
from tests.projections.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gangline.projections.work import ReadModel

PACE = Pace(poll_s=0.0, look_s=0.0, retry_s=0.0, retry_most_s=0.0)


@dataclass(slots=True)
class Desk:
    """A log, its story, and the views of it."""

    dsn: str
    story: Story = field(default_factory=Story)
    cell: str = "main"

    def catch_up(self, models: Sequence[ReadModel] | None = None, *, pace: Pace = PACE) -> None:
        """Project everything that is in the log; views that are stuck stay so."""
        chosen = all_models() if models is None else models
        (end,) = self.story.log.ends([Topic.DECISIONS]).values()
        with Session(self.story.log, self.dsn, self.cell, chosen, pace=pace) as session:
            for _ in range(2000):
                session.turn(0.0)
                if all(lane.tries > 1 or lane.next_offset >= end for lane in session.lanes):
                    session.look()
                    return
        raise AssertionError("the views did not catch up")

    def read_parts(self) -> None:
        """Give the projector what is there, though a step may not be whole."""
        with Session(self.story.log, self.dsn, self.cell, all_models(), pace=PACE) as session:
            for _ in range(5):
                session.turn(0.0)

    def all(self, query: str, *parameters: object, table: str = "") -> list[dict[str, Any]]:
        """Rows of a query, with the schema of the views in front. table: for `{}`."""
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            connection.execute("SET search_path TO gangline")
            return connection.execute(_with_table(query, table), parameters).fetchall()

    def one(self, query: str, *parameters: object) -> dict[str, Any]:
        """The only row of a query."""
        (row,) = self.all(query, *parameters)
        return row

    def execute(self, statement: str, *, table: str = "") -> None:
        """Change the database behind the projector's back. table: for `{}`."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET search_path TO gangline")
            connection.execute(_with_table(statement, table))


def _with_table(statement: str, table: str) -> sql.Composed:
    # The statements are the tests' own.
    return sql.SQL(statement).format(sql.Identifier(table))


@pytest.fixture
def desk(postgres_url: str) -> Desk:
    """A fresh story and a migrated, empty database."""
    migrate(postgres_url)
    return Desk(postgres_url)


@pytest.fixture
def views(desk: Desk) -> Iterator[Views]:
    """What the API reads, on the same database."""
    reader = Views(desk.dsn, desk.cell, connections=2)
    yield reader
    reader.close()
