"""What every test of the page begins with: a cell, an API of it, one browser, and a way in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.support.browser import browser, page_of
from tests.support.page_cell import PageCell, page_cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

HOUR_MS: Final = 3_600_000
PAGES: Final = ("/", "/queue", "/jobs", "/teams", "/nodes", "/decisions")


@pytest.fixture(scope="module")
def cell(postgres_server: str) -> Iterator[PageCell]:
    """A hundred nodes with a day behind them."""
    with page_cell(postgres_server) as made:
        yield made


@pytest.fixture(scope="module")
def address(cell: PageCell) -> Iterator[str]:
    """An API of this machine, without tokens."""
    with cell.serve() as url:
        yield url


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    with browser() as opened:
        yield opened


@pytest.fixture(name="page")
def forgiving_page(chromium: Browser) -> Iterator[Page]:
    """A page, where what the browser complains about is part of the story."""
    with page_of(chromium) as (opened, _):
        yield opened


def go(page: Page, url: str) -> None:
    """Open an address and wait until its part is there."""
    page.goto(url)
    page.locator("body[data-ready]").wait_for()


def thin(number: int) -> str:
    """A number as the page writes it."""
    return f"{number:,}".replace(",", "\u202f")
