"""Scenario texts as log files, with facts and digests, as a live cell would have written them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.replay.recorder import LogRecorder
from gangline.replay.scenario import ScenarioRun
from gangline.replay.scenario_grammar import parse
from gangline.scheduler import core

if TYPE_CHECKING:
    from pathlib import Path


def write_history(path: Path, scenario: str, *, genesis: str = "story") -> None:
    """Play a scenario, which must hold and in which one scheduler leads, and write its log."""
    play = ScenarioRun(path.name)
    problem = play.play(parse(scenario, file=path.name))
    assert problem is None, problem
    recorder = LogRecorder(path, genesis=genesis, logic_version=core.LOGIC_VERSION)
    for step in play.world.steps:
        recorder.stepped(play.world, step)
    recorder.close()
