"""Preemption: who may take from whom, whom it hits, and never in vain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.spec import JobClass
from gangline.scheduler import core
from gangline.scheduler.core.entities import Job
from gangline.scheduler.core.fleet import mask_of
from gangline.scheduler.core.victims import lost_gpu_ms
from tests.core import make
from tests.support.examples import examples

GPUS = 4


def preempted(decisions: Sequence[Any]) -> set[str]:
    """Who is told to leave for another."""
    return {one.job for one in make.of_kind(decisions, d.GangPreempted)}


# --- rights ---------------------------------------------------------------------------------------

# The claimant is of team `a` (guarantee 8), the victim of team `b`, which uses 8 of 8 GPUs.
RIGHTS: list[tuple[str, JobClass, JobClass, int, str]] = [
    # the claimant's class, the victim's, what is guaranteed to b, the right
    ("urgent takes a lower class, in another's guarantee too", make.URGENT, make.HIGH, 8, "class"),
    ("urgent does not take urgent", make.URGENT, make.URGENT, 0, ""),
    ("high takes a lower class of a team that borrows", make.HIGH, make.NORMAL, 4, "class"),
    ("high does not take inside another's guarantee", make.HIGH, make.LOW, 8, ""),
    ("high takes back from its equal", make.HIGH, make.HIGH, 4, "reclaim"),
    ("normal takes back from its equal", make.NORMAL, make.NORMAL, 4, "reclaim"),
    ("low takes back from high", make.LOW, make.HIGH, 4, "reclaim"),
    ("nobody takes back from urgent", make.NORMAL, make.URGENT, 4, ""),
    ("normal has no right by class", make.NORMAL, make.LOW, 8, ""),
]


def right(world: make.World, **asked: Any) -> str:
    """By which right the one victim is told to leave; empty where it is not."""
    told = world.step(make.submitted("j", **asked))
    return "".join(one.cause for one in make.of_kind(told, d.GangPreempted))


def two_teams(victim: JobClass, guaranteed: int, mine: int = 8, **fields: Any) -> make.World:
    """Team `b` holds the one node by one gang; team `a` holds nothing."""
    return make.world(
        nodes=1,
        teams=[make.team("a", mine), make.team("b", guaranteed)],
        running=[make.gang("v", on="n0", team="b", job_class=victim, **fields)],
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "guaranteed", "cause"), [r[1:] for r in RIGHTS], ids=[r[0] for r in RIGHTS]
)
def test_by_which_right_one_takes_from_another_team(
    mine: JobClass, theirs: JobClass, guaranteed: int, cause: str
) -> None:
    """By class, as the owner, or not at all."""
    assert right(two_teams(theirs, guaranteed), job_class=mine) == cause


@pytest.mark.parametrize(
    ("mine", "theirs", "cause"),
    [
        (make.URGENT, make.HIGH, "class"),
        (make.HIGH, make.NORMAL, "class"),
        (make.HIGH, make.HIGH, ""),
        (make.NORMAL, make.LOW, ""),
    ],
)
def test_within_a_team_only_class_counts(mine: JobClass, theirs: JobClass, cause: str) -> None:
    """Nobody reclaims from oneself."""
    world = make.world(nodes=1, running=[make.gang("v", on="n0", job_class=theirs)])

    assert right(world, job_class=mine) == cause


def test_what_may_not_be_preempted_is_not() -> None:
    """Not even by urgent."""
    assert right(two_teams(make.LOW, 8, preemptible=False), job_class=make.URGENT) == ""


def test_a_gang_that_reaches_beyond_its_guarantee_takes_nothing_back() -> None:
    """It has to be whole inside."""
    assert right(two_teams(make.NORMAL, 4, mine=7)) == ""
    assert right(two_teams(make.NORMAL, 4, mine=8)) == "reclaim"


@pytest.mark.parametrize(
    ("mine", "told"), [(make.NORMAL, set()), (make.HIGH, set()), (make.URGENT, {"v"})]
)
def test_an_attempt_is_protected_for_its_minimum_run_time(mine: JobClass, told: set[str]) -> None:
    """Not from urgent."""
    world = make.world(
        nodes=1,
        teams=[make.team("a", 8), make.team("b", 0)],
        running=[make.gang("v", on="n0", team="b", ran_ms=make.MINUTE)],
    )

    assert preempted(world.step(make.submitted("j", 8, job_class=mine))) == told


def test_a_protected_attempt_is_taken_as_soon_as_it_is_not_any_more() -> None:
    """Nobody has to ask again."""
    world = make.world(
        nodes=1,
        teams=[make.team("a", 8), make.team("b", 0)],
        running=[make.gang("v", on="n0", team="b", ran_ms=make.MINUTE)],
    )
    world.step(make.submitted("j", 8))

    assert preempted(world.wait(9 * make.MINUTE - 1)) == set()
    assert preempted(world.wait(1)) == {"v"}


def test_protection_doubles_with_each_preemption() -> None:
    """So that every job gets on: it was preempted once, and has twenty minutes now."""
    world = make.world(nodes=1, running=[make.gang("v", on="n0", job_class=make.LOW)])
    world.step(make.submitted("j", 8, job_class=make.URGENT))
    world.exits("v", reason="stopped")
    world.ready("j")
    world.exits("j")
    world.ready("v")
    world.step(make.submitted("k", 8, job_class=make.HIGH))

    assert preempted(world.wait(20 * make.MINUTE - 1)) == set()
    assert preempted(world.wait(1)) == {"v"}


# --- whom it hits ---------------------------------------------------------------------------------


def best(*gangs: make.Gang, gpus: int, job_class: JobClass = make.URGENT) -> set[str]:
    """Whom a claimant of so many GPUs hits on one full node of 8."""
    world = make.world(nodes=1, running=gangs)
    return preempted(world.step(make.submitted("j", gpus, job_class=job_class)))


def victim(name: str, gpus: int = 2, **fields: Any) -> make.Gang:
    """A gang on the one node."""
    return make.gang(name, on="n0", gpus=gpus, **{"job_class": make.LOW, **fields})


def test_the_lowest_class_goes_first() -> None:
    """Though it loses more."""
    high = victim("high", 4, job_class=make.HIGH, saves=True)

    assert best(victim("low", 4, ran_ms=make.DAY), high, gpus=4) == {"low"}


def test_then_whoever_loses_the_least_gpu_time() -> None:
    """A job that saves in its grace loses nothing."""
    saves = victim("saves", 4, ran_ms=make.DAY, saves=True)

    assert best(victim("short", 4), saves, gpus=4) == {"saves"}


def test_then_the_fewest_gpus() -> None:
    """One that fits is enough."""
    gangs = [victim("wide", 6, saves=True), victim("narrow", 2, saves=True)]

    assert best(*gangs, gpus=2) == {"narrow"}


def test_then_the_fewest_jobs() -> None:
    """One gang of four before two of two."""
    gangs = [victim("x", 2, saves=True), victim("y", 2, saves=True), victim("z", 4, saves=True)]

    assert best(*gangs, gpus=4) == {"z"}


def test_nobody_is_hit_whose_leaving_does_not_help() -> None:
    """A greedy choice is pruned."""
    world = make.world(
        nodes=2,
        running=[
            make.gang("useless", on="n0", gpus=2, job_class=make.LOW, saves=True),
            make.gang("in-the-way", on="n0", gpus=6, job_class=make.HIGH),
            make.gang("right", on="n1", gpus=8, job_class=make.NORMAL),
        ],
    )

    told = world.step(make.submitted("j", 8, job_class=make.URGENT, gpus_per_node=8))

    assert preempted(told) == {"right"}


RUNNING = st.lists(
    st.tuples(
        st.integers(1, GPUS),  # its GPUs
        st.integers(0, 2),  # its node
        st.sampled_from([make.LOW, make.NORMAL, make.HIGH, make.URGENT]),
        st.integers(1, 4),  # minutes that it has run
        st.booleans(),  # whether it saves
        st.booleans(),  # whether it may be preempted
    ),
    max_size=8,
)


def fits_without(world: make.World, gone: Sequence[Job], gpus: int, per_node: int) -> bool:
    """Whether the claimant would fit if these were out, by counting."""
    free = []
    for name, node in world.state.nodes.items():
        mask = node.avail
        for job in gone:
            mask |= sum(mask_of(seat.gpus) for seat in job.seats if seat.node == name)
        free.append(mask.bit_count())
    if per_node:
        return sum(1 for one in free if one >= per_node) * per_node >= gpus
    return sum(free) >= gpus


def cost(world: make.World, victims: Sequence[Job]) -> tuple[int, ...]:
    """Lowest class first, then least GPU-time lost, then fewest GPUs, then fewest jobs."""
    parts: list[int] = []
    for job_class in reversed(JobClass):
        those = [job for job in victims if job.job_class is job_class]
        parts += [
            sum(lost_gpu_ms(job, world.now_ms) for job in those),
            sum(job.gpus for job in those),
            len(those),
        ]
    return tuple(parts)


@given(RUNNING, st.integers(1, 12), st.integers(0, GPUS), st.sampled_from([make.HIGH, make.URGENT]))
@settings(max_examples=examples(120), deadline=None)
def test_the_victims_are_the_cheapest_that_do(
    running: Sequence[Any], gpus: int, per_node: int, job_class: JobClass
) -> None:
    """Against all subsets; and nobody is hit where none of them does."""
    gpus = max(per_node, gpus - gpus % per_node) if per_node else gpus
    world = make.crowd(running, nodes=3, gpus=GPUS)
    before = list(world.state.jobs.values())
    able = [one for one in before if one.spec.preemptible and one.job_class < job_class]
    choices = [
        chosen
        for size in range(len(able) + 1)
        for chosen in combinations(able, size)
        if fits_without(world, chosen, gpus, per_node)
    ]

    told = world.step(
        make.submitted("j", gpus, job_class=job_class, gpus_per_node=per_node or None)
    )

    hit = [one for one in before if one.id in preempted(told)]
    assert cost(world, hit) == min((cost(world, c) for c in choices), default=cost(world, ()))


@given(RUNNING, st.integers(1, 12), st.integers(0, GPUS))
@settings(max_examples=examples(80), deadline=None)
def test_nobody_is_evicted_in_vain(running: Sequence[Any], gpus: int, per_node: int) -> None:
    """When the victims are out, the claimant starts, in whichever order they leave."""
    gpus = max(per_node, gpus - gpus % per_node) if per_node else gpus
    world = make.crowd(running, nodes=3, gpus=GPUS)

    victims = preempted(
        world.step(make.submitted("j", gpus, job_class=make.URGENT, gpus_per_node=per_node or None))
    )
    for one in sorted(victims, reverse=True):
        assert world.state_of("j") == "queued"
        world.exits(one, reason="stopped")

    assert not victims or world.state_of("j") == "starting"


TEAMS_OF = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(1, 8), st.sampled_from(list(JobClass))),
    max_size=10,
)


@given(
    TEAMS_OF,
    TEAMS_OF,
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
    st.sampled_from([-1, 0, 2]),
)
@example(
    # An owner that comes back to what is lent to a standing claim waits until the claim is met.
    running=[("a", 4, make.LOW), ("b", 2, make.LOW), ("a", 3, make.LOW), ("a", 7, make.URGENT)],
    asked=[("a", 6, make.HIGH), ("a", 1, make.LOW)],
    guarantees=[0, 2, 4],
    lend=2,
)
@example(
    # What an urgent job would take is kept for one before it, that needs more.
    running=[
        ("a", 1, make.LOW),
        ("a", 1, make.LOW),
        ("a", 8, make.URGENT),
        ("a", 7, make.HIGH),
        ("a", 8, make.URGENT),
    ],
    asked=[("a", 2, make.URGENT)],
    guarantees=[0, 0, 0],
    lend=-1,
)
@settings(max_examples=examples(80), deadline=None)
def test_reclaim_hits_nobody_in_vain_either(
    running: Sequence[Any], asked: Sequence[Any], guarantees: Sequence[int], lend: int
) -> None:
    """Of several teams, claims upon claims: every claim whose victims are out is met.

    By the claimant, or by an urgent job that starts in its place.
    """
    teams = [make.team(t, g, lend=lend) for t, g in zip("abc", guarantees, strict=True)]
    world = make.world(nodes=2, teams=teams, min_runtime=0)
    for index, (team, gpus, job_class) in enumerate(running):
        world.step(make.submitted(f"r{index}", gpus, team=team, job_class=job_class))
        if world.state_of(f"r{index}") == "starting":
            world.ready(f"r{index}")
    steps = []
    for index, (team, gpus, job_class) in enumerate(asked):
        steps += [world.step(make.submitted(f"j{index}", gpus, team=team, job_class=job_class))]
        for job in list(world.state.jobs.values()):
            if job.stop_cause:
                steps += [world.exits(job.id, reason="stopped")]

    ends = ends_of_claims([one for told in steps for one in told])
    assert set(ends) <= {"started", "overtaken"}
    urgent = {f"j{i}" for i, (_, _, job_class) in enumerate(asked) if job_class is make.URGENT}
    urgent |= {f"r{i}" for i, (_, _, job_class) in enumerate(running) if job_class is make.URGENT}
    for told in steps:
        if any(one.why == "overtaken" for one in make.of_kind(told, d.ReservationReleased)):
            assert urgent & {one.job for one in make.of_kind(told, d.GangPlaced)}


def ends_of_claims(decisions: Sequence[Any]) -> list[str]:
    """Why each claim was let go, in order; those that still stand are not told."""
    standing: set[str] = set()
    ends = []
    for one in decisions:
        if isinstance(one, d.ReservationPlanned):
            (standing.add if one.kind == "claim" else standing.discard)(one.job)
        elif isinstance(one, d.ReservationReleased) and one.job in standing:
            standing.remove(one.job)
            ends.append(one.why)
    return ends


# --- the transaction ------------------------------------------------------------------------------


def claiming() -> make.World:
    """An urgent gang of two nodes waits for two victims; a third node is free."""
    world = make.world(
        nodes=2,
        running=[make.gang(f"v{i}", on=f"n{i}", job_class=make.LOW) for i in range(2)],
    )
    world.step(make.submitted("j", 16, job_class=make.URGENT))
    return world


def test_what_victims_leave_is_kept_for_the_claimant() -> None:
    """Nobody slips in between."""
    world = claiming()
    world.exits("v0", reason="stopped")

    world.step(make.submitted("small", 1, job_class=make.URGENT))

    assert world.state_of("small") == "queued"
    assert core.fleet_numbers(world.state).free == 0
    world.exits("v1", reason="stopped")
    assert world.state_of("j") == "starting"


def test_a_victim_does_not_overtake_its_claimant() -> None:
    """It waits again, behind it."""
    world = claiming()

    world.exits("v0", reason="stopped")

    assert world.state_of("v0") == "queued"
    assert world.job("v0").preemptions == 1


def test_a_victim_is_told_by_whom_and_for_how_long() -> None:
    """Its own grace, or the policy's."""
    running = [make.gang("v", on="n0", job_class=make.LOW, grace_ms=5)]
    world = make.world(nodes=1, running=running)

    told = make.only(world.step(make.submitted("j", 8, job_class=make.URGENT)), d.GangPreempted)

    assert (told.claimant, told.claimant_attempt, told.cause, told.grace_ms) == ("j", 1, "class", 5)


