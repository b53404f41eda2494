"""What holds for any two tellings of a story, and for any part of one."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.replay.scenario import ScenarioRun
from gangline.replay.scenario_grammar import parse
from gangline.replay.scenario_replay import check_replay
from tests.support.examples import examples
from tests.support.stories import Story, story_of

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.timeout(0)

ASIDE = (d.InputRejected, d.QueueConsidered, d.WaitCauseChanged)
"""What is said beside what happens."""

MOST_OF_A_PAIR = 2
"""So often one job may have another one evicted: a second time perhaps, never a third."""

STORIES = st.integers(0, (1 << 32) - 1).map(lambda seed: story_of(seed, commands=25))
SETTINGS = settings(
    max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck)
)


def played(lines: Iterable[str]) -> ScenarioRun:
    """A story that is told and goes well."""
    text = "\n".join(lines)
    note(text)
    run = ScenarioRun("story")
    assert run.play(parse(text, file="story")) is None
    return run


def calm(story: Story) -> list[str]:
    """Its lines, without those that disturb the log."""
    return [line for line in story.text.splitlines() if not line.startswith(("log ", "garbage"))]


def deeds(run: ScenarioRun) -> list[str]:
    """What happened, in words, without the offsets of the facts that led to it."""
    told = [
        f"{step.now_ms} {re.sub(r'(jobs|control|nodes)-[0-9]+-[0-9]+', '', str(one))}"
        for step in run.world.steps
        for one in step.decisions
        if not isinstance(one, ASIDE)
    ]
    return [one for one, _ in groupby(told)]


@given(STORIES)
@SETTINGS
def test_what_is_said_twice_happens_once(story: Story) -> None:
    """Every fact of users, operators and agents comes twice, and all goes as it did."""
    lines = calm(story)

    once = played(lines)
    fleet = 1 + max(at for at, line in enumerate(lines) if line.startswith("fleet "))
    twice = played([*lines[:fleet], "log duplicate", *lines[fleet:]])

    assert deeds(twice) == deeds(once)


@given(STORIES, st.integers(0, 1 << 20))
@SETTINGS
def test_a_log_is_read_from_wherever_it_is_cut(story: Story, cut: int) -> None:
    """A snapshot of any prefix goes on through the rest, and any prefix decides as it did."""
    run = played(story.text.splitlines())
    core = run.world.core
    told = [step for step in run.world.steps if step.decisions]
    state = core.new_state()
    at = cut % len(told)

    for index, step in enumerate(told):
        if index == at:
            state = core.load(list(core.dump(state)))
        core.fold(state, list(step.decisions), now_ms=step.now_ms)
        assert core.state_digest(state) == step.digest
    check_replay(core, told[:at])


@given(STORIES)
@SETTINGS
def test_nobody_is_evicted_for_the_same_job_again_and_again(story: Story) -> None:
    """Whatever teams take from each other, it comes to rest.

    Who has got its place may have it again after its own failure, and after a start that a node was
    not ready for in time.
    """
    run = played(story.text.splitlines())

    pairs: Counter[tuple[str, str, int]] = Counter()
    placed: Counter[str] = Counter()
    for step in run.world.steps:
        for one in step.decisions:
            if isinstance(one, d.GangPreempted):
                pairs[one.claimant, one.job, placed[one.claimant]] += 1
            elif isinstance(one, d.GangPlaced):
                placed[one.job] += 1

    assert [pair for pair, count in pairs.items() if count > MOST_OF_A_PAIR] == []


def test_a_story_is_the_same_each_time() -> None:
    """Told of the same seed, it is the same text."""
    assert story_of(7).text == story_of(7).text
