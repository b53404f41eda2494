"""Histories that grow are kept in parts; nobody who reads or writes them has to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events.log import Topic
from gangline.projections.migrations import migrate
from gangline.projections.rebuild import rebuild
from gangline.projections.work import PARTS
from tests.projections import story as s
from tests.projections.conftest import Desk
from tests.projections.test_projector import life_of

if TYPE_CHECKING:
    from gangline.projections.queries import Views

MONTH_MS = PARTS["ledger_entry"]


def months(desk: Desk, count: int) -> None:
    """A job in each of so many months."""
    desk.story.step(s.node("n0"), s.team("vision"))
    for number in range(1, count + 1):
        life_of(desk.story, f"j{number}", "n0", number=number)
        desk.story.wait(s=MONTH_MS // 1000)
        desk.story.step(s.queued(f"w{number}", number=100 + number))


def parts(desk: Desk, table: str) -> list[str]:
    """The parts of a table that hold rows."""
    rows = desk.all("SELECT DISTINCT tableoid::regclass::text AS part FROM {}", table=table)
    return sorted(str(row["part"]) for row in rows)


def test_each_month_of_the_ledger_has_its_part(desk: Desk) -> None:
    """And what lies in it belongs there."""
    months(desk, 3)

    desk.catch_up()

    first = s.START_MS // MONTH_MS
    assert parts(desk, "ledger_entry") == [f"ledger_entry_{first + each}" for each in range(4)]
    assert parts(desk, "decision") == ["decision_0"]


def test_a_rebuild_makes_the_parts_that_it_needs(desk: Desk, views: Views) -> None:
    """Also where the live table had none of them."""
    months(desk, 3)
    desk.catch_up()
    before = desk.all("SELECT * FROM quota_ledger ORDER BY to_ms, team, account, gpu_ms")
    for part in parts(desk, "ledger_entry"):
        desk.execute("DROP TABLE {}", table=part)

    rebuild(desk.story.log, desk.dsn, desk.cell, views=["quota_ledger"])

    after = desk.all("SELECT * FROM quota_ledger ORDER BY to_ms, team, account, gpu_ms")
    assert after == before
    (end,) = desk.story.log.ends([Topic.DECISIONS]).values()
    assert all(row["lag_events"] == 0 for row in views.lag()), end


def test_what_stood_there_before_there_were_parts_goes_on(postgres_url: str) -> None:
    """Its rows stay where they are, and new ones come beside or behind them."""
    migrate(postgres_url, to="0005")
    desk = Desk(postgres_url)
    desk.execute(
        "INSERT INTO ledger_entry SELECT 'other', at_ms, at_ms + 1, 'a', 'lost', '', 1, 0"
        " FROM (VALUES (1800000000000)) AS moment (at_ms)"
    )
    desk.execute("INSERT INTO decision VALUES ('other', 0, 0, 0, 'X', NULL, NULL, NULL, '{{}}')")
    months(desk, 2)

    migrate(postgres_url)
    desk.catch_up()

    first = s.START_MS // MONTH_MS
    assert parts(desk, "ledger_entry") == [
        f"ledger_entry_{first + 1}",
        f"ledger_entry_{first + 2}",
        "ledger_entry_before",
    ]
    assert parts(desk, "decision") == ["decision_before"]
