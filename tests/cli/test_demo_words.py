"""What the demo tells of decisions is plain to somebody who sees them for the first time."""

from __future__ import annotations

import pytest

from gangline.cli.demo_words import words_of


@pytest.mark.parametrize(
    ("kind", "detail", "said"),
    [
        ("JobRequeued", {"cause": "infrastructure"}, "x is queued again: it lost a node"),
        ("GangStopping", {"cause": "user"}, "x is told to stop: a program of it failed"),
        ("GangStopping", {"cause": "cancelled"}, "x is told to stop: cancelled"),
        ("JobFinished", {"outcome": "cancelled", "reason": "cancelled"}, "x cancelled"),
        ("JobFinished", {"outcome": "failed", "reason": "exit code 3"}, "x failed: exit code 3"),
        ("NodeHealthChanged", {"health": "lost", "cause": "lost"}, "x is lost"),
        ("NodeHealthChanged", {"health": "suspected", "cause": "silent"}, "x is suspected: silent"),
    ],
)
def test_a_decision_is_told_once_and_in_words(kind: str, detail: dict[str, str], said: str) -> None:
    """Codes get words, and nothing is said twice."""
    assert words_of({"kind": kind, "job": "x", "detail": detail}) == said
