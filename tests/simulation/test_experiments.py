"""The experiments run in their short form, and say what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.replay.experiment_lending import lending
from gangline.replay.experiments import EXPERIMENTS, Experiment, Goal, Outcome, main

if TYPE_CHECKING:
    from pathlib import Path


def test_idle_guarantee_is_lent_and_comes_back() -> None:
    """Within a minute it is lent, and within grace and start time it is its owner's again."""
    numbers = lending(7, short=True)

    assert numbers["lent_share"] >= 0.9
    assert numbers["back_s"] <= 180


def test_the_worst_seed_counts() -> None:
    """A goal is reached when it is reached on every seed."""
    goals = (
        Goal("allocation", lambda n: n["a"], 0.9, least=True),
        Goal("wait", lambda n: n["w"], 10),
    )
    experiment = Experiment("it", "about it", lambda _seed, _short: None, goals)

    good = Outcome(experiment, (1, 2), ({"a": 0.95, "w": 3}, {"a": 0.91, "w": 9}))
    bad = Outcome(experiment, (1, 2), ({"a": 0.95, "w": 3}, {"a": 0.91, "w": 11}))

    assert good.met
    assert not bad.met
    assert "| wait | at most 10 | 11 | **no** |" in bad.lines()
    assert "| allocation | at least 0.9 | 0.91 | yes |" in bad.lines()


def test_tables_are_written_with_their_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experiments on traces are left out where there are none."""
    monkeypatch.delenv("GANGLINE_TRACES", raising=False)
    path = tmp_path / "experiments.md"
    words = ["--short", "--only", "lending", "--only", "venus", "--markdown", str(path)]

    assert main(words) == 0

    text = path.read_text(encoding="utf-8")
    assert "python -m gangline.replay.experiments --short --only lending" in text
    assert "## lending: one team idle" in text
    assert "venus:" not in text


def test_every_experiment_has_goals_and_a_name_of_its_own() -> None:
    """They can be asked for one by one."""
    names = [experiment.name for experiment in EXPERIMENTS]

    assert len(set(names)) == len(names)
    assert all(experiment.goals for experiment in EXPERIMENTS)