def test_a_cancelled_claimant_lets_go_of_what_was_kept() -> None:
    """And says so; the victims start again."""
    world = claiming()
    world.exits("v0", reason="stopped")

    told = world.step(f.JobCancelRequested(job="j"))

    released = make.of_kind(told, d.ReservationReleased)[0]
    assert (released.job, released.why) == ("j", "cancelled")
    assert world.state_of("v0") == "starting"


def test_a_fault_in_the_place_ends_the_claim_and_says_so() -> None:
    """It would not be whole."""
    world = claiming()
    world.exits("v0", reason="stopped")
    world.step(f.FaultDetected(node="n0", gpu=0, fault="xid"))

    told = world.exits("v1", reason="stopped")

    assert make.of_kind(told, d.ReservationReleased)[0].why == "fault"


def test_a_victim_that_has_ended_by_itself_is_out_too() -> None:
    """The claimant starts."""
    world = claiming()
    world.exits("v0")
    world.exits("v1")

    assert [world.state_of(one) for one in ("v0", "v1", "j")] == [
        "succeeded",
        "succeeded",
        "starting",
    ]


def test_a_chain_of_preemptions_has_an_end() -> None:
    """Whoever was evicted for one that was evicted… evicts nobody."""
    world = make.world(
        nodes=1, running=[make.gang("v", on="n0", job_class=make.LOW)], preemption_chain=0
    )

    assert preempted(world.step(make.submitted("j", 8, job_class=make.URGENT))) == set()


