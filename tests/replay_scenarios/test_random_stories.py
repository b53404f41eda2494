"""Random stories: whatever happens, the rules hold, the run replays, and what can run has run.

`STORIES=1000` in the environment plays so many fresh ones. A seed that fails is written as a
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
from tests.support.stories import Story, story_of

FIXED = range(12)
FRESH = int(os.environ.get("STORIES", "0"))
ENDED = {"succeeded", "failed", "cancelled", "rejected"}


def played(story: Story, folder: Path) -> ScenarioRun:
    """Play a story to its end; the run, when nothing went wrong."""
    path = folder / f"seed-{story.seed}.scn"
    path.write_text(story.text, encoding="utf-8")
    run = ScenarioRun(str(path))
    problem = run.play(parse(story.text, file=str(path)))
    assert problem is None, problem
    stuck = [f"{path}: {job} is {what}" for job in story.jobs if (what := stuck_by(run, job))]
    assert not stuck, "\n".join(stuck)
    return run


def stuck_by(run: ScenarioRun, job: str) -> str:
    """Why a job has not ended though all is healed; empty when it has, or cannot.

    It cannot when GPUs stayed broken that it needs, or when its quota was lowered under it.
    """
    state = run.scene.state_of(job)
    if state in ENDED:
        return ""
    core, world = run.world.core, run.world
    cause, text = core.explain(world.state, job, now_ms=world.now_ms)
    nodes = run.rules.model.nodes.values()
    ill = [node.node for node in nodes if node.ills or node.service is not d.Service.OPEN]
    broken = any(node.bad for node in nodes)
    changed = sum(isinstance(one, d.TeamChanged) for step in world.steps for one in step.decisions)
    if broken and not ill and cause in {d.WaitCause.NODES_UNHEALTHY, d.WaitCause.TOPOLOGY}:
        return ""
    if changed > len(run.rules.model.teams) and cause is d.WaitCause.BORROW_LIMIT:
        return ""
    if cause is d.WaitCause.DEPENDENCY:
        return ""
    return f"{state}: {cause} ({text}), ill: {ill}"


@pytest.mark.parametrize("seed", FIXED)
def test_a_known_story_goes_well(seed: int, tmp_path: Path) -> None:
    """The same few each time, so that what broke once is seen again."""
    played(story_of(seed), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(not FRESH, reason="STORIES=100 plays a hundred")
def test_fresh_stories_go_well(tmp_path: Path) -> None:
    """Others each time; the seed stands in the complaint."""
    for _ in range(FRESH):
        seed = SystemRandom().randrange(1 << 32)
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
