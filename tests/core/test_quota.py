"""The quota tree: what keeps a gang out, who lends, who may take from whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.events import facts as f
from gangline.scheduler import core
from gangline.scheduler.core import quota
from gangline.scheduler.core.quota import TeamNumbers
from tests.core import make
from tests.support.examples import examples

A8, B8 = make.team("a", 8), make.team("b", 8)
TREE = [
    make.team("p", 12),
    make.team("q", 4),
    make.team("a", 4, parent="p"),
    make.team("b", 4, parent="p"),
    make.team("c", 4, parent="q"),
]


def holding(teams: list[f.TeamSet], **gpus: int) -> make.World:
    """Sixteen GPUs, of which teams hold so many, each GPU by a gang of its own."""
    world = make.world(nodes=2, teams=teams, preemption_chain=0)
    for team, count in gpus.items():
        for index in range(count):
            node = next(n for n in world.state.nodes.values() if n.avail)
            world.run(make.gang(f"{team}{index}", on=node.name, gpus=1, team=team))
    return world


def stopped(world: make.World, gpus: int, **fields: Any) -> tuple[Any, ...] | None:
    """What keeps so many more GPUs of team `a` out, without the model."""
    found = quota.barrier(world.state, make.spec(gpus, **fields))
    return None if found is None else found[:4]


# --- what keeps a gang out ------------------------------------------------------------------------

ROWS: list[tuple[str, list[f.TeamSet], dict[str, int], int, tuple[str, str, int, int] | None]] = [
    ("inside its guarantee", [A8, B8], {}, 8, None),
    ("it borrows without limit", [A8, B8], {"a": 8}, 8, None),
    ("up to its limit", [make.team("a", 8, borrow=4), B8], {"a": 8}, 4, None),
    ("beyond its limit", [make.team("a", 8, borrow=4), B8], {"a": 8}, 5, ("borrow", "a", 8, 12)),
    ("it may not borrow", [make.team("a", 8, borrow=0), B8], {"a": 8}, 1, ("borrow", "a", 8, 8)),
    ("all of the idle is lent", [A8, make.team("b", 8, lend=8)], {"a": 8}, 8, None),
    ("a part is lent", [A8, make.team("b", 8, lend=2)], {"a": 8}, 2, None),
    ("more than is lent", [A8, make.team("b", 8, lend=2)], {"a": 8}, 3, ("lend", "a", 14, 16)),
    ("nothing is lent", [A8, make.team("b", 8, lend=0)], {"a": 8}, 1, ("lend", "a", 16, 16)),
    (
        "what is used is lent",
        [A8, make.team("b", 8, lend=0)],
        {"a": 8, "b": 8},
        1,
        ("lend", "a", 16, 16),
    ),
    ("nobody's part is a pool", [A8, make.team("b", 4, lend=0)], {"a": 8}, 4, None),
    ("the pool has an end", [A8, make.team("b", 4, lend=0)], {"a": 8}, 5, ("lend", "a", 12, 16)),
    (
        "a parent's limit",
        [make.team("p", 8, borrow=0), make.team("a", 4, parent="p"), make.team("b", 4, parent="p")],
        {"a": 4, "b": 4},
        1,
        ("borrow", "p", 8, 8),
    ),
    (
        "a sibling lends inside the parent",
        [make.team("p", 8, borrow=0), make.team("a", 4, parent="p"), make.team("b", 4, parent="p")],
        {"a": 4},
        4,
        None,
    ),
    (
        "a sibling that does not lend, inside a parent that may not borrow",
        [
            make.team("p", 8, borrow=0),
            make.team("a", 4, parent="p"),
            make.team("b", 4, parent="p", lend=0),
        ],
        {"a": 4},
        1,
        ("borrow", "p", 8, 8),
    ),
]


@pytest.mark.parametrize(
    ("teams", "used", "gpus", "barrier"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_what_keeps_a_gang_out(
    teams: list[f.TeamSet],
    used: dict[str, int],
    gpus: int,
    barrier: tuple[str, str, int, int] | None,
) -> None:
    """The kind, the team whose numbers stand in the way, what it uses and what it may."""
    world = holding(teams, **used)

    assert stopped(world, gpus) == barrier


@pytest.mark.parametrize("preemptible", [True, False])
@pytest.mark.parametrize(("teams", "used"), [r[1:3] for r in ROWS], ids=[r[0] for r in ROWS])
def test_more_than_may_be_added_meets_a_barrier(
    teams: list[f.TeamSet],
    used: dict[str, int],
    preemptible: bool,  # noqa: FBT001 - a row
) -> None:
    """And, where nobody limits what it lends, as much as may be added meets none."""
    state = holding(teams, **used).state
    most = quota.addable(state, make.spec(preemptible=preemptible))

    for gpus in range(1, 17):
        found = quota.barrier(state, make.spec(gpus, preemptible=preemptible))
        if most is not None and gpus > most:
            assert found is not None
        elif not state.lending_limited:
            assert found is None


@pytest.mark.parametrize(
    ("used", "gpus", "barrier"),
    [
        (0, 8, None),
        (4, 4, None),
        (4, 5, ("guarantee", "a", 4, 8)),
        (8, 1, ("guarantee", "a", 8, 8)),
    ],
)
def test_what_may_not_be_preempted_runs_only_inside_the_guarantee(
    used: int, gpus: int, barrier: tuple[str, str, int, int] | None
) -> None:
    """Nobody could ever take back what it borrowed."""
    world = holding([A8, B8], a=used)

    assert stopped(world, gpus, preemptible=False) == barrier


@given(
    st.integers(0, 8),
    st.integers(-1, 8),
    st.integers(-1, 8),
    st.integers(0, 16),
    st.integers(1, 16),
)
@settings(max_examples=examples(50), deadline=None)
def test_a_limit_that_never_binds_changes_nothing(
    guaranteed: int, borrow: int, lend: int, other: int, gpus: int
) -> None:
    """An unlimited lender, told in numbers, is the same as one told in words."""
    words = [make.team("a", guaranteed, borrow=borrow), make.team("b", other, lend=-1)]
    numbers = [make.team("a", guaranteed, borrow=borrow, lend=lend), make.team("b", other, lend=16)]
    said = quota.barrier(holding(words).state, make.spec(gpus))
    counted = quota.barrier(holding(numbers).state, make.spec(gpus))

    assert said is None or counted is not None
    assert counted is None or counted.kind == "lend" or said == counted


# --- who lends ------------------------------------------------------------------------------------


def numbers(world: make.World) -> dict[str, TeamNumbers]:
    """Of all teams."""
    return {name: core.team_numbers(world.state, name) for name in world.state.teams}


def lent(world: make.World) -> dict[str, int]:
    """What each team lends."""
    return {name: n.lent for name, n in numbers(world).items()}


def test_a_teams_numbers_add_up() -> None:
    """Guaranteed use and borrowed use are what it uses."""
    world = holding([make.team("a", 4), make.team("b", 12)], a=7)
    world.step(f.NodeCordoned(node="n0"), f.NodeCordoned(node="n1"))
    world.step(make.submitted("j", 1, team="b"), make.submitted("k", 1, team="b"))

    assert numbers(world) == {
        "a": TeamNumbers(used=7, guaranteed_used=4, borrowed=3, lent=0, queued=0),
        "b": TeamNumbers(used=0, guaranteed_used=0, borrowed=0, lent=3, queued=2),
    }


LENDING: list[tuple[str, list[f.TeamSet], dict[str, int], dict[str, int]]] = [
    (
        "the pool first",
        [make.team("a", 4), make.team("b", 8)],
        {"a": 7},
        {"a": 0, "b": 0},
    ),
    (
        "then those with idle guarantee",
        [make.team("a", 4), make.team("b", 8)],
        {"a": 10},
        {"a": 0, "b": 2},
    ),
    (
        "who has most idle before the others",
        [make.team("a", 0), make.team("b", 4), make.team("c", 12)],
        {"a": 13},
        {"a": 0, "b": 1, "c": 12},
    ),
    (
        "whoever was there first of two with as much",
        [make.team("a", 0), make.team("b", 8), make.team("c", 8)],
        {"a": 5},
        {"a": 0, "b": 5, "c": 0},
    ),
    (
        "up to the lend limit",
        [make.team("a", 4), make.team("b", 8, lend=1), make.team("c", 4)],
        {"a": 8},
        {"a": 0, "b": 1, "c": 3},
    ),
    (
        "siblings before cousins",
        TREE,
        {"a": 8},
        {"p": 0, "q": 0, "a": 0, "b": 0, "c": 0},
    ),
    (
        "a sibling when the parent's own part is used up",
        TREE,
        {"a": 11},
        {"p": 0, "q": 0, "a": 0, "b": 3, "c": 0},
    ),
    (
        "cousins last, and their parent outside",
        TREE,
        {"a": 14},
        {"p": 0, "q": 2, "a": 0, "b": 4, "c": 0},
    ),
]


@pytest.mark.parametrize(
    ("teams", "used", "expected"), [r[1:] for r in LENDING], ids=[r[0] for r in LENDING]
)
def test_who_lends(teams: list[f.TeamSet], used: dict[str, int], expected: dict[str, int]) -> None:
    """Under the same parent; what the parent lends further out stands at the parent."""
    assert lent(holding(teams, **used)) == expected


@given(st.lists(st.tuples(st.integers(0, 16), st.integers(0, 6)), min_size=1, max_size=4))
@settings(max_examples=examples(60), deadline=None)
def test_what_is_lent_is_what_is_borrowed(teams: list[tuple[int, int]]) -> None:
    """Together with the pool, and nobody lends more than is idle."""
    left, used = 16, {}
    for index, (_, wanted) in enumerate(teams):
        used[f"t{index}"] = min(wanted, left)
        left -= used[f"t{index}"]
    sets = [make.team(f"t{i}", guaranteed) for i, (guaranteed, _) in enumerate(teams)]
    told = numbers(holding(sets, **used))

    pool = max(0, 16 - sum(guaranteed for guaranteed, _ in teams))
    borrowed = sum(n.borrowed for n in told.values())
    assert sum(n.lent for n in told.values()) == max(0, borrowed - pool)
    for index, (guaranteed, _) in enumerate(teams):
        assert 0 <= told[f"t{index}"].lent <= max(0, guaranteed - used[f"t{index}"])


# --- who may take from whom -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claimant", "victim", "ancestor", "mine", "theirs"),
    [
        ("a", "b", "p", ["a"], ["b"]),
        ("a", "c", "", ["a", "p"], ["c", "q"]),
        ("a", "p", "p", ["a"], []),
        ("p", "a", "p", [], ["a"]),
        ("a", "a", "a", [], []),
        ("p", "q", "", ["p"], ["q"]),
    ],
)
def test_two_teams_are_judged_below_their_nearest_common_ancestor(
    claimant: str, victim: str, ancestor: str, mine: list[str], theirs: list[str]
) -> None:
    """Innermost first; a side is empty where the team is that ancestor itself."""
    parts = quota.sides(holding(TREE).state, claimant, victim)

    assert parts.ancestor.name == ancestor
    assert [team.name for team in parts.claimant] == mine
    assert [team.name for team in parts.victim] == theirs


SIDES: list[tuple[str, dict[str, int], str, str, int, tuple[bool, bool]]] = [
    ("inside, and the other above", {"b": 5}, "a", "b", 4, (True, True)),
    ("one too many for the guarantee", {"b": 5}, "a", "b", 5, (False, True)),
    ("the other is just at its guarantee", {"b": 4}, "a", "b", 4, (True, False)),
    ("what is used counts", {"a": 3, "b": 5}, "a", "b", 2, (False, True)),
    (
        "all ancestors below the common one count, of the victim",
        {"b": 5},
        "c",
        "b",
        4,
        (True, False),
    ),
    ("and they are above together", {"b": 13}, "c", "b", 3, (True, True)),
    ("all ancestors count, of the claimant", {"c": 5, "b": 10}, "a", "c", 3, (False, True)),
    ("a child takes from its parent's own gangs", {"p": 5}, "a", "p", 4, (True, True)),
    ("the parent's own part is the parent's", {"p": 4}, "a", "p", 4, (True, False)),
    ("a parent takes back its own part", {"a": 6}, "p", "a", 4, (True, True)),
    ("but no more than that", {"a": 6}, "p", "a", 5, (False, True)),
]


@pytest.mark.parametrize(
    ("used", "claimant", "victim", "gpus", "judged"),
    [r[1:] for r in SIDES],
    ids=[r[0] for r in SIDES],
)
def test_who_is_inside_and_who_is_above(
    used: dict[str, int], claimant: str, victim: str, gpus: int, judged: tuple[bool, bool]
) -> None:
    """The claimant's side with the new gang, the victim's as it is."""
    parts = quota.sides(holding(TREE, **used).state, claimant, victim)

    assert (quota.inside(parts, gpus), quota.above(parts)) == judged


# --- stories --------------------------------------------------------------------------------------


def test_an_owner_gets_back_what_was_borrowed() -> None:
    """Idle guarantee is lent, and taken back by reclaim."""
    running = [make.gang(f"b{i}", on=f"n{i}", team="b") for i in range(2)]
    world = make.world(nodes=2, teams=[A8, B8], running=running)

    told = world.step(make.submitted("j", 8))
    (victim,) = [one.job for one in told if type(one).__name__ == "GangPreempted"]
    world.exits(victim, reason="stopped")

    assert world.state_of("j") == "starting"


def test_a_guarantee_lowered_under_work_that_may_not_be_preempted_leaves_it() -> None:
    """It runs on, as borrowed."""
    world = make.world(
        nodes=1, teams=[A8], running=[make.gang("j", on="n0", gpus=8, preemptible=False)]
    )

    world.step(make.team("a", 4), make.team("b", 4), make.submitted("k", 4, team="b"))

    assert [world.state_of(one) for one in ("j", "k")] == ["running", "queued"]
    assert core.team_numbers(world.state, "a").borrowed == 4


def test_guarantees_that_add_up_to_more_than_the_fleet_are_allowed() -> None:
    """Nobody reclaims inside a guarantee."""
    world = make.world(
        nodes=1,
        teams=[A8, B8],
        running=[make.gang("j", on="n0", gpus=8, team="a")],
    )

    told: list[Any] = world.step(make.submitted("k", 8, team="b"))

    assert "GangPreempted" not in make.kinds(told)
    assert world.state_of("k") == "queued"
