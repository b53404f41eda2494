"""Pictures of a history: the time line's bars, and use by cause of a cell that is young."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from gangline.api.page_data import Activity
from tests.api.page_fixtures import HOUR_MS, address, cell, chromium, go

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["address", "cell", "chromium"]

YEAR_MS = 365 * 86_400_000


class Counted:
    """Views that count how often they are asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def page(self, _question: str, **parameters: Any) -> list[dict[str, Any]]:
        """A bar that says which question it answers."""
        self.asked.append(parameters)
        return [{"step": len(self.asked)}]


@pytest.mark.parametrize(("lasts_ms", "asks"), [(YEAR_MS, 1), (1, 2)])
def test_a_long_history_is_counted_once_a_short_one_each_time(lasts_ms: int, asks: int) -> None:
    """Two looks, one after the other."""
    views, activity = Counted(), Activity()
    span = {"from_ms": 1_000, "to_ms": 1_000 + lasts_ms}

    looks = [activity.bars(cast("Any", views), span, 240) for _ in range(2)]

    assert len(views.asked) == asks
    assert looks == [[{"step": 1}], [{"step": asks}]]


def test_other_steps_are_another_question() -> None:
    """A wide screen has more of them."""
    views, activity = Counted(), Activity()
    span = {"from_ms": 1_000, "to_ms": 1_000 + YEAR_MS}

    for steps in (240, 480):
        activity.bars(cast("Any", views), span, steps)

    assert [asked["steps"] for asked in views.asked] == [240, 480]


@pytest.mark.parametrize("span", [{"from_ms": None, "to_ms": None}, {"from_ms": 5, "to_ms": 5}])
def test_nothing_is_asked_of_no_history(span: dict[str, int | None]) -> None:
    """A cell that has decided nothing yet, or one thing."""
    views = Counted()

    assert Activity().bars(cast("Any", views), span, 240) == ()
    assert views.asked == []


def test_use_of_a_week_begins_with_the_cell(chromium: Browser, address: str) -> None:
    """A day has passed, so the other six are no time without use: averages are of one day."""
    page = chromium.new_page()
    found = page.request.get(f"{address}/page/usage?hours=168").json()
    span = page.request.get(f"{address}/page/timeline").json()
    page.close()

    assert found["from_ms"] == span["from_ms"]
    assert found["to_ms"] - found["from_ms"] < 48 * HOUR_MS


DRAWN: Final = """async (found) => {
    const charts = await import("/static/charts.js");
    const place = document.createElement("div");
    document.body.append(place);
    const { plot } = charts.stacked(place, found, () => {});
    await new Promise((drawn) => setTimeout(drawn, 50));
    return [plot.scales.x.min, plot.scales.x.max];
}"""


def test_the_first_minutes_fill_the_picture(chromium: Browser, address: str) -> None:
    """One step of fifty minutes, of which four have passed: the axis is those, not years."""
    page = chromium.new_page()
    go(page, f"{address}/")
    begins_ms, step_s = 1_800_000_600_000, 3_000
    found = {
        "from_ms": begins_ms,
        "to_ms": begins_ms + 240_000,
        "step_s": step_s,
        "items": [[begins_ms // 3_000_000 * 3_000_000, "productive", 4_000_000]],
    }

    ends = page.evaluate(DRAWN, found)

    page.close()
    assert ends == [begins_ms / 1000, begins_ms / 1000 + 240]
