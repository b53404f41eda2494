"""The alarms work: each rule is broken on purpose, and the line names it.

A core that lies decides as the real one does, but says something else in its decisions or its
numbers. Whoever would trust the decisions would then see a GPU held twice, half a gang, and so on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gangline.events import decisions as d
from gangline.replay.scenario import ScenarioRun
from gangline.replay.scenario_grammar import parse
from gangline.scheduler import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FLEET = "fleet spines=1 blocks=2 nodes=2 gpus=8\n"
STORY = (
    FLEET + "policy min_runtime=0s\nteam a guaranteed=16\nteam b guaranteed=16\n"
    "submit j team=a gpus=16 runtime=5h checkpoint=10m\n"
    "submit k team=a gpus=16 runtime=5h checkpoint=10m\nrun 25m\n"
    "submit o team=b gpus=16 runtime=1h\nrun 5m\nfail j#0 for=30m\nrun 4h\n"
)


class LyingCore:
    """The real core, but for what it says of its decisions and numbers."""

    def __init__(self, lie: Callable[[Any], Sequence[Any]], **numbers: Any) -> None:
        self._lie = lie
        self._numbers = numbers

    def __getattr__(self, name: str) -> Any:
        return self._numbers.get(name, getattr(core, name))

    def step(self, *args: Any, **more: Any) -> list[Any]:
        """The real decisions, told otherwise."""
        return [told for one in core.step(*args, **more) for told in self._lie(one)]


def play(lie: Callable[[Any], Sequence[Any]], *, story: str = STORY, **numbers: Any) -> str:
    """Play a story on a core that lies; the line that says what is wrong."""
    liar: Any = LyingCore(lie, **numbers)
    problem = ScenarioRun("x.scn", core=liar).play(parse(story, file="x.scn"))
    assert problem is not None
    return problem


def honest(one: Any) -> list[Any]:
    """Say what is."""
    return [one]


def about(kind: type, job: str, change: Callable[[Any], Sequence[Any]]) -> Callable[[Any], Any]:
    """Lie about decisions of one kind and job only."""

    def lie(one: Any) -> Sequence[Any]:
        named = isinstance(one, kind) and getattr(one, "job", job) == job
        return change(one) if named else [one]

    return lie


def nothing(_one: Any) -> list[Any]:
    """Keep silent."""
    return []


def seats_of(*seats: tuple[str, int]) -> tuple[d.Seat, ...]:
    """Whole-node seats: the node, and how many GPUs from the first on."""
    return tuple(d.Seat(node=node, gpus=tuple(range(gpus))) for node, gpus in seats)


def put(*seats: tuple[str, int]) -> Callable[[Any], list[Any]]:
    """Say that a gang stands elsewhere."""
    return lambda one: [replace(one, seats=seats_of(*seats))]


def let_go(why: str) -> Callable[[Any], list[Any]]:
    """Say that the room kept for a job is let go before it is placed."""
    return lambda one: [d.ReservationReleased(job=one.job, why=why), one]


def test_the_story_itself_is_fine() -> None:
    """Without a lie nothing is found."""
    commands = parse(STORY, file="x.scn")

    assert ScenarioRun("x.scn").play(commands) is None


@pytest.mark.parametrize(
    ("lie", "rule"),
    [
        (about(d.GangPlaced, "k", put(("s0-b0-n0", 8), ("s0-b1-n0", 8))), "rule 1: "),
        (about(d.GangPlaced, "j", put(("s0-b0-n0", 8), ("s0-b0-n1", 4))), "rule 2: "),
        (about(d.GangPlaced, "j", put(("s0-b0-n0", 9), ("s0-b0-n1", 7))), "rule 2: "),
        (about(d.GangPlaced, "j", put(("s9-b0-n0", 8), ("s0-b0-n1", 8))), "rule 2: "),
        (about(d.GangPlaced, "j", lambda one: [one, one]), "rule 2: "),
        (about(d.MembersReady, "j", nothing), "rule 2: "),
        (about(d.GangReleased, "j", lambda one: [one, one]), "rule 2: "),
        (about(d.GangReleased, "k", nothing), "rule 1: "),
        (about(d.NodeAdded, "", lambda one: [replace(one, gpus=7)]), "rule 3: "),
        (about(d.GangPlaced, "j", nothing), "rule 3: "),
        (about(d.JobFinished, "o", lambda one: [one, one]), "rule 5: "),
        (about(d.JobQueued, "j", lambda one: [one, one]), "rule 5: "),
        (
            about(
                d.JobQueued,
                "o",
                lambda one: [one, d.JobFinished(job="o", outcome=d.Outcome.FAILED)],
            ),
            "rule 5: ",
        ),
        (about(d.CheckpointRecorded, "j", nothing), "rule 7: "),
        (about(d.GangStarted, "j", lambda one: [replace(one, resumed_ms=1)]), "rule 7: "),
        (about(d.GangPreempted, "k", lambda one: [replace(one, claimant="j")]), "rule 8: "),
        (about(d.GangPreempted, "k", lambda one: [replace(one, cause="class")]), "rule 8: "),
        (about(d.GangPreempted, "k", lambda one: [one, one]), "rule 8: "),
        (about(d.GangPlaced, "o", let_go("expired")), "rule 8: "),
        (about(d.GangPlaced, "o", let_go("fault")), "rule 8: "),
        (about(d.WaitCauseChanged, "", nothing), "rule 9: "),
    ],
)
def test_a_wrong_decision_is_found(lie: Callable[[Any], Sequence[Any]], rule: str) -> None:
    """At the step that made it, by the name of the rule."""
    problem = play(lie)

    assert f"expected {rule}" in problem


class Numbers:
    """Whatever numbers a test wants."""

    def __init__(self, real: Any, **more: int) -> None:
        self._real = real
        self._more = more

    def __getattr__(self, name: str) -> int:
        return int(self._more.get(name, 0)) + int(getattr(self._real, name))


@pytest.mark.parametrize(
    ("ask", "key", "rule"),
    [
        ("fleet_numbers", "held", "rule 3: "),
        ("fleet_numbers", "free", "rule 3: "),
        ("fleet_numbers", "unhealthy", "rule 3: "),
        ("team_numbers", "used", "rule 4: "),
        ("team_numbers", "guaranteed_used", "rule 4: "),
        ("team_numbers", "borrowed", "rule 4: "),
        ("team_numbers", "lent", "rule 4: "),
    ],
)
def test_a_wrong_number_is_found(ask: str, key: str, rule: str) -> None:
    """What the core says of fleet and teams is counted again from its decisions."""

    def wrong(*args: Any) -> Numbers:
        return Numbers(getattr(core, ask)(*args), **{key: 1})

    numbers: dict[str, Any] = {ask: wrong}
    problem = play(honest, **numbers)

    assert f"expected {rule}" in problem


def test_a_state_that_does_not_fold_is_found() -> None:
    """A decision that was made but not told is missing when the log is read again."""
    story = FLEET + "team a guaranteed=32\nsubmit j team=a gpus=8\nhold j\n"
    problem = play(about(d.JobHeld, "j", nothing), story=story)

    assert "expected rule 6: " in problem


def test_a_limit_is_a_limit() -> None:
    """A team beyond its guarantee and its borrow limit is found when it gets there."""
    story = FLEET + "team a guaranteed=8\nsubmit j team=a gpus=16\n"

    def lie(one: Any) -> list[Any]:
        return [replace(one, borrow=0)] if isinstance(one, d.TeamChanged) else [one]

    assert "expected rule 4: " in play(lie, story=story)


def test_work_that_cannot_be_preempted_is_not() -> None:
    """Nobody may evict it, whatever the class."""

    def lie(one: Any) -> list[Any]:
        if isinstance(one, d.JobQueued) and one.job == "k":
            return [replace(one, spec=replace(one.spec, preemptible=False))]
        return [one]

    assert "rule 8: " in play(lie) or "rule 4: " in play(lie)


def test_a_young_attempt_is_protected() -> None:
    """An eviction before min_runtime is found, unless it is by urgent."""

    def lie(one: Any) -> list[Any]:
        if isinstance(one, d.PolicyChanged):
            return [replace(one, values={"min_runtime": 3_600_000, "min_runtime_max": 3_600_000})]
        return [one]

    assert "has not run for min_runtime" in play(lie)
