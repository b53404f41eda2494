"""The page when things are not as they should be: breaks, mistakes, other eyes and other hands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from gangline.events.log import Topic
from gangline.replay.history import LogSource
from gangline.replay.timetravel import When, state_at
from tests.api.page_fixtures import HOUR_MS, PAGES, address, cell, chromium, forgiving_page, go
from tests.support.browser import page_of, violations
from tests.support.page_cell import PageCell

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

__all__ = ["address", "cell", "chromium", "forgiving_page"]

expect.set_options(timeout=60_000)


def a_running_job(cell: PageCell) -> str:
    """One that holds GPUs now."""
    rows = state_at(LogSource(cell.log), When())["placements"]
    return str(next(row["job"] for row in rows if row["state"] == "running"))


class Printer:
    """A job's output, served in the place of an agent's: this cell has no real processes."""

    def __init__(self, page: Page) -> None:
        self.text = b"step 1\n"
        self.broken = False
        page.route(re.compile(r"/v1/jobs/[^/]+/logs"), self.answer)

    def answer(self, route: Route) -> None:
        """The list of files, or a part of the one there is."""
        if self.broken:
            route.fulfill(status=502, json={"detail": "node n1 serves no logs"})
        elif route.request.url.endswith("/logs"):
            size = len(self.text)
            files = [{"node": "n1", "file": "rank-0.log", "size": size}]
            found = {"attempt": 99, "state": "running", "files": files, "unreachable": []}
            route.fulfill(json=found)
        else:
            asked = re.search(r"offset=(\d+)", route.request.url)
            offset = int(asked.group(1)) if asked else 0
            headers = {"x-next-offset": str(len(self.text)), "x-size": str(len(self.text))}
            route.fulfill(body=self.text[offset:], headers=headers)


def test_output_is_followed_as_it_is_written(page: Page, cell: PageCell, address: str) -> None:
    """What comes later appears by itself, shown inert; a pause stops it."""
    printer = Printer(page)
    go(page, f"{address}/jobs/{a_running_job(cell)}")
    log = page.get_by_role("region", name="What it printed")

    page.get_by_role("button", name="Read and follow").click()
    expect(log).to_contain_text("step 1")
    printer.text += "\x1b[31mstep 2\x1b[0m <b>\u202e\n".encode()
    expect(log).to_contain_text("step 2 <b>▯")
    assert log.locator("b").count() == 0
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Read and follow").wait_for()


def test_output_that_cannot_be_read_is_said_and_tried_again(
    page: Page, cell: PageCell, address: str
) -> None:
    """An agent that is away does not end the following."""
    printer = Printer(page)
    go(page, f"{address}/jobs/{a_running_job(cell)}")
    page.get_by_role("button", name="Read and follow").click()
    page.get_by_text("followed as it is written").wait_for()

    printer.broken = True
    page.get_by_text("trying again: node n1 serves no logs").wait_for()
    printer.broken, printer.text = False, printer.text + b"step 9\n"

    expect(page.get_by_role("region", name="What it printed")).to_contain_text("step 9")


def test_past_alarms_say_why_and_since_when(page: Page, cell: PageCell, address: str) -> None:
    """Every node that was not well then has a cause, and a time that is not later."""
    seen = 0
    for back in (1, 3, 6, 12):
        at_ms = cell.now_ms - back * HOUR_MS
        found = page.request.get(f"{address}/page/overview?at={at_ms}").json()["alarms"]
        for row in found:
            seen += 1
            if row["health"] != "well":
                assert row["health_cause"]
                assert row["health_since"] <= at_ms
            if row["service"] != "open":
                assert row["service_by"] != "scheduler"
                assert row["service_since"] <= at_ms
            if row["bad"]:
                assert row["out_cause"]
                assert row["out_since"] <= at_ms
    assert seen


def test_a_past_node_knows_nothing_later(page: Page, cell: PageCell, address: str) -> None:
    """The cordon of the present is not told of the hour before it."""
    at_ms = cell.now_ms - HOUR_MS
    then = page.request.get(f"{address}/page/nodes/{cell.hostile_node}?at={at_ms}").json()["node"]
    now = page.request.get(f"{address}/page/nodes/{cell.hostile_node}").json()["node"]

    assert (now["service"], then["service"]) == ("cordoned", "open")
    assert now["service_cause"]
    assert not then["service_cause"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("2020-01-01", "Nothing was decided before"),
        ("3:00", "The live feed is paused."),
        ("30 Nov 03:00", "The live feed is paused."),
    ],
)
def test_times_are_taken_as_people_write_them(
    page: Page, address: str, typed: str, said: str
) -> None:
    """Also as the page itself writes them, and from before there was anything."""
    go(page, address)

    page.get_by_label("Time in UTC, or how long ago").fill(typed)
    page.get_by_role("button", name="Go").click()

    expect(page.locator("#past")).to_contain_text(said)
    assert page.locator("#trouble").count() == 0


@pytest.mark.parametrize("typed", ["2040-01-01", "now"])
def test_the_future_is_the_present(page: Page, address: str, typed: str) -> None:
    """Nobody can look ahead: the page stays live."""
    go(page, f"{address}/?at=2h")
    expect(page.locator("#past")).to_be_visible()

    page.get_by_label("Time in UTC, or how long ago").fill(typed)
    page.get_by_role("button", name="Go").click()

    expect(page.locator("#past")).to_be_hidden()


def test_what_is_no_time_is_refused(page: Page, address: str) -> None:
    """With an example of what would be one."""
    go(page, address)

    page.get_by_label("Time in UTC, or how long ago").fill("teatime")
    page.get_by_role("button", name="Go").click()

    page.get_by_text("not a time: try 03:00, or 2h").wait_for()
    expect(page.locator("#past")).to_be_hidden()


def test_back_and_forward_go_through_the_pages(page: Page, address: str) -> None:
    """The browser's own buttons work, and keep the filters that stand in the address."""
    go(page, f"{address}/queue?class=normal")
    page.get_by_role("navigation").get_by_role("link", name="Teams").click()
    page.get_by_role("heading", name="Who lent to whom").wait_for()

    page.go_back()
    expect(page.get_by_label("Class")).to_have_value("normal")
    page.go_forward()
    page.get_by_role("heading", name="Who lent to whom").wait_for()


