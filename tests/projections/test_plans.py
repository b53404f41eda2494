"""Every question of the API is answered from an index, also at a million jobs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import tuple_row

from gangline.events.log import Position
from gangline.events.named_sql import parse_sql
from gangline.projections import queries
from gangline.projections.migrations import migrate
from gangline.projections.queries import Views
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
LAST_MS = 1_800_000_000_000 + ROWS // 4 * 45_000
JOBS_LAST_MS = 1_800_000_000_000 + ROWS * 45_000
DAY_MS = 86_400_000
FILL = parse_sql(Path(__file__).with_name("big.sql").read_bytes())

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
        for statement in FILL.values():
            connection.execute(statement, {"rows": ROWS})
    yield url
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


class Explaining(Views):
    """Views that keep the plan of each question instead of its answer."""

    def __init__(self, dsn: str, cell: str) -> None:
        super().__init__(dsn, cell, connections=1)
        self.plans: list[dict[str, Any]] = []
        self.asked: set[str] = set()

    def _all(self, statement: str, **parameters: object) -> list[dict[str, Any]]:
        self.asked.add(statement)
        question = b"EXPLAIN (FORMAT JSON) " + queries._SQL[statement]
        self._pool.open()
        with self._pool.connection() as connection:
            cursor = connection.cursor(row_factory=tuple_row)
            cursor.execute(question, {"cell": self.cell, **parameters})
            ((plan,),) = cursor.fetchall()
        self.plans.append(plan[0]["Plan"])
        return []


def scanned_whole(plan: dict[str, Any]) -> set[str]:
    """The big tables that a plan reads from end to end."""
    found = {_table(plan["Relation Name"])} if plan["Node Type"] == "Seq Scan" else set()
    for part in plan.get("Plans", ()):
        found |= scanned_whole(part)
    return found & BIG


def _table(name: str) -> str:
    """The table that a part belongs to."""
    return name.rstrip("0123456789").rstrip("_")


QUESTIONS: dict[str, Any] = {
    "job": lambda v: v.job("job-77"),
    "jobs": lambda v: v.rows("jobs"),
    "jobs, later page": lambda v: v.rows("jobs", after=f"{LAST_MS // 2}:job-9"),
    "jobs by team": lambda v: v.rows("jobs", where={"team": "team-3"}),
    "jobs by state": lambda v: v.rows("jobs", where={"state": "running"}),
    "jobs by team and state": lambda v: v.rows("jobs", where={"team": "team-3", "state": "failed"}),
    "jobs of an array": lambda v: v.rows("jobs", where={"array_of": "a"}),
    "attempts": lambda v: v.rows("attempts", where={"job": "job-77"}),
    "queue": lambda v: v.rows("queue"),
    "faults": lambda v: v.rows("faults"),
    "faults of a node": lambda v: v.rows("faults", where={"node": "node-7"}),
    "waits": lambda v: v.rows("waits"),
    "fairness": lambda v: v.rows("fairness"),
    "decisions": lambda v: v.decisions(),
    "decisions, resumed": lambda v: v.decisions(after=f"decisions-0-{ROWS // 8}"),
    "decisions of a job": lambda v: v.decisions(job="job-77"),
    "decisions of a node": lambda v: v.decisions(node="node-7"),
    "decisions of a kind": lambda v: v.decisions(kind="GangPlaced"),
    "end": lambda v: v.end(),
    "events of a job": lambda v: v.job_events("job-77"),
    "ledger of a day": lambda v: v.ledger(from_ms=LAST_MS - DAY_MS, to_ms=LAST_MS),
    "ledger of a team": lambda v: v.ledger(from_ms=LAST_MS - DAY_MS, to_ms=LAST_MS, team="team-3"),
    "utilization": lambda v: v.utilization(from_ms=LAST_MS - DAY_MS, to_ms=LAST_MS),
    "wait bands": lambda v: v.wait_bands(since_ms=JOBS_LAST_MS - 7 * DAY_MS),
    "numbers": lambda v: v.numbers(),
    "lag": lambda v: v.lag(),
    "nodes": lambda v: v.rows("nodes"),
    "jobs by class": lambda v: v.rows("jobs", where={"class": "high"}),
    "queue by reason": lambda v: v.rows("queue", where={"reason": "capacity"}),
    "fleet": lambda v: v.fleet(),
    "read your writes": lambda v: v.contains(Position.parse("jobs-0-17")),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_reads_a_big_table_from_end_to_end(big: str, question: str) -> None:
    """Each has an index that fits it."""
    views = Explaining(big, "main")

    QUESTIONS[question](views)
    views.close()

    assert views.plans
    assert [scanned_whole(plan) for plan in views.plans] == [set()] * len(views.plans)


def test_every_question_is_asked(big: str) -> None:
    """None is left out of the ones above."""
    views = Explaining(big, "main")
    for question in QUESTIONS.values():
        question(views)
    views.close()

    assert views.asked == set(queries._SQL)
