"""What operators state: teams, policy, nodes, and who may take new work."""

from __future__ import annotations

from typing import Any

import pytest

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.terms import Service, StopCause
from gangline.scheduler import core
from gangline.scheduler.core.control import SERVICE
from gangline.scheduler.core.turn import Refusal
from tests.core import make

CORDON = f.NodeCordoned(node="n0", why="fan")
UNCORDON = f.NodeUncordoned(node="n0")
DRAIN = f.DrainRequested(node="n0", why="disk")
ASKS = {f.NodeCordoned: CORDON, f.NodeUncordoned: UNCORDON, f.DrainRequested: DRAIN}
WINDOW = f.MaintenanceScheduled(node="n0", in_ms=make.HOUR, for_ms=make.HOUR, why="firmware")


def world_with(service: Service) -> make.World:
    """Two nodes; `n0` is in this service, and a gang runs on it."""
    world = make.world(nodes=2, running=[make.gang("old", on="n0")])
    if service is Service.MAINTENANCE:
        world.step(WINDOW)
        world.wait(make.HOUR)
    elif service is not Service.OPEN:
        world.step(CORDON if service is Service.CORDONED else DRAIN)
    assert world.node("n0").service is service
    return world


# --- service --------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", list(Service))
@pytest.mark.parametrize("kind", list(ASKS))
def test_service_moves_along_the_table(service: Service, kind: type) -> None:
    """What is not in the table is refused."""
    world = world_with(service)
    after = SERVICE.get((service, kind))

    told = world.step(ASKS[kind])

    if after is None:
        assert make.only(told, d.InputRejected).reason == Refusal.ALREADY_SO
    assert world.node("n0").service is (after or service)


@pytest.mark.parametrize("asked", [CORDON, DRAIN])
def test_a_node_out_of_service_takes_no_new_gang(asked: Any) -> None:
    """What runs there goes on; what comes later goes elsewhere."""
    world = make.world(nodes=2, running=[make.gang("old", on="n0", gpus=4)])

    told = world.step(asked, make.submitted("new", gpus=4))

    assert make.kinds(told) == ["NodeServiceChanged", "JobQueued", "GangPlaced"]
    assert world.nodes_of("new") == {"n1"}
    assert world.state_of("old") == "running"


def test_who_asked_and_why_stands_in_the_decision() -> None:
    """A colleague reads it."""
    changed = make.only(make.world().step(CORDON), d.NodeServiceChanged)

    assert (changed.by, changed.cause) == ("operator:ops", "fan")


def test_an_uncordoned_node_takes_what_waits() -> None:
    """At once."""
    world = make.world(nodes=1)
    world.step(CORDON, make.submitted("j"))

    told = world.step(UNCORDON)

    assert make.kinds(told) == ["NodeServiceChanged", "GangPlaced"]


def test_a_drain_stops_at_its_deadline_what_still_runs() -> None:
    """It waits again, with no retry lost and no preemption counted."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0")])
    world.step(f.DrainRequested(node="n0", deadline_ms=make.HOUR))
    assert world.state_of("old") == "running"

    stopping = make.only(world.wait(make.HOUR), d.GangStopping)
    world.exits("old", code=143, reason="stopped")

    assert stopping.cause is StopCause.DRAINED
    job = world.job("old")
    assert (world.state_of("old"), job.retries_used, job.preemptions) == ("queued", 0, 0)
    assert world.node("n0").service is Service.DRAINING


def test_a_drain_without_a_deadline_stops_nothing() -> None:
    """What runs may run to its end."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0")])

    world.step(DRAIN)

    assert make.kinds(world.wait(10 * make.DAY)) == []


def test_a_deadline_beyond_all_times_is_one_that_never_comes() -> None:
    """It stops nothing, the scheduler least of all."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0")])

    world.step(f.DrainRequested(node="n0", deadline_ms=2**63 - 1))

    assert make.kinds(world.wait(make.DAY)) == []


def test_a_maintenance_takes_the_node_out_for_its_window() -> None:
    """What still runs at its start is stopped; after it the node is open again."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0")])
    world.step(WINDOW)

    begun = world.wait(make.HOUR)
    world.exits("old", reason="stopped")
    over = world.wait(make.HOUR)

    assert make.only(begun, d.NodeServiceChanged).service is Service.MAINTENANCE
    assert make.only(begun, d.GangStopping).cause is StopCause.MAINTENANCE
    assert make.kinds(over) == ["NodeServiceChanged", "GangPlaced"]


def test_a_cordoned_node_stays_cordoned_through_a_maintenance() -> None:
    """What runs there is stopped all the same."""
    world = world_with(Service.CORDONED)
    world.step(WINDOW)

    told = world.wait(make.HOUR)
    world.exits("old", reason="stopped")
    world.wait(2 * make.HOUR)

    assert make.only(told, d.GangStopping).cause is StopCause.MAINTENANCE
    assert world.node("n0").service is Service.CORDONED


