"""How fast the page is, over 8,000 GPUs and 10,000 waiting jobs.

    python -m tests.support.page_speed

Prints for each page the first paint, the main thread's longest task until the page stands and
while it then refreshes for twelve seconds (each by the clock and by its CPU, which other work on
the machine changes less), the CPU of one refresh, and the bytes of each answer on the wire.
"""

from __future__ import annotations

import json
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime
from gangline.replay.demo_story import Size
from tests.support.browser import browser, page_of
from tests.support.page_cell import page_cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

PAGES: Final = ("/", "/queue", "/nodes", "/teams")
WAITING: Final = """
INSERT INTO gangline.waiting
SELECT cell, 'wait-' || i, 100000 + i, team, class_rank, gpus, queued, submitted_ms, reason,
       reason_text, held, reservation, planned_ms, start_ms, first_planned_ms, first_start_ms,
       not_before_ms
FROM generate_series(1, 10000) AS i
CROSS JOIN (SELECT * FROM gangline.waiting WHERE queued LIMIT 1) AS one
"""
# What makes every row of these lists another one, so that a live update has all of them to draw.
CHANGED: Final = """
UPDATE gangline.waiting SET gpus = gpus + 1, reason_text = reason_text || '.';
UPDATE gangline.node SET strikes = strikes + 1
"""
ANSWERS: Final = """performance.getEntriesByType('resource')
  .filter((e) => e.name.includes('/page/'))
  .map((e) => [new URL(e.name).pathname, e.transferSize])"""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the main thread, in milliseconds. cpu_ms: 0 for what lasted no millisecond."""

    wall_ms: int
    cpu_ms: int


def measure(url: str, changed: Callable[[], object]) -> list[dict[str, Any]]:
    """One row a page. changed: called before each live update, so that there is much to draw."""
    rows = []
    with browser() as chromium, page_of(chromium) as (page, _):
        for path in PAGES:
            with traced(chromium) as opening:
                page.goto(url + path)
                page.locator("body[data-ready]").wait_for()
                page.wait_for_timeout(500)
            name = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            row = {"page": path, "first_paint_ms": round(page.evaluate(name))}
            row["longest_of_opening"] = longest(opening, url)
            changed()
            row |= _live(chromium, page, url, path)
            row["wire_bytes"] = dict(page.evaluate(ANSWERS))
            rows.append(row)
    return rows


@contextmanager
def traced(chromium: Browser) -> Iterator[list[dict[str, Any]]]:
    """What the browser's threads do while this lasts; the list is filled at its end."""
    events: list[dict[str, Any]] = []
    ended = threading.Event()
    tools = chromium.new_browser_cdp_session()
    tools.on("Tracing.dataCollected", lambda part: events.extend(part["value"]))
    tools.on("Tracing.tracingComplete", lambda _: ended.set())
    kept = {"includedCategories": ["devtools.timeline", "disabled-by-default-devtools.timeline"]}
    tools.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": kept})
    yield events
    tools.send("Tracing.end")
    while not ended.is_set():
        tools.send("Browser.getVersion")  # any call lets the events come in
    tools.detach()


def longest(events: list[dict[str, Any]], url: str) -> dict[str, Task]:
    """The longest task by the clock and by CPU, of the main thread that shows the url."""
    ours = {_thread(each) for each in events if url in json.dumps(each.get("args", {}))}
    mains = {_thread(e) for e in events if e["args"].get("name") == "CrRendererMain"} & ours
    tasks = [
        Task(round(each["dur"] / 1000), round(each.get("tdur", 0) / 1000))
        for each in events
        if each["name"] == "RunTask" and "dur" in each and _thread(each) in mains
    ]
    return {
        "by_clock": max(tasks, key=lambda task: task.wall_ms),
        "by_cpu": max(tasks, key=lambda task: task.cpu_ms),
    }


def _thread(event: dict[str, Any]) -> tuple[int, int]:
    return (event["pid"], event["tid"])


def _live(chromium: Browser, page: Page, url: str, path: str) -> dict[str, Any]:
    """Twelve seconds of live refreshes: the longest task, and the main thread's CPU a refresh."""
    part = {"/": "overview", "/teams": "overview"}.get(path, path.removeprefix("/"))
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    refreshes: list[str] = []
    page.on("request", lambda r: refreshes.append(r.url) if f"/page/{part}" in r.url else None)

    def spent_s() -> float:
        found = tools.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in found if each["name"] == "TaskDuration"))

    began = spent_s()
    with traced(chromium) as events:
        page.wait_for_timeout(12_000)
    cpu_ms = round(1000 * (spent_s() - began) / max(1, len(refreshes)))
    return {
        "longest_live": longest(events, url),
        "refreshes": len(refreshes),
        "cpu_ms_a_refresh": cpu_ms,
    }


def main() -> None:
    """Make the cell, measure, print."""
    folder = Path(tempfile.mkdtemp(prefix="gangline-speed-"))
    folder.chmod(0o711)
    server = local_postgres.start(folder, lifetime=Lifetime.WITH_STARTER)
    try:
        size = Size(nodes=1000, days=1, load=0.9, rush=20)
        with (
            page_cell(server, size=size) as cell,
            psycopg.connect(cell.url, autocommit=True) as connection,
            cell.serve() as url,
        ):
            connection.execute(WAITING)
            for row in measure(url, lambda: connection.execute(CHANGED)):
                print(row)
    finally:
        local_postgres.remove(folder)


if __name__ == "__main__":
    main()
