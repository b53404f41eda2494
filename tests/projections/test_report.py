"""What analysts read: questions of the page on them, the role, and comments everywhere."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from gangline.events import decisions as d
from gangline.projections.describe import describe
from tests.projections import story as s

if TYPE_CHECKING:
    from tests.projections.conftest import Desk

DOCS = Path(__file__).parents[2] / "docs"
DAY = date(2027, 1, 15)


def ask(desk: Desk, question: str) -> list[tuple[object, ...]]:
    """Run a question of docs/analysts.md as an analyst would: in the role that only reads."""
    page = (DOCS / "analysts.md").read_text(encoding="utf-8")
    found = re.search(rf"```sql\n-- question: {question}\n(.*?)```", page, re.DOTALL)
    assert found is not None
    with psycopg.connect(desk.dsn) as connection:
        connection.execute("SET ROLE gangline_report")
        return connection.execute(found[1].encode()).fetchall()


@pytest.fixture
def busy(desk: Desk) -> Desk:
    """Two teams, one of which borrows; an hour of work, half of it saved; a job that waits."""
    story = desk.story
    story.step(s.node("n0"), s.team("vision", guaranteed=4), s.team("speech", guaranteed=4))
    story.step(s.queued("a"), s.waits("a"), s.queued("b", number=2, of=s.spec("speech")))
    story.wait(s=360)
    story.step(s.placed("a", "n0"), s.started("a"), s.waits("b"))
    story.wait(h=0.5)
    story.step(s.saved("a", productive_ms=1_800_000))
    story.wait(h=0.5)
    lost = 8 * 1_800_000
    story.step(
        s.released(
            "a", cause=d.StopCause.INFRASTRUCTURE, lost_gpu_ms=lost, productive_ms=1_800_000
        ),
        s.finished("a", d.Outcome.CANCELLED),
    )
    desk.catch_up()
    return desk


def test_where_the_hours_went(busy: Desk) -> None:
    """Six minutes of an idle fleet, then an hour of work of which half was lost."""
    rows = ask(busy, "hours")

    assert rows == [
        (DAY, "vision", "lost", Decimal("4.00"), Decimal("45.5")),
        (DAY, "vision", "productive", Decimal("4.00"), Decimal("45.5")),
        (DAY, "speech", "idle_lendable", Decimal("0.40"), Decimal("4.5")),
        (DAY, "vision", "idle_lendable", Decimal("0.40"), Decimal("4.5")),
    ]


def test_who_lends_to_whom(busy: Desk) -> None:
    """Half of the eight GPUs were the other team's."""
    rows = ask(busy, "loans")

    assert [row[:3] for row in rows] == [("speech", "vision", Decimal("4.00"))]


def test_why_jobs_wait(busy: Desk) -> None:
    """One job waited six minutes; the other still does."""
    rows = ask(busy, "waits")

    assert rows == [
        ("8-127", 1, 360.0, 360.0, "capacity", 3960.0, Decimal("91.7")),
        ("8-127", 1, 360.0, 360.0, "deciding", 360.0, Decimal("8.3")),
    ]


def test_the_role_reads_reports_and_nothing_else(busy: Desk) -> None:
    """No tables, no memory, no changes."""
    with psycopg.connect(busy.dsn, autocommit=True) as connection:
        connection.execute("SET ROLE gangline_report")
        for statement in (
            b"SELECT * FROM gangline.job",
            b"SELECT * FROM gangline.view_memory",
            b"DELETE FROM gangline.job",
            b"CREATE TABLE report.mine (x int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        count = connection.execute("SELECT count(*) FROM report.job").fetchone()

    assert count == (2,)


def test_every_row_says_as_of_when_it_is(busy: Desk) -> None:
    """And up to which position."""
    lacking = busy.all(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'report'"
        " GROUP BY table_name HAVING count(*) FILTER"
        " (WHERE column_name IN ('as_of', 'as_of_position')) < 2"
    )
    row = busy.one("SELECT DISTINCT as_of_position FROM report.job")

    assert lacking == []
    assert row["as_of_position"] == "decisions-0-4"


def test_every_view_and_column_has_a_comment(desk: Desk) -> None:
    """With its unit; the page on views is made of them."""
    missing = desk.all(
        "SELECT c.relname, a.attname FROM pg_attribute AS a"
        " JOIN pg_class AS c ON c.oid = a.attrelid"
        " WHERE c.relnamespace::regnamespace::text IN ('gangline', 'report') AND c.relkind = 'v'"
        " AND a.attnum > 0 AND (col_description(c.oid, a.attnum) IS NULL"
        " OR obj_description(c.oid) IS NULL)"
    )

    assert missing == []


def test_the_page_on_views_is_what_the_database_says(desk: Desk) -> None:
    """`python -m gangline.projections.describe DSN > docs/views.md` makes it anew."""
    with psycopg.connect(desk.dsn) as connection:
        page = describe(connection)

    assert (DOCS / "views.md").read_text(encoding="utf-8") == page


CONTRACT = {
    "queue": "job team class gpus position submitted_at reason reason_text"
    " estimated_start_p50 estimated_start_p90",
    "jobs": "job team class gpus state submitted_at started_at ended_at attempts preemptions"
    " wait_s lost_gpu_s",
    "attempts": "job attempt",
    "teams": "team parent guaranteed used guaranteed_used borrowed lent queued",
    "quota_ledger": "from_at to_at team account counterparty gpu_ms",
    "utilization": "from_at to_at account gpu_ms",
    "waits": "band cause",
    "fairness": "team window_s delivered_gpu_hours entitled_gpu_hours error",
    "nodes": "node",
    "faults": "node",
    "decisions": "position at kind job node detail",
    "projection": "view position lag_events lag_s",
}


@pytest.mark.parametrize("view", CONTRACT)
def test_views_have_the_names_and_columns_that_others_rely_on(desk: Desk, view: str) -> None:
    """More columns are welcome; these stay, and every row names its cell."""
    rows = desk.all(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = 'gangline' AND table_name = %s",
        view,
    )
    columns = {row["column_name"] for row in rows}

    assert {"cell", *CONTRACT[view].split()} - columns == set()
