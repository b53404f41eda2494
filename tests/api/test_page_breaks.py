"""The page when somebody tries to break it: odd addresses, unseen characters, a silent API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from gangline.api import tokens
from gangline.api.tokens import Role
from tests.api.page_fixtures import address, cell, chromium, go
from tests.support.browser import page_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Route

    from tests.support.page_cell import PageCell

__all__ = ["address", "cell", "chromium"]

expect.set_options(timeout=60_000)


@pytest.fixture
def broken(chromium: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what the browser complains about."""
    with page_of(chromium) as opened:
        yield opened


@pytest.mark.parametrize("path", ["/jobs/%ff", "/nodes/%E0%A4%A", "/jobs/%", "/nodes/%E2%80%AEx"])
def test_an_address_that_is_no_text_is_answered(
    broken: tuple[Page, list[str]], address: str, path: str
) -> None:
    """The page stands, says what a name is, and turns no text around."""
    page, complaints = broken
    go(page, address + path)

    expect(page.locator("#trouble")).to_contain_text("a name has")
    assert "\u202e" not in page.title() + page.inner_text("body")
    assert [words for words in complaints if "status of 422" not in words] == []


UNSEEN = {
    "soft hyphen": "\u00ad",
    "filler": "\u3164",
    "joiner": "\u034f",
    "variation": "\ufe0f",
    "braille blank": "\u2800",
    "tag": "\U000e0041",
    "annotation": "\ufff9",
    "vowel separator": "\u180e",
    "right to left": "\u202e",
    "escape": "\u001b",
}


@pytest.mark.parametrize("character", UNSEEN.values(), ids=UNSEEN.keys())
def test_what_cannot_be_seen_is_shown_as_a_box(
    broken: tuple[Page, list[str]], address: str, character: str
) -> None:
    """Two names that differ look different."""
    page, _ = broken
    go(page, address)

    shown = page.evaluate(
        "async (text) => (await import('/static/words.js')).inert(text)", f"tra{character}in ü 列"
    )

    assert shown == "tra▯in ü 列"


def test_a_silent_api_is_not_taken_for_a_quiet_fleet(
    broken: tuple[Page, list[str]], address: str
) -> None:
    """While an answer is owed for long the page does not call itself live, and later it does."""
    page, _ = broken
    go(page, address)
    page.locator("#live.live").wait_for()
    owed: list[Route] = []
    silent = True

    def keep(route: Route) -> None:
        if silent:
            owed.append(route)
        else:
            route.continue_()

    page.route("**/page/overview**", keep)

    expect(page.locator("#live")).to_have_text("no answer yet, waiting")
    silent = False
    for route in owed:
        route.continue_()

    expect(page.locator("#live")).to_have_text("live")


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (lambda route: route.abort(), "The API cannot be reached"),
        (lambda route: route.fulfill(body='{"teams": ['), "The API's answer broke off"),
    ],
)
def test_a_lost_answer_is_said_in_words(
    broken: tuple[Page, list[str]], address: str, breaks: object, said: str
) -> None:
    """What was read last stays, and all is as before when the API is back."""
    page, _ = broken
    go(page, f"{address}/teams")
    page.route(re.compile("/page/"), breaks)  # type: ignore[arg-type]

    expect(page.locator("#trouble")).to_contain_text(said)
    expect(page.get_by_role("table").first).to_be_visible()
    page.unroute(re.compile("/page/"))
    expect(page.locator("#trouble")).to_have_count(0)


def test_a_revoked_token_ends_an_open_page(
    chromium: Browser, cell: PageCell, tmp_path: Path
) -> None:
    """The feed ends too; the page asks who it is, and shows nothing to nobody."""
    path = tmp_path / "tokens.json"
    text = tokens.create(path, "me", role=Role.AUDIT)
    tokens.create(path, "other", role=Role.AUDIT)
    with cell.serve(tokens=path) as url, page_of(chromium) as (page, _):
        page.goto(url)
        page.get_by_label("Token").fill(text)
        page.get_by_role("button", name="Sign in").click()
        page.locator("#live.live").wait_for()

        tokens.revoke(path, "me")

        page.get_by_role("dialog").get_by_label("Token").wait_for()
        assert page.locator("main").inner_text() == ""


def test_at_four_times_the_size_nothing_is_lost(chromium: Browser, address: str) -> None:
    """At 400 % a window of 1,280 is as wide as 320: only tables and pictures scroll sideways."""
    with page_of(chromium, width=320, height=256) as (page, _):
        for path in ("/", "/queue", "/jobs", "/teams", "/nodes", "/decisions"):
            go(page, address + path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
            expect(page.locator("#moment")).to_be_visible()
