"""How fast the page is, over 8,000 GPUs and 10,000 waiting jobs.

    python -m tests.support.page_speed

Prints for each page the first paint, the longest task of the main thread while it refreshes for
twelve seconds, and the bytes of each answer on the wire.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import psycopg

from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime
from gangline.replay.demo_story import Size
from tests.support.browser import browser, page_of
from tests.support.page_cell import page_cell

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
            row["longest_task_ms"] = round(page.evaluate(LONGEST))
            row["wire_bytes"] = dict(page.evaluate(ANSWERS))
            rows.append(row)
    return rows


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