@pytest.mark.parametrize(("cap", "told"), [(-1, {"v"}), (8, {"v"}), (7, set())])
def test_an_operator_may_cap_what_is_preempted_in_an_hour(cap: int, told: set[str]) -> None:
    """In GPU-hours; eight here."""
    running = [make.gang("v", on="n0", job_class=make.LOW)]
    world = make.world(nodes=1, running=running, preempted_gpu_hours_cap=cap)

    assert preempted(world.step(make.submitted("j", 8, job_class=make.HIGH))) == told


def test_who_leaves_anyway_is_waited_for_and_not_evicted_twice() -> None:
    """Nor is anybody else."""
    running = [make.gang(f"v{i}", on=f"n{i}", job_class=make.LOW) for i in range(2)]
    world = make.world(nodes=2, running=running)
    world.step(f.JobCancelRequested(job="v0"))

    told = world.step(make.submitted("j", 8, job_class=make.URGENT))
    world.exits("v0", reason="stopped")

    assert preempted(told) == set()
    assert world.state_of("j") == "starting"


def test_a_gang_that_leaves_may_have_stood_on_a_node_that_is_gone() -> None:
    """Whoever looks for whole nodes looks at those that are there."""
    running = [
        make.gang("wide", on=["n0", "n1"], gpus=16, job_class=make.LOW, checkpoint=None),
        make.gang("low", on="n2", job_class=make.LOW),
    ]
    world = make.world(nodes=3, running=running, min_runtime=0)
    world.step(f.JobCancelRequested(job="wide"))
    world.step(f.NodeWithdrawn(node="n0"))

    told = world.step(make.submitted("high", 16, gpus_per_node=8, job_class=make.HIGH))

    assert make.only(told, d.GangPreempted).job == "low"
