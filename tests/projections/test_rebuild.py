"""Views are built anew beside the live ones, and swapped in."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gangline.projections import rebuild as r
from gangline.projections.models import all_models
from gangline.projections.rebuild import RebuildError, rebuild
from tests.projections import story as s
from tests.projections.test_projector import (
    Projecting,
    Stumbling,
    contents,
    life_of,
    reached,
    wait_until,
)

if TYPE_CHECKING:
    from gangline.projections.queries import Views
    from tests.projections.conftest import Desk


def lives(desk: Desk, *numbers: int) -> None:
    """Jobs come, run and end."""
    for number in numbers:
        life_of(desk.story, f"j{number}", "n0", number=number)


def test_a_rebuild_of_sound_views_finds_the_same_rows(desk: Desk) -> None:
    """Counts and hashes are compared at the same position."""
    desk.story.step(s.node("n0"), s.team("vision"))
    lives(desk, 1, 2)
    desk.catch_up()
    before = contents(desk)

    reports = rebuild(desk.story.log, desk.dsn, "main")

    assert [report.table for report in reports if not report.same] == []
    assert len(reports) == len([table for model in all_models() for table in model.tables])
    assert contents(desk) == before
    assert desk.all("SELECT 1 FROM pg_namespace WHERE nspname = 'gangline_rebuild'") == []


def test_a_rebuild_mends_rows_that_are_wrong(desk: Desk) -> None:
    """And says which were."""
    desk.story.step(s.node("n0"), s.team("vision"))
    lives(desk, 1, 2)
    desk.catch_up()
    before = contents(desk)
    desk.execute("UPDATE job SET attempts = 99 WHERE job = 'j1'")
    desk.execute("DELETE FROM ledger_entry WHERE account = 'productive'")

    reports = rebuild(desk.story.log, desk.dsn, "main")

    assert {report.table for report in reports if not report.same} == {"job", "ledger_entry"}
    assert contents(desk) == before


def test_one_view_is_rebuilt_alone(desk: Desk) -> None:
    """The others are not touched."""
    desk.story.step(s.queued("a"))
    desk.catch_up()
    desk.execute("UPDATE job SET state = '?'")
    desk.execute("UPDATE waiting SET reason = '?'")

    reports = rebuild(desk.story.log, desk.dsn, "main", views=["jobs"])

    assert [report.view for report in reports] == ["jobs"]
    assert desk.one("SELECT state FROM job")["state"] == "queued"
    assert desk.one("SELECT reason FROM waiting")["reason"] == "?"


def test_a_rebuild_leaves_other_cells_alone(desk: Desk) -> None:
    """Their rows stand in the same tables."""
    desk.story.step(s.queued("a"))
    desk.catch_up()
    desk.cell = "other"
    desk.catch_up()
    desk.execute("UPDATE job SET state = '?'")

    rebuild(desk.story.log, desk.dsn, "other")

    rows = desk.all("SELECT cell, state FROM job ORDER BY cell")
    assert rows == [{"cell": "main", "state": "?"}, {"cell": "other", "state": "queued"}]


def test_a_stuck_view_is_well_after_a_rebuild(desk: Desk, views: Views) -> None:
    """Its old rows stood elsewhere, so nothing is said of their being equal."""
    desk.story.step(s.queued("bad"))
    desk.catch_up([Stumbling()])
    problem = views.lag()[0]["problem"]

    reports = rebuild(desk.story.log, desk.dsn, "main", views=["jobs"])

    assert problem is not None
    assert reports[0].same is None
    assert [row["problem"] for row in views.lag()] == [None]
    assert views.job("bad") is not None


def test_readers_and_the_projector_go_on_during_a_rebuild(desk: Desk) -> None:
    """Nobody ever sees fewer jobs than before, and nothing is counted twice."""
    desk.story.step(s.node("n0"), s.team("vision"))
    lives(desk, *range(1, 6))
    seen: list[int] = []
    stop = threading.Event()

    def read() -> None:
        with psycopg.connect(desk.dsn, autocommit=True) as connection:
            while not stop.is_set():
                row = connection.execute("SELECT count(*) FROM gangline.job").fetchone()
                assert row is not None
                seen.append(row[0])

    with Projecting(desk):
        wait_until(lambda: bool(desk.all("SELECT 1 FROM job WHERE job = 'j5'")))
        reader = threading.Thread(target=read)
        reader.start()
        for number in range(6, 10):
            lives(desk, number)
            rebuild(desk.story.log, desk.dsn, "main")
        end = desk.story.step(s.finished("nobody"))
        wait_until(lambda: reached(desk, end))
        stop.set()
        reader.join()

    assert seen == sorted(seen)
    assert seen[0] == 5
    ledger = desk.one("SELECT sum(gpu_ms) AS n FROM quota_ledger")["n"]
    assert ledger == 8 * (desk.story.now_ms - s.START_MS)
    assert desk.one("SELECT count(*) AS n FROM decision")["n"] == 9 * 5 + 3
    assert {row["generation"] for row in desk.all("SELECT generation FROM view_position")} == {4}


def test_a_view_that_cannot_be_built_leaves_the_live_one_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what is wrong with the new one."""
    desk.story.step(s.queued("bad"))
    desk.catch_up()
    monkeypatch.setattr(r, "all_models", lambda: [Stumbling()])

    with pytest.raises(RebuildError, match="the new jobs is stuck: ZeroDivisionError: a bug"):
        rebuild(desk.story.log, desk.dsn, "main")

    assert desk.one("SELECT state FROM job")["state"] == "queued"


def test_two_rebuilds_do_not_get_in_each_others_way(desk: Desk) -> None:
    """The second is told so at once."""
    with psycopg.connect(desk.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext('gangline_rebuild'))")

        with pytest.raises(RebuildError, match="another rebuild runs"):
            rebuild(desk.story.log, desk.dsn, "main")


def test_an_unknown_view_is_said_with_those_that_there_are(desk: Desk) -> None:
    """Before anything is done."""
    with pytest.raises(RebuildError, match=r"no view jbos to build; there are attempts, decisions"):
        rebuild(desk.story.log, desk.dsn, "main", views=["jbos"])


def test_progress_is_told(desk: Desk) -> None:
    """In offsets of decisions."""
    desk.story.step(s.queued("a"))
    told: list[tuple[int, int]] = []

    rebuild(desk.story.log, desk.dsn, "main", progress=lambda at, end: told.append((at, end)))

    assert told[-1] == (1, 1)


def test_a_projector_forgets_what_it_remembers_of_the_old_build(desk: Desk) -> None:
    """Its memory of the ledger may be what was wrong."""
    desk.story.step(s.node("n0"), s.team("vision"))
    models: list[Any] = all_models()
    desk.catch_up(models)
    ledger = next(model for model in models if model.name == "quota_ledger")
    ledger._state.books.capacity = 1000
    ledger._state.books.free = 1000
    rebuild(desk.story.log, desk.dsn, "main")

    desk.story.wait(h=1)
    desk.story.step(s.queued("a"))
    desk.catch_up(models)

    assert desk.one("SELECT sum(gpu_ms) AS n FROM quota_ledger")["n"] == 8 * 3_600_000