@pytest.mark.parametrize(
    ("path", "said", "leads"),
    [
        ("/nothing/here", "There is no such page", "the overview"),
        ("/jobs/nobody", "There is no job nobody", "All jobs"),
        ("/nodes/nowhere", "There is no node nowhere", "All nodes"),
    ],
)
def test_what_is_not_there_is_said(
    page: Page, address: str, path: str, said: str, leads: str
) -> None:
    """In the page's frame, with a link from where one goes on."""
    go(page, address + path)

    page.locator("main").get_by_text(said).first.wait_for()
    assert page.locator("main").get_by_role("link", name=leads).count() == 1
    assert violations(page) == []


def test_teams_tell_what_they_have_of_guaranteed_models(page: Page, address: str) -> None:
    """A column more, on the page and in the CSV; none where no model is guaranteed."""
    go(page, f"{address}/teams")
    page.get_by_role("columnheader", name="Weight").wait_for()
    assert page.get_by_role("columnheader", name="Of models").count() == 0

    def guarantee(route: Route) -> None:
        found = route.fetch().json()
        for team in found["teams"]:
            team["by_model"] = {"<b>h100": {"guaranteed": 8, "used": 2}}
        route.fulfill(json=found)

    page.route("**/page/overview**", guarantee)
    page.reload()
    page.get_by_role("columnheader", name="Of models").wait_for()
    page.get_by_role("cell", name="2 of 8 <b>h100").first.wait_for()
    with page.expect_download() as saved:
        page.get_by_title("Save teams.csv").click()
    head, first, *_ = saved.value.path().read_text(encoding="utf-8").splitlines()
    assert head.endswith(",by_model")
    assert first.endswith(",2 of 8 <b>h100")


