"""Every question of the API is answered from an index, also at a million jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import tuple_row

from gangline.projections import bench_ask, page_queries, queries
from gangline.projections.migrations import migrate
from gangline.projections.page_queries import PageViews
from tests.support.postgres import _with_database

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = int(os.environ.get("GANGLINE_TEST_ROWS", "1000000"))
BIG = {
    "attempt",
    "decision",
    "fault",
    "job",
    "ledger_entry",
    "share_bucket",
    "usage_bucket",
    "wait",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def big(postgres_server: str) -> Iterator[str]:
    """A database with a million jobs, and a quarter as many attempts, waits, decisions, entries."""
    name = sql.Identifier(f"big_{os.getpid()}")
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
    url = _with_database(postgres_server, f"big_{os.getpid()}")
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path TO gangline")
        bench_ask.fill(connection, ROWS, cell="main")
    yield url
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


class Explaining(PageViews):
    """Views that keep the plan of each question instead of its answer."""

    def __init__(self, dsn: str, cell: str) -> None:
        super().__init__(dsn, cell, connections=1)
        self.plans: list[dict[str, Any]] = []
        self.asked: set[bytes] = set()

    def ask(self, text: bytes, /, **parameters: object) -> list[dict[str, Any]]:
        """The plan of a statement is kept, and nothing is found."""
        self.asked.add(text)
        self._pool.open()
        with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=tuple_row)
            cursor.execute(
                b"EXPLAIN (ANALYZE, FORMAT JSON) " + text, {"cell": self.cell, **parameters}
            )
            ((plan,),) = cursor.fetchall()
        self.plans.append(plan[0]["Plan"])
        return []


def scanned_whole(plan: dict[str, Any]) -> set[str]:
    """The big tables that a plan reads from end to end."""
    found = {_table(plan["Relation Name"])} if plan["Node Type"] == "Seq Scan" else set()
    for part in plan.get("Plans", ()):
        found |= scanned_whole(part)
    return found & BIG


def thrown_away(plan: dict[str, Any]) -> float:
    """Rows that a plan reads and does not want."""
    mine = plan.get("Rows Removed by Filter", 0) * plan["Actual Loops"]
    return float(mine + sum(map(thrown_away, plan.get("Plans", ()))))


def _table(name: str) -> str:
    """The table that a part belongs to."""
    return name.rstrip("0123456789").rstrip("_")


QUESTIONS = bench_ask.questions(ROWS)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_reads_a_big_table_from_end_to_end(big: str, question: str) -> None:
    """Each has an index that fits it, and reads little that it does not want."""
    views = Explaining(big, "main")

    QUESTIONS[question](views)
    views.close()

    assert views.plans
    assert [scanned_whole(plan) for plan in views.plans] == [set()] * len(views.plans)
    assert sum(map(thrown_away, views.plans)) <= ROWS / 50


def test_every_question_is_asked(big: str) -> None:
    """None of the API and none of the page is left out of the ones above."""
    views = Explaining(big, "main")
    for question in QUESTIONS.values():
        question(views)
    views.close()

    assert views.asked == {*queries._SQL.values(), *page_queries._SQL.values()}
