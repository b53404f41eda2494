"""Migrations: from nothing to the newest step, by whoever comes first."""

from __future__ import annotations

import threading
from importlib import resources

import psycopg
import pytest

from gangline.projections.migrations import migrate
from gangline.projections.models import all_models


def tables_of(dsn: str) -> set[str]:
    """The tables in schema gangline."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT relname FROM pg_class"
            " WHERE relnamespace = 'gangline'::regnamespace AND relkind IN ('r', 'p')"
            " AND NOT relispartition"
        )
        return {row[0] for row in found}


def test_several_processes_may_migrate_at_once(postgres_url: str) -> None:
    """One does it, the others find it done."""
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            migrate(postgres_url)
        except BaseException as error:  # noqa: BLE001 - whatever it is
            failed.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert "job" in tables_of(postgres_url)


def test_migrating_again_keeps_all_rows(postgres_url: str) -> None:
    """There is nothing to do."""
    migrate(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("INSERT INTO gangline.view_position (cell, view) VALUES ('main', 'x')")

    migrate(postgres_url)

    with psycopg.connect(postgres_url) as connection:
        count = connection.execute("SELECT count(*) FROM gangline.view_position").fetchone()
    assert count == (1,)


def test_a_database_goes_through_every_step(postgres_url: str) -> None:
    """Each step has its SQL beside it, and the newest leaves nothing out."""
    versions = resources.files("gangline.projections.migrations").joinpath("versions")
    names = sorted(entry.name for entry in versions.iterdir() if entry.name.endswith(".sql"))
    for name in names:
        migrate(postgres_url, to=name[:4])

    with psycopg.connect(postgres_url) as connection:
        step = connection.execute("SELECT version_num FROM gangline.alembic_version").fetchone()
    assert step == (names[-1][:4],)


def test_the_tables_are_those_that_the_read_models_write(postgres_url: str) -> None:
    """So that a rebuild builds all, and nothing lies about that nobody fills."""
    migrate(postgres_url)
    written = {table for model in all_models() for table in model.tables}

    tables = tables_of(postgres_url)

    assert tables == written | {"view_position", "view_memory", "alembic_version"}


def test_no_table_is_written_by_two_read_models() -> None:
    """Each view moves by itself."""
    tables = [table for model in all_models() for table in model.tables]

    assert len(tables) == len(set(tables))


@pytest.mark.parametrize("model", all_models(), ids=lambda model: model.name)
def test_every_row_carries_its_cell(postgres_url: str, model: object) -> None:
    """First in every key."""
    migrate(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        for table in model.tables:  # type: ignore[attr-defined]
            found = connection.execute(
                "SELECT attname FROM pg_attribute"
                " WHERE attrelid = ('gangline.' || %s)::regclass AND attnum = 1",
                (table,),
            ).fetchone()
            assert found == ("cell",)
