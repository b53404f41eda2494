"""Pictures of the page for `docs/screenshots`, from an API that shows something.

gangline demo --port 9000
python -m tests.support.screenshots http://127.0.0.1:9000 docs/screenshots
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.browser import browser, page_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SIZES: Final = ((390, 844), (1440, 900), (2560, 1440))
LOOKS: Final = ("light", "dark")


def paths(url: str) -> dict[str, str]:
    """Each page by its name; the job is the one that was told to leave most often."""
    jobs = _get(f"{url}/page/jobs?limit=1000")["items"]
    job = max(jobs, key=lambda row: (row["preemptions"], row["gpus"]))["job"]
    alarms = _get(f"{url}/page/overview")["alarms"]
    node = next((row["node"] for row in alarms if row["service"] == "draining"), alarms[0]["node"])
    night = _get(f"{url}/page/timeline")["to_ms"] // 86_400_000 * 86_400_000 + 3 * 3_600_000
    return {
        "overview": "/?colour=team",
        "queue": "/queue",
        "job": f"/jobs/{job}",
        "teams": "/teams",
        "nodes": "/nodes?order=-bad",
        "node": f"/nodes/{node}",
        "decisions": "/decisions",
        "past": f"/?at={night + 10 * 60_000}",
    }


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own API
        return json.load(answer)


def take(opened: Browser, url: str, folder: Path) -> None:
    """All pages at all sizes in both themes."""
    folder.mkdir(parents=True, exist_ok=True)
    for width, height in SIZES:
        for look in LOOKS:
            with page_of(opened, look=look, width=width, height=height) as (page, _):
                for name, path in paths(url).items():
                    page.goto(url + path)
                    page.locator("body[data-ready]").wait_for()
                    page.evaluate("document.fonts.ready")
                    page.screenshot(path=folder / f"{name}-{look}-{width}.png")


if __name__ == "__main__":
    with browser() as chromium:
        take(chromium, sys.argv[1], Path(sys.argv[2]))
