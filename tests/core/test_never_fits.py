"""What is said to be impossible is so, and what is not said so starts in the empty fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.events import facts as f
from tests.core import make
from tests.support.examples import examples

PATHS = ["s0/b0", "s0/b1", "s1/b2"]
GPUS = 3
FLEETS = st.dictionaries(st.sampled_from(PATHS), st.integers(1, 3), min_size=1)
GUARANTEES = st.integers(0, 12)
LIMITS = st.sampled_from([-1, 0, 1, 3, 6])


@st.composite
def team_trees(draw: st.DrawFn) -> list[f.TeamSet]:
    """A parent with `a` and `b` below it, and `c` beside it."""
    parent = st.sampled_from(["", "p"])

    def one(name: str, above: str = "") -> f.TeamSet:
        return make.team(
            name, draw(GUARANTEES), borrow=draw(LIMITS), lend=draw(LIMITS), parent=above
        )

    return [one("p"), one("a", draw(parent)), one("b", draw(parent)), one("c")]


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """What a job may ask for."""
    per_node = draw(st.integers(0, GPUS + 1))
    gpus = per_node * draw(st.integers(1, 6)) if per_node else draw(st.integers(1, 28))
    return {
        "gpus": gpus,
        "gpus_per_node": per_node or None,
        "level": draw(st.sampled_from(["", "spine", "block", "node"])),
        "preemptible": draw(st.booleans()),
    }


def has_room(fleet: Mapping[str, int], asked: Mapping[str, Any]) -> bool:
    """Whether the empty fleet has the shape, by counting."""
    depth = {"": 0, "spine": 1, "block": 2, "node": 3}[asked["level"]]
    counts: dict[tuple[str, ...], int] = {}
    per_node = asked["gpus_per_node"]
    each = GPUS if per_node is None else per_node if per_node <= GPUS else 0
    for path, nodes in fleet.items():
        for index in range(nodes):
            domain = (*path.split("/"), str(index))[:depth]
            counts[domain] = counts.get(domain, 0) + each
    return bool(max(counts.values()) >= asked["gpus"])


def within_limits(teams: list[f.TeamSet], asked: Mapping[str, Any], capacity: int) -> bool:
    """Whether the guarantee and the borrow limits allow it, where everybody lends all."""
    by_name = {team.team: team for team in teams}
    own = by_name["a"]
    if not asked["preemptible"] and asked["gpus"] > (own.guaranteed or 0):
        return False
    chain = [own] + ([by_name[own.parent]] if own.parent else [])
    limits = [(t.guaranteed or 0) + (t.borrow or 0) for t in chain if t.borrow != -1]
    return bool(asked["gpus"] <= min([capacity, *limits]))


@given(FLEETS, team_trees(), specs())
@settings(max_examples=examples(150), deadline=None)
def test_in_the_empty_fleet_a_job_starts_or_is_rejected(
    fleet: dict[str, int], teams: list[f.TeamSet], asked: dict[str, Any]
) -> None:
    """It never waits: whatever could keep it out for ever was said at its submission."""
    world = make.world(nodes=fleet, gpus=GPUS, teams=teams)

    world.step(make.submitted("j", **asked))

    assert world.state_of("j") in {"starting", "rejected"}


@given(FLEETS, team_trees(), specs())
@settings(max_examples=examples(150), deadline=None)
def test_what_is_rejected_is_impossible_and_what_is_not_is_possible(
    fleet: dict[str, int], teams: list[f.TeamSet], asked: dict[str, Any]
) -> None:
    """By counting, where everybody lends all that is idle."""
    lending = [make.team(t.team, t.guaranteed, borrow=t.borrow, parent=t.parent) for t in teams]
    world = make.world(nodes=fleet, gpus=GPUS, teams=lending)
    capacity = sum(fleet.values()) * GPUS

    world.step(make.submitted("j", **asked))

    possible = has_room(fleet, asked) and within_limits(lending, asked, capacity)
    assert (world.state_of("j") == "starting") == possible


@given(FLEETS, team_trees(), specs())
@settings(max_examples=examples(100), deadline=None)
def test_the_nearest_request_that_is_named_starts(
    fleet: dict[str, int], teams: list[f.TeamSet], asked: dict[str, Any]
) -> None:
    """Whoever follows the advice is not rejected again for the same reason."""
    world = make.world(nodes=fleet, gpus=GPUS, teams=teams)
    told = world.step(make.submitted("j", **asked))
    nearest = getattr(told[-1], "nearest", "") if world.state_of("j") == "rejected" else ""
    if not nearest:
        return
    first = told[-1].reason

    again = world.step(make.submitted("k", **advised(asked, nearest)))

    if world.state_of("k") != "starting":
        assert again[-1].reason != first


def advised(asked: Mapping[str, Any], nearest: str) -> dict[str, Any]:
    """The request changed as was said."""
    words = nearest.split()
    changed = {**asked, "gpus": int(words[0].removeprefix("gpus="))}
    if words[1:] == ["topology=any"]:
        changed["level"] = ""
    elif words[1:] == ["without", "gpus_per_node"]:
        changed["gpus_per_node"] = None
    return changed
