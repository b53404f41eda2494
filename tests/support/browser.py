"""A real browser, and what it complains about."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).parent.parent / "vendor" / "axe-4.14.1.min.js"
_WITHIN_MS = 60_000


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium; the test is skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where there is one

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def page_of(
    opened: Browser, *, look: Any = "light", width: int = 1440, height: int = 900
) -> Iterator[tuple[Page, list[str]]]:
    """A page in a context of its own, and what the browser complains about."""
    context = opened.new_context(
        viewport={"width": width, "height": height}, color_scheme=look, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(_WITHIN_MS)
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page, complaints
    context.close()


def violations(page: Page) -> list[str]:
    """What axe finds wrong with the page as it stands, one line each."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run()")
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
