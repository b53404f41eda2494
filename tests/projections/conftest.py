"""Fixtures of the views' tests: a migrated database, and views brought up to date by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row

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
        with Session(self.story.log, self.dsn, self.cell, chosen, pace=pace) as session:
            for _ in range(200):
                session.turn(0.0)
                if session.look() or all(lane.stuck for lane in session.lanes):
                    return
        raise AssertionError("the views did not catch up")

    def all(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Rows of a query, with the schema of the views in front."""
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            connection.execute("SET search_path TO gangline")
            return connection.execute(query.encode(), parameters).fetchall()

    def one(self, query: str, *parameters: object) -> dict[str, Any]:
        """The only row of a query."""
        (row,) = self.all(query, *parameters)
        return row

    def execute(self, statement: str) -> None:
        """Change the database behind the projector's back."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("SET search_path TO gangline")
            connection.execute(statement.encode())


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