def test_uncordoning_calls_an_announced_maintenance_off() -> None:
    """The window is forgotten, and nothing is stopped."""
    world = world_with(Service.OPEN)
    world.step(WINDOW)

    world.step(UNCORDON)

    assert world.node("n0").windows == ()
    assert make.kinds(world.wait(3 * make.HOUR)) == []


def test_a_maintenance_that_ends_leaves_the_later_one_announced() -> None:
    """Each window is its own."""
    world = make.world(nodes=1)
    world.step(WINDOW, f.MaintenanceScheduled(node="n0", in_ms=make.DAY, for_ms=make.HOUR))

    world.wait(3 * make.HOUR)

    assert [window.from_ms for window in world.node("n0").windows] == [make.START + make.DAY]


@pytest.mark.parametrize(("in_ms", "for_ms"), [(-1, 1), (0, 0), (0, -5), (2**62, 1), (0, 2**62)])
def test_a_window_must_lie_in_the_future_and_last(in_ms: int, for_ms: int) -> None:
    """Anything else is a typing error."""
    asked = f.MaintenanceScheduled(node="n0", in_ms=in_ms, for_ms=for_ms)

    assert make.world().refusals(asked) == [Refusal.BAD_VALUE]


def test_windows_of_one_node_do_not_overlap() -> None:
    """The second is refused."""
    world = make.world()
    world.step(WINDOW)

    overlapping = f.MaintenanceScheduled(node="n0", in_ms=make.HOUR // 2, for_ms=make.HOUR)

    assert world.refusals(overlapping) == [Refusal.BAD_VALUE]


@pytest.mark.parametrize(
    "asked",
    [
        f.NodeCordoned(node="ghost"),
        f.NodeUncordoned(node="ghost"),
        f.DrainRequested(node="ghost"),
        f.MaintenanceScheduled(node="ghost", in_ms=0, for_ms=1),
        f.NodeWithdrawn(node="ghost"),
    ],
)
def test_a_node_that_is_not_there_cannot_be_served(asked: Any) -> None:
    """It is refused by name."""
    assert make.world().refusals(asked) == [Refusal.NO_SUCH_NODE]


# --- the fleet ------------------------------------------------------------------------------------


ADMISSIONS: list[tuple[f.NodeAdmitted, Refusal]] = [
    (make.admitted("n0"), Refusal.DUPLICATE),
    (make.admitted(""), Refusal.BAD_NAME),
    (make.admitted("a b"), Refusal.BAD_NAME),
    (make.admitted("x", path="s0/b 0"), Refusal.BAD_NAME),
    (make.admitted("x", gpus=0), Refusal.BAD_VALUE),
    (make.admitted("x", gpus=-8), Refusal.BAD_VALUE),
    (make.admitted("x", gpus=1_000_000), Refusal.BAD_VALUE),
    (make.admitted("x", path="s0"), Refusal.OTHER_LEVELS),
    (f.NodeAdmitted(node="x", path=("r0",), levels=("rack",), gpus=8), Refusal.OTHER_LEVELS),
]


@pytest.mark.parametrize(("asked", "reason"), ADMISSIONS)
def test_a_node_that_does_not_belong_is_refused(asked: f.NodeAdmitted, reason: Refusal) -> None:
    """By its name, its GPUs or its path."""
    assert make.world().refusals(asked) == [reason]


def test_a_withdrawn_node_takes_its_gangs_down_with_it() -> None:
    """They go on elsewhere."""
    world = make.world(nodes=2, running=[make.gang("j", on="n0")])

    world.step(f.NodeWithdrawn(node="n0", why="sold"))

    assert "n0" not in world.state.nodes
    assert world.nodes_of("j") == {"n1"}


def test_a_gang_that_loses_one_of_its_nodes_for_good_is_stopped() -> None:
    """Its other members get the short grace, then it starts anew."""
    world = make.world(nodes=3, running=[make.gang("j", on=["n0", "n1"], gpus=16)])

    stopping = make.only(world.step(f.NodeWithdrawn(node="n0")), d.GangStopping)
    world.exits("j", "n1", reason="stopped")

    assert stopping.cause is StopCause.INFRASTRUCTURE
    assert world.nodes_of("j") == {"n1", "n2"}


def test_a_node_that_comes_back_too_soon_still_holds_what_is_leaving_it() -> None:
    """Nobody else gets these GPUs before; nor after, until the node says what runs there."""
    world = make.world(nodes=2, running=[make.gang("j", on=["n0", "n1"], gpus=16)])
    world.step(f.NodeWithdrawn(node="n0"))

    world.step(make.admitted("n0"), make.submitted("k", 8))
    held = (world.node("n0").used, world.state_of("k"))
    loaded = core.load(core.dump(world.state))
    world.step(f.JobCancelRequested(job="j"))
    world.exits("j", "n1", reason="stopped")

    assert held == (0xFF, "queued")
    assert loaded.nodes["n0"].gangs == {"j": 0}
    assert world.nodes_of("k") == {"n1"}
    world.step(f.NodeRegistered(node="n0", boot_id="new", gpus=8))
    assert world.node("n0").avail == 0xFF


# --- teams ----------------------------------------------------------------------------------------


TEAMS: list[tuple[f.TeamSet, Refusal]] = [
    (make.team("", 1), Refusal.BAD_NAME),
    (make.team("a b", 1), Refusal.BAD_NAME),
    (make.team("a", -1), Refusal.BAD_VALUE),
    (make.team("a", borrow=-2), Refusal.BAD_VALUE),
    (make.team("a", lend=-2), Refusal.BAD_VALUE),
    (make.team("a", weight=0), Refusal.BAD_VALUE),
    (make.team("a", by_model={"h100": -1}), Refusal.BAD_VALUE),
    (make.team("a", by_model={"h100": 17}), Refusal.BAD_VALUE),
    (make.team("a", by_model={"h100": 9, "a100": 8}), Refusal.BAD_VALUE),
    (make.team("a", by_model={"": 1}), Refusal.BAD_NAME),
    (make.team("split", by_model={"a100": 5}), Refusal.BAD_VALUE),
    (make.team("split", 7), Refusal.BAD_VALUE),
    (make.team("a", parent="ghost"), Refusal.NO_SUCH_TEAM),
    (make.team("a", parent="a"), Refusal.TEAM_CYCLE),
    (make.team("top", parent="bottom"), Refusal.TEAM_CYCLE),
    (make.team("middle", parent="bottom"), Refusal.TEAM_CYCLE),
    (make.team("a", 16), Refusal.ALREADY_SO),
    (make.team("a"), Refusal.ALREADY_SO),
]


@pytest.mark.parametrize(("asked", "reason"), TEAMS)
def test_a_team_that_makes_no_sense_is_refused(asked: f.TeamSet, reason: Refusal) -> None:
    """Nothing of it is taken over."""
    world = make.world(
        teams=[
            make.team("a", 16),
            make.team("top", 8),
            make.team("middle", 8, parent="top"),
            make.team("bottom", 8, parent="middle"),
            make.team("split", 8, by_model={"h100": 4, "a100": 4}),
        ]
    )
    before = dict(world.state.teams)

    assert world.refusals(asked) == [reason]
    assert world.state.teams == before


def test_keys_that_are_not_named_keep_their_values() -> None:
    """A change names only what changes."""
    world = make.world(teams=[make.team("p", 16), make.team("a", 8, borrow=4, lend=2, weight=3)])

    world.step(make.team("a", 6, parent="p"))

    team = world.team("a")
    assert (team.guaranteed, team.borrow, team.lend, team.weight) == (6, 4, 2, 3)
    assert team.parent == "p"


def test_a_new_team_borrows_and_lends_without_limit() -> None:
    """And weighs 1."""
    world = make.world()
    world.step(make.team("new"))

    team = world.team("new")
    assert (team.guaranteed, team.borrow, team.lend, team.weight) == (0, -1, -1, 1)


def test_use_counts_in_every_ancestor() -> None:
    """Also after the team has moved under another parent."""
    world = make.world(
        teams=[make.team("p", 8), make.team("q", 8), make.team("a", 8, parent="p")],
        running=[make.gang("j", on="n0")],
    )
    assert [world.team(name).used for name in ("a", "p", "q")] == [8, 8, 0]

    world.step(make.team("a", parent="q"))

    assert [world.team(name).used for name in ("a", "p", "q")] == [8, 0, 8]


# --- policy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "detail"),
    [
        ({"no_such_key": 1}, "no policy key no_such_key"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"lost_after": 0}, "lost_after must be at least 1"),
        ({"retries": 1, "hold_after": 0}, "hold_after must be at least 1"),
        ({"lost_after": 2**62}, "lost_after must be at most ten years"),
        ({}, "no keys"),
    ],
)
def test_a_policy_is_taken_whole_or_not_at_all(values: dict[str, int], detail: str) -> None:
    """The refusal names the key that is wrong."""
    world = make.world()
    before = dict(world.state.cell.policy)

    refused = make.only(world.step(f.PolicySet(values=values)), d.InputRejected)

    assert (refused.reason, refused.detail) == (Refusal.BAD_VALUE, detail)
    assert world.state.cell.policy == before


def test_only_what_changes_is_decided() -> None:
    """Keys that have the value already are left out; nothing at all is refused."""
    world = make.world(retries=2)

    (changed,) = world.step(f.PolicySet(values={"retries": 2, "hold_after": 7}))

    assert changed == d.PolicyChanged(values={"hold_after": 7}, by="operator:ops")


def test_deadlines_follow_a_new_policy() -> None:
    """A gang that starts is judged by the new time to start."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"))
    world.step(f.PolicySet(values={"start_timeout": make.SECOND}))

    assert "GangStartAborted" in make.kinds(world.wait(make.SECOND))


def test_a_request_to_hand_over_is_the_drivers() -> None:
    """The state does not change, and nobody is told off."""
    assert make.world().step(f.HandOverRequested(why="upgrade")) == []
