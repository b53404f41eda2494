"""The page in a real browser: what it shows comes from the API, and nothing from elsewhere."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gangline.api import tokens
from gangline.api.tokens import Role
from tests.support.api import listening_api

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.api.fakes import World

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WAITING: dict[str, Any] = {
    "position": 1, "job": "train-7", "team": "vision", "class": "high", "gpus": 16, "waited_s": 95,
    "estimated_start_p50": None, "estimated_start_p90": None, "reason": "capacity",
    "reason_text": "needs 16 GPUs, 5 are free",
}  # fmt: skip
JOB: dict[str, Any] = {
    "job": "train-7", "team": "vision", "class": "high", "gpus": 16, "state": "queued",
    "submitted_at": "2026-11-30T12:00:00+00:00", "wait_s": None, "attempts": 0, "preemptions": 0,
    "nodes": [], "reason": "capacity", "reason_text": "needs 16 GPUs, 5 are free",
}  # fmt: skip
TEAM: dict[str, Any] = {
    "team": "vision", "guaranteed": 8, "used": 3, "guaranteed_used": 3, "borrowed": 0, "lent": 5,
    "queued": 1,
}  # fmt: skip


def _fill(world: World) -> None:
    """A queue of one, a team, a node."""
    world.views.tables |= {"queue": [WAITING], "jobs": [JOB], "teams": [TEAM]}


@contextmanager
def _browser(url: str) -> Iterator[tuple[Page, list[str]]]:
    """A page of a browser, and what the browser complains about."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where there is one

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": 1300, "height": 900})
        opened.set_default_timeout(10_000)
        complaints: list[str] = []
        opened.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(url)
        yield opened, complaints
        browser.close()


@pytest.fixture
def page() -> Iterator[tuple[Page, World, list[str]]]:
    """The page of an API in a browser, and what the browser complained about."""
    with listening_api() as (url, world):
        _fill(world)
        with _browser(url) as (opened, complaints):
            yield opened, world, complaints


def test_whoever_has_a_token_signs_in(tmp_path: Path) -> None:
    """A wrong one does not come in; a right one is kept where no script can read it."""
    path = tmp_path / "tokens.json"
    text = tokens.create(path, "me", role=Role.AUDIT)
    with listening_api(tokens=path) as (url, world):
        _fill(world)
        with _browser(url) as (opened, _):
            opened.get_by_label("Token").fill("gl_me_wrong")
            opened.get_by_role("button", name="Sign in").click()
            opened.get_by_text("This token does not come in.").wait_for()
            opened.get_by_label("Token").fill(text)
            opened.get_by_role("button", name="Sign in").click()

            opened.get_by_text("capacity: needs 16 GPUs, 5 are free").first.wait_for()
            opened.get_by_text("live ·").wait_for()
            assert opened.evaluate("document.cookie") == ""
            (cookie,) = opened.context.cookies()
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")


def test_the_page_shows_queue_teams_and_fleet(page: tuple[Page, World, list[str]]) -> None:
    """With the reasons; the browser, whose policy allows no strangers, complains of nothing."""
    opened, _, complaints = page

    opened.get_by_text("capacity: needs 16 GPUs, 5 are free").first.wait_for()
    opened.get_by_text("3 of 8 GPUs · 5 lent · 1 jobs wait").wait_for()
    opened.get_by_role("img", name="1 nodes, 5 GPUs free").wait_for()
    assert complaints == []


def test_a_decision_appears_as_it_is_made(page: tuple[Page, World, list[str]]) -> None:
    """Nobody has to load the page again."""
    opened, world, complaints = page
    opened.get_by_text("live ·").wait_for()

    world.views.made.append(
        {
            "position": "decisions-0-9",
            "at": "2026-11-30T12:00:05+00:00",
            "kind": "GangPlaced",
            "job": "train-7",
            "node": None,
            "team": "vision",
            "detail": {"attempt": 1, "seats": [{"node": "n0"}, {"node": "n1"}]},
        }
    )

    opened.locator("#feed-list").get_by_text("placed · attempt 1 on n0, n1").wait_for()
    assert complaints == []


def test_a_job_opens_in_detail(page: tuple[Page, World, list[str]]) -> None:
    """Its reason, its attempts, its life; a name with markup in it stays text."""
    opened, world, complaints = page
    world.views.tables["queue"] = [WAITING | {"reason_text": "<b>bold</b>"}]

    opened.locator("#jobs-table").get_by_role("button", name="train-7").click()

    opened.locator("#detail").get_by_text("capacity: <b>bold</b>").wait_for()
    opened.locator("#detail").get_by_text("It has not been placed yet.").wait_for()
    assert complaints == []
