"""The page in a real browser, over a real cell with a past: what it shows, and what it may do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from gangline.api import tokens
from gangline.api.tokens import Role
from gangline.events.log import Topic
from gangline.events.postgres_log import PostgresLog
from gangline.projections.migrations import migrate
from gangline.replay.history import LogSource
from gangline.replay.timetravel import When, state_at
from tests.api.page_fixtures import HOUR_MS, PAGES, address, cell, chromium, go, thin
from tests.support.browser import page_of, violations
from tests.support.page_cell import PageCell, serve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

__all__ = ["address", "cell", "chromium"]


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page of which nobody may complain."""
    with page_of(chromium) as (opened, complaints):
        yield opened
        assert complaints == []


def a_job(cell: PageCell, state: str) -> str:
    """A job of the present that waits or runs."""
    plain = state_at(LogSource(cell.log), When())
    rows = plain["queue"] if state == "queued" else plain["placements"]
    wide = [row for row in rows if row["gpus"] >= 8]
    return str(wide[0]["job"])


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_whole_and_open_to_everybody(
    chromium: Browser, address: str, path: str, look: str
) -> None:
    """Axe finds nothing wrong, the browser complains of nothing, and nothing is said to fail."""
    with page_of(chromium, look=look) as (opened, complaints):
        go(opened, address + path)

        assert opened.locator("#trouble").count() == 0
        assert violations(opened) == []
        assert complaints == []


def test_job_and_node_pages_are_whole_too(page: Page, cell: PageCell, address: str) -> None:
    """A job that runs, one that waits, and a node."""
    paths = [f"/jobs/{a_job(cell, state)}" for state in ("running", "queued")]
    for path in (*paths, f"/nodes/{cell.hostile_node}"):
        go(page, address + path)

        assert page.locator("#trouble").count() == 0
        assert violations(page) == []


def test_the_overview_says_who_uses_the_fleet(page: Page, cell: PageCell, address: str) -> None:
    """With the numbers that the replayed log has."""
    plain = state_at(LogSource(cell.log), When())
    go(page, address)

    held = plain["fleet"]["held"]
    all_gpus = plain["nodes"][0]["gpus"] * len(plain["nodes"])
    page.get_by_text(f"{thin(held)} of {thin(all_gpus)}").wait_for()
    for team in plain["teams"]:
        label = f"{team['team']}: {team['used']} GPUs used of {team['guaranteed']} guaranteed, "
        page.get_by_role("img", name=f"{label}{team['borrowed']} borrowed").wait_for()


def test_the_map_says_the_same_as_its_table(page: Page, cell: PageCell, address: str) -> None:
    """Who cannot see the canvas reads how many GPUs of each block do what."""
    plain = state_at(LogSource(cell.log), When())
    go(page, address)

    rows = page.locator(".map + .sr tr").all_inner_texts()
    running = sum(int(row.split("\t")[2].replace(",", "") or 0) for row in rows[1:])
    assert running == sum(
        len(seat["gpus"])
        for row in plain["placements"]
        if row["state"] == "running"
        for seat in row["seats"]
    )


def test_the_queue_says_why_and_what_would_start_it(
    page: Page, cell: PageCell, address: str
) -> None:
    """In the scheduler's words, with its numbers."""
    plain = state_at(LogSource(cell.log), When())
    told = next(row for row in plain["queue"] if row["reason_text"])
    go(page, f"{address}/queue?text={told['job']}")

    row = page.get_by_role("row").filter(has_text=told["job"])
    expect(row).to_contain_text(told["team"])


def test_a_view_can_be_shared_by_its_address(page: Page, address: str) -> None:
    """Filters, order and hidden columns stand in it."""
    go(page, f"{address}/queue")
    page.get_by_label("Class").select_option("normal")
    page.get_by_role("button", name="GPUs", exact=True).first.click()
    page.get_by_text("Columns").click()
    page.get_by_role("group").get_by_role("button", name="Team").click()
    page.wait_for_url("**class=normal**")
    shared = page.url

    go(page, shared)

    headings = page.get_by_role("columnheader").all_inner_texts()
    assert any("GPUs" in text and "↑" in text for text in headings)
    assert "Team" not in headings
    assert page.get_by_label("Class").input_value() == "normal"


