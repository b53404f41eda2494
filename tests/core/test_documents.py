"""The documents say what the code does."""

from __future__ import annotations

import re

import pytest

from gangline.events.terms import Health, Service, WaitCause
from gangline.scheduler import diagrams
from gangline.scheduler.core.apply_fleet import HEALTH_EVENTS
from gangline.scheduler.core.lifecycle import TRANSITIONS
from gangline.scheduler.core.policy import KEYS
from gangline.scheduler.core.turn import Refusal


def page(name: str) -> str:
    """A document as it is committed."""
    return (diagrams.DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", diagrams.PAGES)
def test_the_generated_parts_are_current(name: str) -> None:
    """`make schemas` writes them."""
    assert diagrams.current(page(name)) == page(name)


def test_every_block_stands_on_a_page() -> None:
    """And on one only."""
    found = [name for one in diagrams.PAGES for _, name, _ in diagrams.BLOCK.findall(page(one))]

    assert sorted(found) == sorted(diagrams.BLOCKS)


def test_the_diagram_of_jobs_has_every_move() -> None:
    """Each decision stands on the arrow of its phases."""
    drawn = diagrams.jobs()

    for (before, kind), after in TRANSITIONS.items():
        (line,) = re.findall(f"{before.name.lower()} --> {after.name.lower()}: (.*)", drawn)
        assert kind.__name__ in line.split(", ")


def test_the_diagram_of_health_has_every_event() -> None:
    """Found by trying it on a node."""
    drawn = {what for region in diagrams.REGIONS for _, _, what in diagrams.moves(region)}

    assert drawn == set(HEALTH_EVENTS)


def test_the_page_of_lives_names_every_service_and_health() -> None:
    """In its prose too."""
    text = page("lifecycle.md")

    assert [word for word in (*Service, *Health) if f"*{word}*" not in text] == []


def test_the_page_of_rules_names_every_cause_and_no_other() -> None:
    """In the order in which they hold."""
    table = page("scheduling.md").split("## Why a job waits")[1].split("## The policy")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [str(one) for one in WaitCause]


def test_keys_that_the_pages_mention_exist() -> None:
    """Whatever looks like one."""
    text = page("scheduling.md") + page("lifecycle.md")
    words = set(re.findall(r"`([a-z]+_[a-z_]+)`", text))

    assert words - set(KEYS) - set(WaitCause) == {"gpus_per_node"}


def test_every_refusal_says_something_else() -> None:
    """An operator tells them apart by their text."""
    assert len({str(one) for one in Refusal}) == len(Refusal)
