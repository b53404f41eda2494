"""The checker judges guarantees of GPU models by the decisions alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events import decisions as d
from gangline.replay.broken_rule import Rule
from tests.replay.test_check import Forgery, found, name_of, named, of, team, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.replay.check.checker import Told

STORY = """\
fleet spines=1 blocks=1 nodes=2 gpus=8 model=h100
fleet spines=1 blocks=1 nodes=1 gpus=8 model=a100
policy min_runtime=0s
team lab guaranteed=8
team a guaranteed=8 guaranteed.h100=8 parent=lab
team b guaranteed=8
team c guaranteed=8
submit lent team=b gpus=8 model=h100 runtime=9h checkpoint=5m
submit other team=b gpus=8 model=a100 runtime=9h checkpoint=5m
submit too team=c gpus=8 model=h100 runtime=9h checkpoint=5m
run 6m
submit back team=a gpus=4 model=h100 runtime=1h
run 10m
submit kept team=a gpus=4 model=h100 runtime=1h preemptible=no
run 10m
expect back state=running
expect kept state=running
expect total preemptions=1
"""


@pytest.fixture(scope="module")
def story() -> list[Told]:
    """One takes back a model, and one that is never preempted takes the rest."""
    return told(STORY)


def of_models(**models: int) -> Callable[[d.TeamChanged], d.TeamChanged]:
    """The team with other guarantees of models."""
    return lambda it: replace(it, by_model=models)


FORGERIES: list[Forgery] = [
    (
        "a claimant that is guaranteed less",
        d.TeamChanged,
        of_models(h100=3),
        lambda it: it.team == "a" and bool(it.by_model),
        Rule.NOT_IN_VAIN,
        "back would not be inside the guarantee of h100 of a",
    ),
    (
        "a parent that is guaranteed less",
        d.TeamChanged,
        of_models(h100=3),
        team("lab"),
        Rule.NOT_IN_VAIN,
        "back would not be inside the guarantee of h100 of lab",
    ),
    (
        "a victim inside its own",
        d.TeamChanged,
        lambda it: [it, replace(it, team="c", by_model={"h100": 8}, guaranteed=8)],
        team("c"),
        Rule.NOT_IN_VAIN,
        "too is inside the guarantee of h100 of c",
    ),
    (
        "a victim that does not stand on it",
        d.GangPreempted,
        lambda it: replace(it, job="other"),
        of("too"),
        Rule.NOT_IN_VAIN,
        "other has no GPU of h100",
    ),
    (
        "a claimant that does not want it",
        d.JobQueued,
        lambda it: replace(it, spec=replace(it.spec, selector={})),
        of("back"),
        Rule.NOT_IN_VAIN,
        "too is inside the guarantee of c",
    ),
    (
        "what is never preempted beyond it",
        d.JobQueued,
        lambda it: replace(it, spec=replace(it.spec, preemptible=False)),
        of("lent"),
        Rule.LIMITS,
        "lent cannot be preempted and is beyond b's guarantee of h100",
    ),
]


@pytest.mark.parametrize("forgery", FORGERIES, ids=name_of)
def test_a_forged_guarantee_is_found_and_named(story: list[Told], forgery: Forgery) -> None:
    """With the model in words."""
    named(story, forgery)


def test_what_happened_is_right(story: list[Told]) -> None:
    """Before anybody forged anything."""
    assert found(story) == []
