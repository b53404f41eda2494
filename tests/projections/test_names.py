"""Jobs are found by a part of their names, from an index where the database can have one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from gangline.projections import page_queries
from gangline.projections.migrations import migrate
from gangline.projections.page_queries import PageViews
from tests.projections import story as s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.projections.conftest import Desk

NAMES = ("train-7b", "Train-70b", "eval_7", "sweep.12", "a%b", "50-off", "größe-ß")


@pytest.fixture
def page(desk: Desk) -> Iterator[PageViews]:
    """What the page reads, of some jobs with these names."""
    desk.story.step(*(s.queued(name, number=n) for n, name in enumerate(NAMES, start=1)))
    desk.catch_up()
    views = PageViews(desk.dsn, desk.cell, connections=1)
    yield views
    views.close()


def found(views: PageViews, text: str, **where: object) -> set[str]:
    """The names that contain a text."""
    return {row["job"] for row in views.job_list(after="", limit=100, text=text, **where)}


@pytest.mark.parametrize("near", [10_000, 1], ids=["all are near", "most are far"])
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rain", {"train-7b", "Train-70b"}),
        ("TRAIN-7", {"train-7b", "Train-70b"}),
        ("in-7b", {"train-7b"}),
        ("7", {"train-7b", "Train-70b", "eval_7"}),
        ("12", {"sweep.12"}),
        ("a%", {"a%b"}),
        ("l_7", {"eval_7"}),
        ("\\", set()),
        ("nobody", set()),
        ("größe", {"größe-ß"}),
        ("'; --", set()),
    ],
)
def test_a_part_of_a_name_finds_the_jobs(
    page: PageViews, monkeypatch: pytest.MonkeyPatch, near: int, text: str, names: set[str]
) -> None:
    """Anywhere in it and in any case, sign by sign; one or two letters where a word begins."""
    monkeypatch.setattr(page_queries, "_NEAR", near)

    assert found(page, text) == names


def test_signs_alone_are_looked_for_among_the_newest(
    page: PageViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No index knows them, and nobody waits for all names to be read."""
    assert found(page, "%") == {"a%b"}

    monkeypatch.setattr(page_queries, "_NEAR", 0)
    assert found(page, "%") == set()


def test_parts_of_names_go_with_other_filters_and_pages(page: PageViews) -> None:
    """The key of the last row is where the next page begins."""
    (first,) = page.job_list(after="", limit=1, text="train")
    (second,) = page.job_list(after=first["key"], limit=1, text="train")

    assert {first["job"], second["job"]} == {"train-7b", "Train-70b"}
    assert list(page.job_list(after=second["key"], limit=1, text="train")) == []
    assert found(page, "train", states=["running"]) == set()
    assert found(page, "train", team="nobody") == set()


@pytest.fixture
def stranger(postgres_url: str) -> Iterator[str]:
    """The URL of a database whose owner may not use what an administrator has put into it."""
    role = sql.Identifier(f"stranger_{os.getpid()}")
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        database = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(role))
        admin.execute(sql.SQL("GRANT ALL ON DATABASE {} TO {}").format(database, role))
        admin.execute("CREATE SCHEMA others")
        admin.execute("CREATE EXTENSION pg_trgm WITH SCHEMA others")
        yield psycopg.conninfo.make_conninfo(postgres_url, user=role._obj[0], password="x")
        admin.execute(sql.SQL("DROP OWNED BY {}").format(role))
        admin.execute(sql.SQL("DROP ROLE {}").format(role))


def has_index(dsn: str) -> bool:
    """Whether parts of names are indexed."""
    with psycopg.connect(dsn) as connection:
        (row,) = connection.execute("SELECT to_regclass('gangline.job_by_part_of_name')").fetchall()
    return row[0] is not None


def test_a_database_without_the_index_answers_too(stranger: str, postgres_url: str) -> None:
    """The migration goes on without, and an administrator may make it later."""
    migrate(stranger)
    assert not has_index(stranger)
    views = PageViews(stranger, "main", connections=1)
    assert list(views.job_list(after="", limit=9, text="train")) == []
    views.close()

    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("GRANT USAGE ON SCHEMA others TO PUBLIC")
    with psycopg.connect(stranger, autocommit=True) as connection:
        assert connection.execute("SELECT gangline.index_names()").fetchone() == (True,)

    assert has_index(stranger)
