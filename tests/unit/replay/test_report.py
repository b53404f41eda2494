"""The page of a report: complete, self-contained, and the same bytes for the same history."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from gangline.replay.measures import Measured, measure
from gangline.replay.report import About, write_report
from gangline.replay.report.charts import duration
from gangline.replay.report.svg import Axis
from gangline.replay.report.timeline import STATES, timeline_of
from tests.unit.replay.history import History, team

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = About(title="A <day>", subtitle="two nodes", command="gangline simulate --trace 'a b'")


def a_history() -> Measured:
    """Two jobs on two nodes, one after the other, and a third beside them."""
    history = History().at(0, team("a", 8), team("b", 8))
    history.play(
        history.run("j1", queued=0, started=0.5, ended=4),
        history.run("j2", team="b", queued=1, placed=4, ended=6),
        history.run("j3", gpus=1, on=("b0-n1",), queued=2, ended=30),
    )
    return measure(history.fold)


def test_the_page_has_every_part_and_the_command(tmp_path: Path) -> None:
    """What people write is escaped."""
    text = write_report(a_history(), ABOUT, tmp_path / "new").read_text(encoding="utf-8")

    headings = re.findall("<h2>([^<]*)</h2>", text)
    assert headings == [
        "Utilization",
        "Waits",
        "Where waiting time went",
        "Fairness",
        "The fleet over time",
        "Queue",
        "Lost work and preemptions",
        "Numbers",
        "How to make this page again",
    ]
    assert "<h1>A &lt;day&gt;</h1>" in text
    assert "gangline simulate --trace &#x27;a b&#x27;" in text


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    """It opens offline: no address, no script, no file beside it."""
    text = write_report(a_history(), ABOUT, tmp_path).read_text(encoding="utf-8")

    assert not re.search(r"https?:|src=|@import|url\(|<script|<link", text)


def test_every_picture_is_well_formed(tmp_path: Path) -> None:
    """Each has words for those who cannot see it."""
    text = write_report(a_history(), ABOUT, tmp_path).read_text(encoding="utf-8")
    pictures = re.findall("<svg.*?</svg>", text, re.DOTALL)

    assert len(pictures) == 7
    for picture in pictures:
        assert ET.fromstring(picture).get("aria-label")  # noqa: S314 - our own text


def test_the_same_history_gives_the_same_bytes(tmp_path: Path) -> None:
    """Nothing on the page depends on when or where it is made."""
    pages = [write_report(a_history(), ABOUT, tmp_path / name) for name in ("a", "b")]

    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_states_of_gpus_add_up_to_the_capacity() -> None:
    """At each point of the picture, every GPU does exactly one thing."""
    timeline = timeline_of(a_history().fold)

    for point, capacity in enumerate(timeline.capacity):
        total = sum(timeline.states[key][point] for key, _ in STATES)
        assert total == pytest.approx(capacity)


def test_ticks_are_round_and_inside() -> None:
    """As people read them."""
    assert Axis(low=0, high=8000).ticks(5) == [0, 2000, 4000, 6000, 8000]
    assert Axis(low=1, high=5000, log=True).ticks() == [1, 10, 100, 1000]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (1.25, "1.2 s"), (90, "1.5 min"), (3600, "1 h"), (1e6, "12 d")],
)
def test_durations_are_in_their_largest_unit(seconds: float, text: str) -> None:
    """Two digits are enough."""
    assert duration(seconds) == text
