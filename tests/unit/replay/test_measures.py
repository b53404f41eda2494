"""The measures as a pure fold over decisions; the numbers are computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.replay.measures import measure
from gangline.replay.measures.result import spread
from gangline.replay.measures.series import Series
from gangline.replay.measures.shares import Claim, fair_shares
from tests.unit.replay.history import (
    HOUR_MS,
    History,
    placed_on,
    released,
    submitted,
    team,
)


def test_allocation_counts_what_gangs_hold_in_the_window() -> None:
    """Two nodes, one busy for the whole window of 4 h: a half; what comes later does not count."""
    history = History()
    history.play(
        history.run("j1", queued=0, ended=10),
        history.run("j2", queued=4, placed=10, ended=11),
    )

    numbers = measure(history.fold).numbers

    assert numbers["allocation"] == 0.5
    assert numbers["goodput"] == 0.5
    assert numbers["window_s"] == 4 * 3600
    assert numbers["makespan_s"] == 11 * 3600
    assert (numbers["jobs"], numbers["finished"]) == (2, 2)


def test_demand_is_what_an_infinite_fleet_would_hold() -> None:
    """There each job holds its GPUs from its submission for as long as it works."""
    history = History()
    history.play(
        history.run("j1", queued=0, ended=2),
        history.run("j2", queued=1, placed=2, ended=5),
        history.run("j3", queued=4, placed=6, ended=7),
    )

    # 8 GPUs x (2 h + 3 h) of 16 GPUs x 4 h; j3 comes when the window ends.
    assert measure(history.fold).numbers["demand"] == 40 / 64


def test_waits_are_by_band_and_from_submission_to_the_first_start() -> None:
    """Being placed is not yet running."""
    history = History()
    history.play(
        history.run("small", gpus=1, queued=0, placed=1, started=2, ended=3),
        history.run("medium", gpus=16, on=("b0-n0", "b0-n1"), queued=0, placed=3, ended=4),
    )

    waits = measure(history.fold).numbers["wait_s"]

    assert waits["small"]["mean"] == 2 * 3600
    assert waits["medium"]["max"] == 3 * 3600
    assert waits["large"]["max"] == 0
    assert waits["all"]["mean"] == 2.5 * 3600


def test_slowdown_is_time_in_the_system_over_work() -> None:
    """A job that waited as long as it worked has 2."""
    history = History()
    history.play(history.run("j", queued=0, placed=2, ended=4))

    assert measure(history.fold).numbers["slowdown"]["all"]["p50"] == 2.0


def test_lost_work_is_held_but_not_productive() -> None:
    """A gang of 8 dies after 3 h with 2 h saved: one hour is lost, and done again."""
    history = History()
    history.at(0, team("a", 16), submitted("j"), submitted("other", gpus=1))
    history.at(0, placed_on("j", 8, ("b0-n0",)), d.GangStarted(job="j", attempt=1, resumed_ms=0))
    cause = d.StopCause.INFRASTRUCTURE
    history.at(3, released("j", cause, productive_ms=2 * HOUR_MS, lost_gpu_ms=8 * HOUR_MS))
    history.at(3, d.JobRequeued(job="j", attempt=1, cause=cause, retries_used=0))
    history.at(3, placed_on("j", 8, ("b0-n1",), attempt=2))
    history.at(3, d.GangStarted(job="j", attempt=2, resumed_ms=2 * HOUR_MS))
    history.at(4, released("j", d.StopCause.FINISHED, attempt=2, productive_ms=3 * HOUR_MS))
    history.at(4, d.JobFinished(job="j", outcome=d.Outcome.SUCCEEDED), submitted("last"))

    numbers = measure(history.fold).numbers

    assert numbers["lost_gpu_hours"] == 8.0
    assert numbers["lost_gpu_hours_by_cause"] == {"infrastructure": 8.0}
    assert numbers["allocation"] == 0.5
    assert numbers["goodput"] == pytest.approx(0.5 * 3 / 4)
    assert numbers["attempts"] == 2


def evicted(history: History, *, starts: bool) -> History:
    """A gang is evicted for another one, which starts or does not."""
    history.at(0, submitted("victim"), placed_on("victim", 8, ("b0-n0",)))
    history.at(0, d.GangStarted(job="victim", attempt=1, resumed_ms=0), submitted("claimant"))
    history.at(
        1,
        d.GangPreempted(
            job="victim",
            attempt=1,
            claimant="claimant",
            claimant_attempt=1,
            cause="reclaim",
            grace_ms=0,
        ),
    )
    history.at(1, released("victim", d.StopCause.PREEMPTED, productive_ms=HOUR_MS))
    if starts:
        history.at(1, placed_on("claimant", 8, ("b0-n0",)))
        history.at(1, d.GangStarted(job="claimant", attempt=1, resumed_ms=0))
    return history


def test_an_eviction_that_starts_its_claimant_is_counted_once() -> None:
    """Preempted GPU-hours are what the evicted attempts had held."""
    numbers = measure(evicted(History(), starts=True).fold).numbers

    assert numbers["preemptions"] == 1
    assert numbers["preemptions_by_cause"] == {"reclaim": 1}
    assert numbers["evictions_without_start"] == 0
    assert numbers["preempted_gpu_hours"] == 8.0


def test_an_eviction_in_vain_is_told() -> None:
    """Nobody started for it, and no release says why."""
    assert measure(evicted(History(), starts=False).fold).numbers["evictions_without_start"] == 1


@pytest.mark.parametrize(
    "excuse",
    [
        d.ReservationReleased(job="claimant", why="fault"),
        d.JobFinished(job="claimant", outcome=d.Outcome.CANCELLED),
        d.GangStartAborted(job="claimant", attempt=1, slow=("b0-n0",), why="not ready"),
    ],
)
def test_a_cancelled_claimant_or_a_fault_excuses(excuse: object) -> None:
    """The log says which."""
    history = evicted(History(), starts=False).at(2, excuse)

    assert measure(history.fold).numbers["evictions_without_start"] == 0


def test_waiting_time_goes_to_its_causes() -> None:
    """Each hour of a waiting job has one cause, the start included."""
    history = History()
    history.at(0, submitted("j"))
    changed = d.WaitCauseChanged(jobs=("j",), cause=d.WaitCause.CAPACITY, text="")
    history.at(1, changed).at(3, placed_on("j", 8, ("b0-n0",)))
    history.at(4, d.GangStarted(job="j", attempt=1, resumed_ms=0))

    assert measure(history.fold).numbers["waiting"]["medium"] == {
        "capacity": 2.0,
        "starting": 1.0,
        "unsaid": 1.0,
    }


def test_placement_is_judged_against_the_empty_fleet() -> None:
    """16 GPUs fit a block, 32 only the fleet; one of two blocks-sized gangs is spread."""
    history = History(blocks=2)
    history.at(0, *(submitted(name, gpus=16) for name in ("near", "far")), submitted("huge"))
    history.at(0, placed_on("near", 16, ("b0-n0", "b0-n1")))
    history.at(0, placed_on("far", 16, ("b0-n0", "b1-n0"), level="fleet"))
    history.at(0, placed_on("huge", 8, ("b0-n0",)))

    placement = measure(history.fold).numbers["placement"]

    assert placement["best_level"] == pytest.approx(2 / 3, abs=1e-6)
    assert placement["best_level_multi_node"] == 0.5
    assert placement["mean_levels_crossed"] == 1.0


def test_utilization_adds_up_to_the_capacity() -> None:
    """Held, unhealthy, out of service and idle by cause are all there is."""
    history = History(blocks=2)
    history.play(history.run("j", queued=0, placed=1, ended=3))
    sick = d.NodeHealthChanged(node="b1-n0", health=d.Health.LOST, cause="silent")
    history.at(4, sick, d.GpuWithdrawn(node="b0-n1", gpu=3, fault="xid"))
    cordoned = d.NodeServiceChanged(node="b1-n1", service=d.Service.CORDONED, cause="fan")
    history.at(5, cordoned).at(6, submitted("waits", gpus=64)).at(8)

    fold = measure(history.fold).fold
    hours = 8 * 6
    total = {
        name: sum(fold.series("gpus", name).values(hours)) / HOUR_MS
        for name in ("capacity", "held", "unhealthy", "out_of_service")
    }
    idle = {
        name: sum(fold.series("idle", name).values(hours)) / HOUR_MS for name in fold.names("idle")
    }

    assert total == {"capacity": 32 * 8, "held": 8 * 2, "unhealthy": 9 * 4, "out_of_service": 8 * 3}
    # From 0 to 1 and from 6 on somebody waits.
    assert idle == {"unsaid": 32 + 15 * 2, "no_demand": 24 * 2 + 32 + 23 + 15}
    assert sum(idle.values()) + sum(total.values()) == 2 * total["capacity"]


def test_a_team_that_gets_its_share_has_no_error() -> None:
    """Two teams that want more than the fleet share it by weight."""
    history = two_hungry_teams(("b0-n0",), ("b0-n1",))

    fairness = measure(history.fold).numbers["fairness"]

    assert fairness["windows"] == 2 * (30 - 24 + 1)
    assert fairness["max_error"] == 0
    assert fairness["per_team"]["a"]["entitled_gpu_hours"] == 8 * 30


def test_an_unfair_day_is_found() -> None:
    """One team holds everything while the other waits: each is off by half of the fleet."""
    history = two_hungry_teams(("b0-n0", "b0-n1"), ())

    fairness = measure(history.fold).numbers["fairness"]

    assert fairness["max_error"] == 0.5
    assert fairness["per_team"]["b"] == {"delivered_gpu_hours": 0, "entitled_gpu_hours": 8 * 30}


def two_hungry_teams(a_on: tuple[str, ...], b_on: tuple[str, ...]) -> History:
    """Teams of equal weight and guarantee with jobs that wait for 30 h, and jobs on these nodes."""
    history = History().at(0, team("a", 8), team("b", 8))
    for name, on in (("a", a_on), ("b", b_on)):
        history.at(0, submitted(f"{name}-more", gpus=64, team=name))
        if on:
            gpus = 8 * len(on)
            history.at(0, submitted(f"{name}-runs", gpus=gpus, team=name))
            history.at(0, placed_on(f"{name}-runs", gpus, on))
    return history.at(30, submitted("late", team="a"))


def test_a_large_gang_starves_past_bound_and_longest_limit() -> None:
    """12 h of bound and the 24 h that plans assume for what runs; an hour less is no hunger."""
    for waited, starved in ((35.0, 0), (37.0, 1)):
        history = History()
        history.play(history.run("long", gpus=1))
        history.at(0, submitted("large", gpus=128)).at(12).at(waited)
        assert measure(history.fold).numbers["starved"] == starved


def test_a_job_starves_when_its_team_is_owed_room_for_a_week() -> None:
    """A team at its guarantee has to wait; one below it is starved."""
    for guaranteed, starved in ((0, 0), (8, 1)):
        history = History().at(0, team("a", guaranteed), submitted("j")).at(7 * 24 + 1)
        assert measure(history.fold).numbers["starved"] == starved


def test_an_empty_history_is_measured_too() -> None:
    """Nothing is divided by nothing."""
    numbers = measure(History().fold).numbers

    assert (numbers["jobs"], numbers["allocation"], numbers["starved"]) == (0, 0, 0)


def test_percentiles_are_of_the_nearest_rank() -> None:
    """They are values that occurred."""
    assert spread(list(range(1, 101))) == {"mean": 50, "p50": 50, "p90": 90, "p99": 99, "max": 100}
    assert spread([7])["p99"] == 7


INTERVALS = st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(-5, 5))


@given(st.lists(INTERVALS, max_size=30), st.integers(1, 60))
def test_a_series_holds_exactly_what_was_put_on_it(
    intervals: list[tuple[int, int, int]], bucket_ms: int
) -> None:
    """Each bucket is what counting each millisecond gives."""
    series = Series(100, bucket_ms)
    counted = [0] * (500 // bucket_ms + 1)
    for start, end, height in intervals:
        series.add(start, end, height)
        for moment in range(max(start, 100), end):
            counted[(moment - 100) // bucket_ms] += height

    assert series.values(len(counted)) == counted


CLAIMS = st.builds(
    Claim, weight=st.integers(1, 30), wanted=st.integers(0, 10**9), floor=st.integers(0, 10**9)
)


@given(st.integers(0, 10**9), st.lists(CLAIMS, min_size=1, max_size=12))
def test_shares_are_fair(amount: int, claims: list[Claim]) -> None:
    """Nobody gets more than wanted or too much in all; floors hold; nothing wanted is left over."""
    shares = fair_shares(amount, claims)
    floors = [min(claim.floor, claim.wanted) for claim in claims]

    assert all(0 <= share <= claim.wanted for share, claim in zip(shares, claims, strict=True))
    assert sum(shares) <= amount
    if sum(floors) <= amount:
        assert all(share >= floor for share, floor in zip(shares, floors, strict=True))
    wanted = min(amount, sum(claim.wanted for claim in claims))
    assert sum(shares) >= wanted - 50 * len(claims)


def test_shares_go_by_weight_above_the_floors() -> None:
    """With floors of 10 and 0 and weights 1 and 3, 100 go 25 to 75; a high floor stays."""
    hungry = 1000
    assert fair_shares(100, [Claim(1, hungry, 10), Claim(3, hungry, 0)]) == [25, 75]
    assert fair_shares(100, [Claim(1, hungry, 60), Claim(3, hungry, 0)]) == [60, 40]
    assert fair_shares(100, [Claim(1, 5, 60), Claim(3, hungry, 0)]) == [5, 95]
