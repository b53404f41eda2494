"""Random stories: whatever happens, the rules hold, the run replays, and what can run has run.

Some fifty are played each time; `STORIES=1000` in the environment plays so many fresh ones instead
of the longer ones. A seed that fails is written as a
scenario file beside the temporary files of the test, ready to be cut down.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import SystemRandom

import pytest

from gangline.events import decisions as d
from gangline.replay.scenario import ScenarioRun
from gangline.replay.scenario_grammar import parse
from tests.support.played import judged, stuck
from tests.support.stories import Story, story_of

FIXED = range(12)
FRESH = int(os.environ.get("STORIES", "0"))
LONGER = range(40)


def played(story: Story, folder: Path) -> ScenarioRun:
    """Play a story to its end; the run, when nothing went wrong."""
    path = folder / f"seed-{story.seed}.scn"
    path.write_text(story.text, encoding="utf-8")
    run = ScenarioRun(str(path))
    problem = run.play(parse(story.text, file=str(path)))
    assert problem is None, problem
    assert stuck(run, story.jobs) == [], path
    assert judged(run) == [], path
    return run


@pytest.mark.parametrize("seed", FIXED)
def test_a_known_story_goes_well(seed: int, tmp_path: Path) -> None:
    """The same few each time, so that what broke once is seen again."""
    played(story_of(seed), tmp_path)


@pytest.mark.timeout(0)
def test_longer_stories_go_well(tmp_path: Path) -> None:
    """Of sixty commands; fresh ones when they are asked for. The seed stands in the complaint."""
    chance = SystemRandom()
    seeds = [chance.randrange(1 << 32) for _ in range(FRESH)] or LONGER
    for seed in seeds:
        print(f"seed {seed}")
        played(story_of(seed, commands=60), tmp_path)


def test_the_stories_tell_of_everything(tmp_path: Path) -> None:
    """A kind of decision that no story leads to would not be tested by them."""
    seen: set[type] = set()
    for seed in range(210, 222):
        run = played(story_of(seed, commands=60), tmp_path)
        seen.update(type(one) for step in run.world.steps for one in step.decisions)

    never = {d.NodeDropped, d.GpuReturned, d.LogicUpgraded}
    missing = {one for one in d.Decision.__args__ if one not in seen | never}
    assert missing == set()
