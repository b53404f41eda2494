"""The time line's bars: counted anew as often as a look could show a difference."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gangline.api.page_data import Activity

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