@pytest.mark.parametrize("back", [2, 9, 17])
def test_the_past_is_what_replay_at_says(
    page: Page, cell: PageCell, address: str, back: int
) -> None:
    """Queue, teams, numbers and map of a past moment equal the fold of the log up to then."""
    at_ms = cell.now_ms - back * HOUR_MS
    plain = state_at(LogSource(cell.log), When(at_ms=at_ms))

    def read(path: str) -> Any:
        answer = page.request.get(f"{address}/page/{path}&at={at_ms}")
        assert answer.ok, answer.text()
        return answer.json()

    waiting = read("queue?limit=1000")["items"]
    keys = ("job", "position", "reason", "reason_text", "gpus", "team", "class")
    assert [[row[k] for k in keys] for row in waiting] == [
        [row[k] for k in keys] for row in plain["queue"]
    ]
    teams = {row["team"]: row["used"] for row in read("overview?_=1")["teams"]}
    assert teams == {row["team"]: row["used"] for row in plain["teams"]}
    runs = read("fleet?_=1")["runs"]
    held = sum(count for count, _, gang in runs if gang >= 0)
    assert held == plain["fleet"]["held"]


def test_the_slider_stops_the_feed_and_says_so(page: Page, cell: PageCell, address: str) -> None:
    """A time is typed, the page shows it, and `Live` comes back to the present."""
    plain = state_at(LogSource(cell.log), When(at_ms=cell.now_ms - 6 * HOUR_MS))
    go(page, address)

    page.get_by_label("Time in UTC, or how long ago").fill(str(cell.now_ms - 6 * HOUR_MS))
    page.get_by_role("button", name="Go").click()

    page.get_by_text("The live feed is paused.").wait_for()
    page.get_by_text("paused in the past").wait_for()
    page.locator(".tiles").get_by_text(f"{thin(plain['fleet']['held'])} of").wait_for()
    page.get_by_role("button", name="Live").click()
    expect(page.locator("#past")).to_be_hidden()


def test_one_steps_by_decision_and_minute(page: Page, cell: PageCell, address: str) -> None:
    """Each step moves the moment in the address."""
    at_ms = cell.now_ms - 5 * HOUR_MS
    go(page, f"{address}/decisions?at={at_ms}")

    page.get_by_title("A minute back").click()
    page.wait_for_url(f"**at={at_ms - 60_000}")
    page.keyboard.press("]")
    page.wait_for_function(f"() => !location.search.endsWith('at={at_ms - 60_000}')")
    moved = int(re.search(r"at=(\d+)", page.url).group(1))  # type: ignore[union-attr]
    steps = {row["at_ms"] for row in _decided(cell) if row["at_ms"] > at_ms - 60_000}
    assert moved == min(steps)


def _decided(cell: PageCell) -> list[dict[str, Any]]:
    from gangline.replay.history import steps  # noqa: PLC0415 - for this alone

    return [{"at_ms": step.batch.now_ms} for step in steps(LogSource(cell.log))]


def test_a_decision_appears_as_it_is_made(page: Page, cell: PageCell, address: str) -> None:
    """Nobody has to load the page again."""
    go(page, address)
    page.locator("#live.live").wait_for()

    name = cell.submit()

    page.locator(".feed").get_by_text(name).first.wait_for()


def test_hostile_words_stay_words(page: Page, cell: PageCell, address: str) -> None:
    """Markup is text; what turns text around or cannot be seen is shown as a box."""
    go(page, f"{address}/nodes/{cell.hostile_node}")

    page.get_by_text("<img src=x onerror=alert(1)> ▯evil▯").first.wait_for()
    assert page.locator("main img").count() == 0


def test_each_picture_can_be_saved_as_csv(page: Page, cell: PageCell, address: str) -> None:
    """The fleet's has a row a GPU; what a spreadsheet would run is put after a quote."""
    go(page, address)
    with page.expect_download() as saved:
        page.get_by_title("Save fleet.csv").click()
    lines = saved.value.path().read_text(encoding="utf-8").splitlines()

    plain = state_at(LogSource(cell.log), When())
    assert len(lines) == 1 + sum(row["gpus"] for row in plain["nodes"])
    quoted = page.evaluate("import('/static/csv.js').then(csv => csv.field('=1+1'))")
    assert quoted == "'=1+1"


