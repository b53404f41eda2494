"""The page says what is live: an API that dies or stands still, views that are behind, a token."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import expect

from gangline.api import tokens
from gangline.api.tokens import Role
from gangline.cli import processes
from gangline.cli.local_process import free_port
from tests.api.page_fixtures import HOUR_MS, address, cell, chromium, forgiving_page, go
from tests.support.page_cell import serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page, Route

    from gangline.cli.processes import Process
    from tests.support.page_cell import PageCell

__all__ = ["address", "cell", "chromium", "forgiving_page"]

expect.set_options(timeout=60_000)


class Api:
    """An API as a process of its own, that comes back at the same address."""

    def __init__(self, cell: PageCell, folder: Path) -> None:
        self._log = folder / "api.log"
        self._env = {"GANGLINE_BUS": cell.url, "GANGLINE_DATABASE_URL": cell.url}
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.process = self._start()

    def _start(self) -> Process:
        words = ["api", "--port", str(self._port)]
        return processes.start("api", words, log=self._log, env=self._env)

    def kill(self) -> None:
        """At once, as a machine's fault does."""
        self.process.send(signal.SIGKILL)

    def again(self) -> None:
        """Start another one."""
        self.process = self._start()


@pytest.fixture
def api(cell: PageCell, tmp_path: Path) -> Iterator[Api]:
    """A process that listens."""
    made = Api(cell, tmp_path)
    yield made
    made.process.send(signal.SIGCONT)
    processes.stop_all([made.process])


def come(page: Page, url: str) -> None:
    """Open a page of an API that is still starting."""
    for _ in range(300):
        with contextlib.suppress(PlaywrightError):
            page.goto(url)
            break
        page.wait_for_timeout(100)
    page.locator("#live.live").wait_for()


@contextlib.contextmanager
def without_reload(page: Page) -> Iterator[None]:
    """What happens in here happens to one and the same page."""
    page.evaluate("window.kept = true")
    yield
    assert page.evaluate("window.kept") is True


def comes_up_to(page: Page, job: str) -> None:
    """The page is live again, and has what happened meanwhile."""
    expect(page.get_by_role("table").get_by_role("link", name=job)).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")


def test_an_api_that_was_killed_is_missed_and_taken_up_again(
    page: Page, cell: PageCell, api: Api
) -> None:
    """What stood there stays meanwhile, and what happened meanwhile comes, without a reload."""
    come(page, f"{api.url}/jobs")
    with without_reload(page):
        api.kill()
        expect(page.locator("#live")).to_have_text("not reachable, trying again")
        expect(page.locator("#trouble")).to_contain_text("The API cannot be reached")
        assert page.get_by_role("table").get_by_role("row").count() > 1
        job = cell.submit()

        api.again()

        comes_up_to(page, job)
        expect(page.locator("#trouble")).to_have_count(0)


def test_an_api_that_stands_still_is_not_taken_for_live(
    page: Page, cell: PageCell, api: Api
) -> None:
    """A stopped process takes connections and answers nothing; all goes on when it does."""
    come(page, f"{api.url}/jobs")
    with without_reload(page):
        api.process.send(signal.SIGSTOP)
        expect(page.locator("#live")).to_have_text("no answer yet, waiting")
        job = cell.submit()

        api.process.send(signal.SIGCONT)

        comes_up_to(page, job)


def test_a_past_that_could_not_be_read_is_read_when_the_api_is_back(
    page: Page, cell: PageCell, api: Api
) -> None:
    """Nothing happens in the past, but what is owed of it still comes."""
    come(page, f"{api.url}/queue")
    with without_reload(page):
        api.kill()
        expect(page.locator("#live")).to_have_text("not reachable, trying again")
        page.get_by_label("Time in UTC").fill(str(cell.now_ms - 2 * HOUR_MS))
        page.get_by_role("button", name="Go", exact=True).click()
        expect(page.locator("#trouble")).to_contain_text("The API cannot be reached")

        api.again()

        expect(page.locator("#trouble")).to_have_count(0)
        expect(page.locator("#live")).to_have_text("paused in the past")


BEHIND = {
    "lag": ({"lag_s": 90_000.0, "lag_events": 12_345}, "the views still have 12\u202f345 records"),
    "problem": ({"problem": "jobs: decisions-0-7 \u202e broke"}, "a view stands still. jobs: dec"),
    "no projector": ({"looked_ms": 1}, "no projector has looked into the log for"),
    "making": ({"making": True}, "The past of this fleet is being made, and has come to 20"),
}