def test_the_feed_comes_back_after_the_api(page: Page, cell: PageCell, address: str) -> None:
    """A refused stream is asked for again, and the page shows what came meanwhile."""
    answers: list[int] = []

    def refuse(route: Route) -> None:
        answers.append(503)
        route.fulfill(status=503, body="")

    page.route("**/v1/events**", refuse)
    go(page, address)
    expect(page.locator("#live")).to_contain_text("not reachable")
    page.unroute("**/v1/events**")
    page.locator("#live.live").wait_for()
    name = cell.submit()
    page.locator(".feed").get_by_text(name).first.wait_for()
    assert answers


def test_whoever_reads_is_not_disturbed(page: Page, cell: PageCell, address: str) -> None:
    """What comes in live stands above; the keyboard stays where it was."""
    go(page, f"{address}/decisions")
    link = page.locator("tbody a").first
    link.focus()
    words = link.text_content()

    name = cell.submit()
    page.locator("tbody").get_by_text(name).first.wait_for()

    assert page.evaluate("document.activeElement.textContent") == words


def test_two_tabs_show_two_moments(chromium: Browser, cell: PageCell, address: str) -> None:
    """One looks at the past while the other stays live."""
    with page_of(chromium) as (one, _):
        other = one.context.new_page()
        go(one, f"{address}/?at={cell.now_ms - 5 * HOUR_MS}")
        go(other, address)
        expect(one.locator("#live")).to_contain_text("paused in the past")
        expect(other.locator("#live")).to_have_text("live")


def test_without_scripts_a_plain_message_is_left(chromium: Browser, address: str) -> None:
    """It names commands that say the same; dead controls are not shown."""
    context = chromium.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(address)
    expect(plain.locator("noscript p")).to_contain_text("gangline queue")
    expect(plain.locator("noscript p")).to_be_visible()
    expect(plain.locator("#time")).to_be_hidden()
    context.close()


def test_a_printed_page_has_no_controls(page: Page, address: str) -> None:
    """Paper shows what is read, not what is pressed."""
    go(page, f"{address}/queue")
    page.emulate_media(media="print")
    for gone in ("#time", "nav", ".filters"):
        expect(page.locator(gone).first).to_be_hidden()
    expect(page.get_by_role("table").first).to_be_visible()


def test_twice_as_large_nothing_is_lost(chromium: Browser, address: str) -> None:
    """At 200 % a laptop has half the width: nothing runs out, all pages are reached."""
    with page_of(chromium, width=720, height=450) as (opened, _):
        for path in PAGES:
            go(opened, address + path)
            assert opened.evaluate("document.documentElement.scrollWidth") <= 720
        assert opened.get_by_role("navigation").get_by_role("link").count() == len(PAGES)


def test_all_is_reached_by_keyboard_alone(page: Page, address: str) -> None:
    """From the address bar: the first stop skips to the page, and the map opens a node."""
    go(page, address)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "page"
    page.locator(".map").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Its history").wait_for()


def test_the_skip_link_leaves_the_page_as_it_stands(page: Page, address: str) -> None:
    """It leads on in the page; nothing is built anew, there and on the way back."""
    go(page, address)
    page.locator(".map").evaluate("(map) => { map.dataset.seen = 'yes'; }")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.url.endswith("#page")
    page.go_back()
    assert page.locator(".map").get_attribute("data-seen") == "yes"


CSV = {
    "/": ["fleet", "use", "teams", "reasons", "alarms"],
    "/queue": ["queue"],
    "/jobs": ["jobs"],
    "/teams": ["teams", "shares", "loans", "waits"],
    "/nodes": ["nodes"],
    "/decisions": ["decisions"],
}


@pytest.mark.parametrize("path", CSV)
@pytest.mark.parametrize("at", ["", "?at=3h"])
def test_every_picture_is_also_csv(page: Page, address: str, path: str, at: str) -> None:
    """On every page, of now and of then: a head, and rows of as many fields."""
    go(page, address + path + at)
    for name in CSV[path]:
        with page.expect_download() as saved:
            page.get_by_title(f"Save {name}.csv").click()
        head = saved.value.path().read_text(encoding="utf-8").splitlines()[0]
        assert head.count(",") >= 2