def test_a_job_is_cancelled_and_reranked(page: Page, cell: PageCell, address: str) -> None:
    """What is asked for stands in the log, with the reason."""
    job = a_job(cell, "running")
    go(page, f"{address}/jobs/{job}")

    page.get_by_role("button", name="Priority").click()
    page.get_by_role("dialog").get_by_role("combobox").select_option("high")
    page.get_by_role("dialog").get_by_role("button", name="Priority").click()
    page.get_by_role("dialog").wait_for(state="hidden")
    page.get_by_role("button", name="Cancel job").click()
    page.get_by_label("Why").fill("no longer needed")
    page.get_by_role("dialog").get_by_role("button", name="Cancel job").click()
    page.get_by_text("Cancel job: asked for, jobs-0-").wait_for()

    asked = [fact for fact in cell.facts(Topic.JOBS) if getattr(fact, "job", "") == job]
    kinds = [type(fact).__name__ for fact in asked]
    assert kinds[-2:] == ["JobPriorityChangeRequested", "JobCancelRequested"]
    assert asked[-1].why == "no longer needed"


def test_a_node_is_cordoned_and_drained(page: Page, cell: PageCell, address: str) -> None:
    """With a reason, and a deadline in the words of the command line."""
    node = sorted(cell.cell.world.fleet.nodes)[33]
    go(page, f"{address}/nodes/{node}")

    for button in ("Cordon", "Drain"):
        page.get_by_role("button", name=button).click()
        page.get_by_label("Why").fill("new firmware")
        if button == "Drain":
            page.get_by_label("Deadline").fill("2h")
        page.get_by_role("dialog").get_by_role("button", name=button).click()
        page.get_by_role("dialog").wait_for(state="hidden")

    asked = [fact for fact in cell.facts(Topic.CONTROL) if getattr(fact, "node", "") == node]
    assert [type(fact).__name__ for fact in asked[-2:]] == ["NodeCordoned", "DrainRequested"]
    assert asked[-1].deadline_ms == 2 * HOUR_MS


def test_whoever_has_a_token_signs_in(chromium: Browser, cell: PageCell, tmp_path: Path) -> None:
    """A wrong one is refused in words; who may only read sees why actions are shut."""
    path = tmp_path / "tokens.json"
    text = tokens.create(path, "me", role=Role.AUDIT)
    with cell.serve(tokens=path) as url, page_of(chromium) as (opened, _):
        opened.goto(f"{url}/nodes/{cell.hostile_node}")
        opened.get_by_label("Token").fill("gl_me_wrong")
        opened.get_by_role("button", name="Sign in").click()
        opened.get_by_text("This token is not known here").wait_for()
        opened.get_by_label("Token").fill(text)
        opened.get_by_role("button", name="Sign in").click()

        drain = opened.get_by_role("button", name="Drain")
        drain.wait_for()
        assert drain.is_disabled()
        assert drain.get_attribute("title") == "me may not: it has the role audit."
        assert opened.evaluate("document.cookie") == ""
        (cookie,) = opened.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")


def test_the_past_cannot_be_changed(page: Page, cell: PageCell, address: str) -> None:
    """Buttons are shut there, and say so."""
    go(page, f"{address}/nodes/{cell.hostile_node}?at={cell.now_ms - HOUR_MS}")

    drain = page.get_by_role("button", name="Drain")
    drain.wait_for()
    assert drain.get_attribute("title") == "Go back to live to change things."


def test_pages_are_reached_by_keys(page: Page, address: str) -> None:
    """`g` and a letter; arrows walk over the map and say where they are."""
    go(page, address)
    page.locator(".map").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_role("status").filter(has_text="s0-b0-n0").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Who lent to whom").wait_for()


@pytest.mark.parametrize("width", [390, 1440, 2560])
def test_nothing_runs_out_of_the_window(chromium: Browser, address: str, width: int) -> None:
    """From a phone to a wall, only tables and pictures scroll sideways."""
    with page_of(chromium, width=width) as (opened, _):
        for path in PAGES:
            go(opened, address + path)
            assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_an_empty_cell_says_what_to_do_first(page: Page, postgres_url: str) -> None:
    """Before anything has come, each page names the command that begins it."""
    migrate(postgres_url)
    log = PostgresLog(postgres_url, "main")
    log.create_topics()
    log.close()
    first = {
        "/": ["gangline team set vision", "gangline agent", "gangline submit", "No node yet"],
        "/queue": ["gangline submit"],
        "/jobs": ["gangline submit"],
        "/teams": ["gangline team set vision"],
        "/nodes": ["gangline agent"],
        "/decisions": ["Nothing was decided"],
    }
    with serve(postgres_url) as url:
        for path, said in first.items():
            go(page, url + path)
            for words in said:
                page.locator(".empty").get_by_text(words).first.wait_for()
            assert page.locator("#trouble").count() == 0
        page.goto("about:blank")