@pytest.mark.parametrize(("change", "said"), BEHIND.values(), ids=BEHIND.keys())
def test_views_that_are_behind_are_not_called_live(
    page: Page, address: str, change: dict[str, Any], said: str
) -> None:
    """The page says of when it is, and why, until they have caught up."""
    behind = True

    def changed(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        if behind:
            body["views"] |= change
        route.fulfill(response=answer, body=json.dumps(body))

    page.route("**/page/timeline**", changed)
    page.goto(address)

    expect(page.locator("#behind")).to_contain_text(said)
    expect(page.locator("#live")).to_have_text("behind")
    assert "\u202e" not in page.inner_text("body")
    behind = False
    expect(page.locator("#behind")).to_be_hidden()
    expect(page.locator("#live")).to_have_text("live")


def test_views_without_a_projector_are_told_by_the_api(page: Page, address: str) -> None:
    """The answer that the page reads has all that it needs to say so."""
    found = page.request.get(f"{address}/page/timeline").json()["views"]

    assert set(found) == {"at_ms", "lag_s", "lag_events", "looked_ms", "problem", "making"}
    assert found["looked_ms"] > 0
    assert not found["making"]
    assert not found["problem"]


def test_a_past_that_is_still_being_made_is_not_called_the_present(
    page: Page, cell: PageCell
) -> None:
    """As the demo begins: its page is there before its fleet has reached the present."""
    with serve(cell.url, history_until_ms=cell.now_ms + 24 * HOUR_MS) as url:
        page.goto(url)

        expect(page.locator("#behind")).to_contain_text("The past of this fleet is being made")
        expect(page.locator("#live")).to_have_text("behind")


def test_a_token_that_nobody_looked_at_is_not_called_wrong(
    page: Page, cell: PageCell, tmp_path: Path
) -> None:
    """It does not come into the address either, however fast somebody types."""
    path = tmp_path / "tokens.json"
    text = tokens.create(path, "me", role=Role.AUDIT)
    with cell.serve(tokens=path) as url:
        page.goto(url)
        page.get_by_label("Token").fill(text)
        page.route("**/v1/session", lambda route: route.abort())
        for _ in range(3):
            page.keyboard.press("Enter")

        expect(page.locator("#sign-in-words")).to_have_text(re.compile("The API cannot be reached"))
        assert "token" not in page.url
        page.unroute("**/v1/session")
        page.get_by_role("button", name="Sign in").click()
        page.locator("#live.live").wait_for()
        assert "token" not in page.url


def test_who_asks_while_the_api_is_away_is_told_and_comes_in_later(
    page: Page, address: str
) -> None:
    """The frame stands, and says what it waits for."""
    page.route("**/v1/session", lambda route: route.abort())
    page.goto(address)
    expect(page.locator("#trouble")).to_contain_text("The API cannot be reached")
    expect(page.locator("#live")).to_have_text("not reachable, trying again")

    page.unroute("**/v1/session")

    page.locator("body[data-ready]").wait_for()
    expect(page.locator("#trouble")).to_have_count(0)


def test_a_certificate_is_told_in_words(page: Page, address: str) -> None:
    """Each part of the order's key by its name; programs get the key as it was compared."""
    found = page.request.get(f"{address}/page/decisions?kinds=GangPlaced&limit=50").json()["items"]
    row = next(row for row in found if row["detail"]["certificate"]["tie"])
    go(page, f"{address}/jobs/{row['job']}")

    expect(page.locator(".proof").filter(has_text="Order: class").first).to_contain_text(
        "its share, submitted 20"
    )
    assert "(-" not in page.locator("main").inner_text()
    assert re.fullmatch(r"\(-\d.*\)", row["detail"]["certificate"]["tie"])
    assert row["tie"].startswith("order: class ")


SPOKEN = {
    "needs 2048 GPUs; 1588 are free": "needs 2\u202f048 GPUs; 1\u202f588 are free",
    "most is held by 4096 (1024), run-20000 (2048)": (
        "most is held by 4096 (1\u202f024), run-20000 (2\u202f048)"
    ),
    "team 1024 uses 4096 and its guarantee is 4096": (
        "team 1024 uses 4\u202f096 and its guarantee is 4\u202f096"
    ),
    "waits for the success of 4096": "waits for the success of 4096",
    "gpus=1024 topology=any": "gpus=1024 topology=any",
    "held by user:x: until 2026-11-30": "held by user:x: until 2026-11-30",
    "at most 1000000 of that shape": "at most 1\u202f000\u202f000 of that shape",
    "needs 512 GPUs": "needs 512 GPUs",
}


@pytest.mark.parametrize(("recorded", "shown"), SPOKEN.items())
def test_numbers_of_sentences_are_written_as_all_others(
    page: Page, address: str, recorded: str, shown: str
) -> None:
    """A thin space between thousands; names of digits and what is to be typed stay as they are."""
    go(page, address)
    module = "import('/static/words.js')"

    assert page.evaluate(f"async (text) => (await {module}).spoken(text)", recorded) == shown


def test_numbers_in_saved_files_are_plain(page: Page, address: str) -> None:
    """Programs read them."""
    go(page, address)
    script = "async () => (await import('/static/csv.js')).lines(['a'], [['2\u202f048 GPUs']])"

    assert page.evaluate(script) == "a\r\n2048 GPUs"
