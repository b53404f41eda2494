"""How fast the page is, over 8,000 GPUs and 10,000 waiting jobs.

    python -m tests.support.page_speed

Prints for each page the first paint, the longest task of the main thread while it refreshes for
twelve seconds, the main thread's CPU for one refresh (which other work on the machine hardly
changes), and the bytes of each answer on the wire.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime
from gangline.replay.demo_story import Size
from tests.support.browser import browser, page_of
from tests.support.page_cell import page_cell

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAGES: Final = ("/", "/queue", "/nodes", "/teams")
WAITING: Final = """
INSERT INTO gangline.waiting
SELECT cell, 'wait-' || i, 100000 + i, team, class_rank, gpus, queued, submitted_ms, reason,
       reason_text, held, reservation, planned_ms, start_ms, first_planned_ms, first_start_ms,
       not_before_ms
FROM generate_series(1, 10000) AS i
CROSS JOIN (SELECT * FROM gangline.waiting WHERE queued LIMIT 1) AS one
"""
LONGEST: Final = """() => new Promise((done) => {
  let longest = 0;
  const look = (list) => list.getEntries().forEach((e) => {
    longest = Math.max(longest, e.duration);
  });
  new PerformanceObserver(look).observe({ type: "longtask" });
  setTimeout(() => done(longest), 12000);
})"""
ANSWERS: Final = """performance.getEntriesByType('resource')
  .filter((e) => e.name.includes('/page/'))
  .map((e) => [new URL(e.name).pathname, e.transferSize])"""


def measure(url: str) -> list[dict[str, Any]]:
    """One row a page."""
    rows = []
    with browser() as chromium, page_of(chromium) as (page, _):
        for path in PAGES:
            page.goto(url + path)
            page.locator("body[data-ready]").wait_for()
            page.wait_for_timeout(500)
            name = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            row = {"page": path, "first_paint_ms": round(page.evaluate(name))}
            row |= _live(page, path)
            row["wire_bytes"] = dict(page.evaluate(ANSWERS))
            rows.append(row)
    return rows


def _live(page: Page, path: str) -> dict[str, Any]:
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
    longest = round(page.evaluate(LONGEST))
    cpu_ms = round(1000 * (spent_s() - began) / max(1, len(refreshes)))
    return {"longest_task_ms": longest, "refreshes": len(refreshes), "cpu_ms_a_refresh": cpu_ms}


def main() -> None:
    """Make the cell, measure, print."""
    folder = Path(tempfile.mkdtemp(prefix="gangline-speed-"))
    folder.chmod(0o711)
    server = local_postgres.start(folder, lifetime=Lifetime.WITH_STARTER)
    try:
        size = Size(nodes=1000, days=1, load=0.9, rush=20)
        with page_cell(server, size=size) as cell:
            with psycopg.connect(cell.url, autocommit=True) as connection:
                connection.execute(WAITING)
            with cell.serve() as url:
                for row in measure(url):
                    print(row)
    finally:
        local_postgres.remove(folder)


if __name__ == "__main__":
    main()