def test_a_job_and_a_node_are_also_csv(page: Page, cell: PageCell, address: str) -> None:
    """Their lives, decisions and faults."""
    job = f"/jobs/{a_running_job(cell)}"
    found = {job: ["life", "story"], f"/nodes/{cell.hostile_node}": ["faults", "history"]}
    for path, names in found.items():
        go(page, address + path)
        for name in names:
            with page.expect_download() as saved:
                page.get_by_title(f"Save {name}.csv").click()
            assert saved.value.suggested_filename == f"{name}.csv"


@pytest.mark.parametrize("path", [*PAGES, "/jobs/{job}", "/nodes/{node}"])
def test_the_time_is_on_every_page(page: Page, cell: PageCell, address: str, path: str) -> None:
    """A moment in the address is shown by each, and said."""
    filled = path.format(job=a_running_job(cell), node=cell.hostile_node)
    go(page, f"{address}{filled}?at={cell.now_ms - 60_000}")

    expect(page.locator("#past")).to_contain_text("The live feed is paused.")
    assert page.locator("#trouble").count() == 0


def test_the_whole_fleet_is_small_on_the_wire(page: Page, address: str) -> None:
    """Runs of like GPUs, compressed: far below what one picture weighs."""
    answer: Any = page.request.get(f"{address}/page/fleet", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < 20_000


def test_tiles_lead_to_what_they_count(page: Page, address: str) -> None:
    """From a number to its rows by a click."""
    go(page, address)
    page.locator(".tiles").get_by_role("link", name="jobs waiting").click()
    page.get_by_role("heading", name="Queue", exact=True).first.wait_for()
    assert page.url.endswith("/queue")


def test_asking_twice_is_no_harm(page: Page, cell: PageCell, address: str) -> None:
    """Whoever is impatient and presses twice has asked once."""
    node = sorted(cell.cell.world.fleet.nodes)[33]
    go(page, f"{address}/nodes/{node}")
    page.get_by_role("button", name="Cordon", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cordon", exact=True).dblclick()
    page.get_by_role("dialog").wait_for(state="hidden")

    asked = [fact for fact in cell.facts(Topic.CONTROL) if getattr(fact, "node", "") == node]
    assert len([fact for fact in asked if type(fact).__name__ == "NodeCordoned"]) == 1


def test_a_team_keeps_its_colour_whoever_else_has_gpus(page: Page, address: str) -> None:
    """Its place is that among all teams, not among those that hold something just now."""
    go(page, address)
    script = """async (holds) => {
        const { FleetMap, teamColour } = await import("/static/fleetmap.js");
        const map = new FleetMap({});
        const gangs = holds.map((team) => [`job-${team}`, team, 1]);
        map.show({ blocks: [], sizes: [], runs: [], gangs, away: {} }, ["ant", "bee", "cow"]);
        return teamColour(map.teams, "cow");
    }"""

    colours = {page.evaluate(script, holds) for holds in (["cow"], ["ant", "cow"], ["bee", "cow"])}

    assert len(colours) == 1


@pytest.mark.parametrize("width", [2200, 2560, 3840])
def test_on_a_wall_all_parts_begin_at_one_edge(chromium: Browser, address: str, width: int) -> None:
    """The header, the time and what stands below."""
    with page_of(chromium, width=width, height=1440) as (opened, _):
        go(opened, address)
        script = "(name) => document.querySelector(name).getBoundingClientRect().left"
        edges = [opened.evaluate(script, name) for name in (".brand", "#before", ".tiles")]

    assert max(edges) - min(edges) <= 2


@pytest.mark.parametrize(
    ("first_s", "last_s", "said"),
    [
        (7_260, 10_860, "in 2h 1m \u2013 3h 1m"),
        (0, 8_060, "now \u2013 2h 14m"),
        (-60, -30, "any moment"),
        (None, None, "no plan yet"),
    ],
)
def test_an_estimated_start_is_a_range(
    page: Page, address: str, first_s: int | None, last_s: int | None, said: str
) -> None:
    """Also where half of such plans would have started by now."""
    go(page, address)
    script = """async ([first, last]) => {
        const { starts } = await import("/static/page_queue.js");
        const at = (seconds) => (seconds === null ? null : Date.now() + 1000 * seconds + 500);
        return starts({ start_p50_ms: at(first), start_p90_ms: at(last) }).textContent;
    }"""

    assert page.evaluate(script, [first_s, last_s]) == said
