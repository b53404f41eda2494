"""Guarantees of single GPU models: who stands on what is counted, and who is judged by it."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.decisions import WaitCause
from gangline.scheduler import core
from gangline.scheduler.core import quota
from gangline.scheduler.core.fit import never_fits
from gangline.scheduler.core.rebuild import count_models
from gangline.scheduler.core.state import State
from tests.core import make
from tests.core.life import Life

H100 = {"model": "h100"}
LAB = [
    make.team("lab", 24),
    make.team("x", 8, by_model={"h100": 8}, parent="lab"),
    make.team("y", 8, parent="lab"),
    make.team("z", 8, by_model={"h100": 4}),
]


def mixed(*running: make.Gang, teams: list[f.TeamSet] | None = None, **policy: int) -> make.World:
    """Two nodes of h100 (n0, n1) and two of a100 (n2, n3), of eight GPUs each."""
    world = make.world(nodes=0, teams=LAB if teams is None else teams)
    if policy:
        world.step(f.PolicySet(values=policy))
    models = ("h100", "h100", "a100", "a100")
    world.step(*(make.admitted(f"n{i}", model=model) for i, model in enumerate(models)))
    for one in running:
        world.run(one)
    return world


Numbers = dict[str, dict[str, tuple[Any, ...]]]


def numbers(state: State) -> Numbers:
    """What is counted of each guaranteed model, of each team."""
    return {
        model: {
            team.name: (
                team.guaranteed,
                *(team.own, team.used, team.own_pledged, team.pledged),
                *sorted((gang, job.by_model[model]) for gang, job in team.gangs.items()),
            )
            for team in tree.values()
        }
        for model, tree in state.models.trees.items()
    }


# --- what is counted ------------------------------------------------------------------------------


def test_a_team_without_a_number_is_guaranteed_what_its_children_are() -> None:
    """And one with none under it nothing."""
    tree = mixed().state.models.trees["h100"]

    assert {name: team.guaranteed for name, team in tree.items()} == {
        "lab": 8,
        "x": 8,
        "y": 0,
        "z": 4,
    }


def test_nothing_is_counted_where_nobody_is_guaranteed_a_model() -> None:
    """Nor where a number is 0, which takes it back."""
    world = mixed(
        make.gang("j", on="n0", team="a"), teams=[make.team("a", 32, by_model={"h100": 0})]
    )

    assert numbers(world.state) == {}
    assert world.job("j").by_model == {}


def test_a_gang_counts_with_what_it_has_of_the_model() -> None:
    """Here half of it, in its team and all above."""
    world = mixed(make.gang("j", on=["n1", "n2"], gpus=16, team="x"))

    tree = world.state.models.trees["h100"]
    assert {name: team.used for name, team in tree.items()} == {"lab": 8, "x": 8, "y": 0, "z": 0}
    assert world.job("j").by_model == {"h100": 8}


def test_what_stands_on_a_node_that_is_withdrawn_counts_no_more() -> None:
    """Though the gang holds its other nodes until it is out."""
    world = mixed(make.gang("j", on=["n0", "n1"], gpus=16, team="x"))

    world.step(f.NodeWithdrawn(node="n0"))
    stopping = numbers(world.state)["h100"]["x"]
    world.step(f.JobCancelRequested(job="j"))
    world.exits("j", "n1", reason="stopped")

    assert stopping == (8, 8, 8, -8, -8, ("j", 8))
    assert numbers(world.state)["h100"]["x"] == (8, 0, 0, 0, 0)


def test_a_number_that_comes_later_counts_what_stands_there_already() -> None:
    """Gangs and claims."""
    world = mixed(
        make.gang("z1", on="n0", team="z"),
        make.gang("z2", on="n1", team="z"),
        teams=[make.team("x", 8), make.team("z", 8)],
        min_runtime=0,
    )
    world.step(make.submitted("j", 8, team="x", selector=H100))

    world.step(make.team("z", by_model={"h100": 4}))

    assert numbers(world.state)["h100"]["x"] == (0, 0, 0, 8, 8)
    assert numbers(world.state)["h100"]["z"] == (4, 16, 16, -8, -8, ("z1", 8), ("z2", 8))


@pytest.mark.parametrize("seed", range(12))
def test_numbers_in_step_are_those_from_scratch_and_of_a_snapshot(seed: int) -> None:
    """Whatever happens to a cell in which nodes and guarantees of models come and go."""
    life = Life(seed, models=True)

    counted = 0
    for _ in range(25):
        state = life.run(8).state
        told = numbers(state)
        counted += any(team[2] for tree in told.values() for team in tree.values())
        assert numbers(core.load(core.dump(state))) == told
        count_models(state)
        assert numbers(state) == told
    assert counted


# --- who is judged by it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("team", "gpus", "selector", "barrier"),
    [
        ("x", 8, H100, None),
        ("z", 4, H100, None),
        ("z", 5, H100, ("guarantee", "z", 0, 4, "h100")),
        ("y", 1, H100, ("guarantee", "y", 0, 0, "h100")),
        ("y", 8, {}, None),
        ("y", 8, {"model": "a100"}, None),
        ("z", 9, H100, ("guarantee", "z", 0, 8, "")),
    ],
)
def test_what_is_never_preempted_stays_inside_the_models_guarantee(
    team: str, gpus: int, selector: dict[str, str], barrier: tuple[Any, ...] | None
) -> None:
    """And inside that of all GPUs; now, and ever."""
    spec = make.spec(gpus, team=team, selector=selector, preemptible=False)
    state = mixed().state

    assert quota.barrier(state, spec) == barrier
    assert quota.never(state, spec) == barrier


def test_a_submission_that_can_never_start_is_told_the_model() -> None:
    """And how many GPUs could."""
    spec = make.spec(6, team="z", selector=H100, preemptible=False)

    assert never_fits(mixed().state, spec) == (
        "quota",
        "team z may never hold 6 GPUs of h100, at most 4",
        "gpus=4",
    )


def test_the_wait_for_a_models_guarantee_is_told() -> None:
    """The cause, the numbers of the model, and what would start it."""
    world = mixed(make.gang("z1", on="n0", gpus=2, team="z"))
    world.step(make.submitted("j", 4, team="z", selector=H100, preemptible=False))

    cause, text = core.explain(world.state, "j", now_ms=world.now_ms)
    assert cause is WaitCause.BORROW_LIMIT
    assert text == (
        "needs 4 GPUs; team z uses 2 of h100 and its guarantee of h100, which a preemptible=no "
        "job may not exceed, is 4; starts when 2 h100 of team z are released"
    )


def test_an_eviction_by_a_models_guarantees_says_so() -> None:
    """In its certificate."""
    world = mixed(
        make.gang("y1", on="n0", team="y"), make.gang("y2", on="n1", team="y"), min_runtime=0
    )

    told = world.step(make.submitted("j", 8, team="x", selector=H100))

    preempted = make.only(told, d.GangPreempted)
    assert preempted.cause == "reclaim"
    assert preempted.certificate.binding == (
        "cheapest victims of a proven place, by the guarantees of h100"
    )


def test_who_wants_a_model_counts_what_may_be_reclaimed_of_it() -> None:
    """What stands elsewhere is of no use."""
    world = mixed(
        make.gang("z1", on="n0", team="z", preemptible=False),
        make.gang("z2", on="n1", team="z"),
        make.gang("z3", on="n2", team="z"),
        make.gang("z4", on="n3", team="z"),
    )
    world.step(make.submitted("j", 16, team="x", selector=H100))
    world.step(make.submitted("k", 8, team="x", selector=H100))

    _, text = core.explain(world.state, "k", now_ms=world.now_ms)
    assert "needs 8 GPUs of h100; 0 are free and 8 may be reclaimed" in text


@pytest.mark.parametrize(
    ("where", "evicted"),
    [("n0", []), ("n2", ["x1"])],
)
def test_what_stands_inside_a_models_guarantee_is_not_for_whoever_wants_any(
    where: str, evicted: list[str]
) -> None:
    """Though its team is above its guarantee in all."""
    elsewhere = [n for n in ("n0", "n1", "n2", "n3") if n != where]
    world = mixed(
        make.gang("x1", on=where, team="x"),
        *(
            make.gang(f"k{i}", on=node, team="x", preemptible=False)
            for i, node in enumerate(elsewhere)
        ),
        teams=[make.team("x", 16, by_model={"h100": 16}), make.team("y", 16)],
        min_runtime=0,
    )

    told = world.step(make.submitted("j", 8, team="y"))

    assert [one.job for one in make.of_kind(told, d.GangPreempted)] == evicted
