"""What services and people ask for, and what they are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.spec import CheckpointSpec, Topology, TopologyKind
from gangline.scheduler.core.inputs import Fact
from gangline.scheduler.core.submissions import MAX_ARRAY
from gangline.scheduler.core.turn import Refusal
from tests.core import make

NO_LEVEL = Topology(kind=TopologyKind.REQUIRED)
BAD_SPECS: list[tuple[dict[str, Any], str]] = [
    ({"gpus": 0}, "gpus must be at least 1"),
    ({"gpus": -8}, "gpus must be at least 1"),
    ({"count": 0}, "count must be 1 to 10000"),
    ({"count": -1}, "count must be 1 to 10000"),
    ({"count": MAX_ARRAY + 1}, "count must be 1 to 10000"),
    ({"team": ""}, "the team's name is not a name"),
    ({"team": "a b"}, "the team's name is not a name"),
    ({"after": ("",)}, "after names no job"),
    ({"limit_ms": 0}, "limit must be positive"),
    ({"limit_ms": -1}, "limit must be positive"),
    ({"limit_ms": 2**63 - 1}, "limit must be at most ten years"),
    ({"grace_ms": -1}, "grace must not be negative"),
    ({"grace_ms": 2**63 - 1}, "grace must be at most ten years"),
    ({"retries": -1}, "retries must not be negative"),
    (
        {"checkpoint": CheckpointSpec(interval_ms=0)},
        "the checkpoint interval must be positive",
    ),
    ({"labels": {"note": "x" * 65_536}}, "the spec is larger than 64 kB"),
    ({"gpus_per_node": 0}, "gpus must be a multiple of gpus_per_node"),
    ({"gpus_per_node": -1}, "gpus must be a multiple of gpus_per_node"),
    ({"gpus_per_node": 3}, "gpus must be a multiple of gpus_per_node"),
    ({"gpus_per_node": 16}, "gpus must be a multiple of gpus_per_node"),
    ({"topology": NO_LEVEL}, "topology names no level"),
    ({"topology": replace(NO_LEVEL, kind=TopologyKind.PREFERRED)}, "topology names no level"),
]
NEVER: list[tuple[dict[str, Any], str, str]] = [
    ({"team": "nobody"}, "unknown_team", ""),
    ({"after": ("ghost",)}, "unknown_job", ""),
    ({"after": ("j",)}, "unknown_job", ""),
    ({"level": "rack"}, "topology", ""),
    ({"gpus": 33}, "quota", "gpus=32"),
    ({"gpus": 24, "level": "block"}, "topology", "gpus=24 topology=any"),
    ({"gpus": 9, "gpus_per_node": 9}, "fleet", "gpus=9 without gpus_per_node"),
    ({"gpus": 9, "level": "node"}, "topology", "gpus=9 topology=any"),
    ({"gpus": 30, "gpus_per_node": 5, "level": "block"}, "topology", "gpus=10"),
    ({"gpus": 9, "team": "small"}, "quota", "gpus=8"),
    ({"gpus": 5, "team": "small", "preemptible": False}, "quota", "gpus=4"),
    ({"gpus": 1, "selector": {"model": "other"}}, "fleet", ""),
]
NOT_NAMES = ["", "x" * 129, "two words", "tab\tbed", "line\n", "nul\x00", "zero\u200bwidth", "\x7f"]


def four_nodes() -> make.World:
    """Two blocks of two nodes; a team `small` that may have 4 and borrow 4."""
    nodes = {"s0/b0": 2, "s0/b1": 2}
    return make.world(nodes=nodes, teams=[make.team("a", 28), make.team("small", 4, borrow=4)])


def test_an_accepted_job_says_where_it_came_from() -> None:
    """Its number, its age by the log's time, its place in the log and who asked."""
    world = make.world()
    world.step(make.submitted("first"))

    queued = make.only(world.later(5).step(make.submitted("second")), d.JobQueued)

    assert (queued.job, queued.number, queued.actor) == ("second", 2, "user:ann")
    assert (queued.submitted_ms, queued.submitted_at) == (world.now_ms, "jobs-0-1")


@pytest.mark.parametrize(("fields", "text"), BAD_SPECS)
def test_a_spec_that_makes_no_sense_is_rejected(fields: dict[str, Any], text: str) -> None:
    """At once, and with the text of what is wrong."""
    world = make.world()

    rejected = make.only(world.step(make.submitted("j", **fields)), d.JobRejected)

    assert (rejected.reason, rejected.text) == ("bad_spec", text)
    assert world.state_of("j") == "rejected"


@pytest.mark.parametrize(("fields", "reason", "nearest"), NEVER)
def test_a_job_that_can_never_start_is_rejected(
    fields: dict[str, Any], reason: str, nearest: str
) -> None:
    """With the nearest request that could."""
    world = four_nodes()

    rejected = make.only(world.step(make.submitted("j", **fields)), d.JobRejected)

    assert (rejected.reason, rejected.nearest) == (reason, nearest)
    assert world.state_of("j") == "rejected"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"gpus": 33}, "team a may never hold 33 GPUs, at most 32"),
        (
            {"gpus": 1, "selector": {"model": "other"}},
            "needs 1 GPU in the fleet, which holds at most 0 of that shape",
        ),
        (
            {"gpus": 24, "gpus_per_node": 8, "level": "block"},
            (
                "needs 24 GPUs with 8 on each node within one block, which holds at most 16 of "
                "that shape"
            ),
        ),
        ({"gpus": 9, "team": "small"}, "team small may never hold 9 GPUs, at most 8"),
        ({"team": "nobody"}, "there is no team nobody"),
        ({"after": ("ghost",)}, "there is no job ghost to wait for"),
        ({"level": "rack"}, "the fleet has no level rack"),
    ],
)
def test_the_text_of_a_rejection_has_the_numbers(fields: dict[str, Any], text: str) -> None:
    """What was asked for, and what there is."""
    rejected = make.only(four_nodes().step(make.submitted("j", **fields)), d.JobRejected)

    assert rejected.text == text


@pytest.mark.parametrize("name", NOT_NAMES)
def test_a_submission_without_a_proper_name_is_refused(name: str) -> None:
    """There is nothing by which anybody could ask for it."""
    world = make.world()

    assert world.refusals(make.submitted(name)) == [Refusal.BAD_NAME]
    assert not world.state.jobs
    assert not world.state.done


def test_a_name_of_128_printable_characters_is_a_name() -> None:
    """Not only ASCII."""
    world = make.world()
    name = "ü" * 128

    world.step(make.submitted(name))

    assert world.state_of(name) == "starting"


def test_nodes_out_of_service_count_for_what_could_start() -> None:
    """They may come back; the job waits for them."""
    world = make.world(nodes=2)
    world.step(f.NodeCordoned(node="n0"), f.FaultDetected(node="n1", gpu=-1, fault="nic"))

    world.step(make.submitted("j", gpus=16))

    assert world.state_of("j") == "queued"


# --- answers that wait for all inputs -------------------------------------------------------------


def test_unknown_teams_are_said_to_be_unknown_only_when_all_is_read() -> None:
    """The team may stand in what has not been read yet."""
    world = make.world(nodes=2)

    before = world.step(make.submitted("j", team="new"), caught_up=False)
    world.step(make.team("new", 8))

    assert make.kinds(before) == ["JobQueued"]
    assert world.state_of("j") == "starting"


def test_nothing_starts_before_all_is_read() -> None:
    """A cancel may be among what has not been read."""
    world = make.world()
    world.step(make.submitted("j"), caught_up=False)

    told = world.step(f.JobCancelRequested(job="j"))

    assert make.kinds(told) == ["JobFinished"]
    assert world.state_of("j") == "cancelled"


# --- the same id again ----------------------------------------------------------------------------


def _queued(world: make.World) -> None:
    world.step(f.NodeCordoned(node="n0"), make.submitted("j"))


def _starting(world: make.World) -> None:
    world.step(make.submitted("j"))


def _ended(world: make.World) -> None:
    world.step(make.submitted("j"))
    world.ready("j")
    world.exits("j")


def _rejected(world: make.World) -> None:
    world.step(make.submitted("j", gpus=0))


def _array(world: make.World) -> None:
    world.step(make.submitted("j", gpus=1, count=3))


@pytest.mark.parametrize("before", [_queued, _starting, _ended, _rejected, _array])
def test_an_id_is_taken_once(before: Any) -> None:
    """A submission that comes twice is one submission, whatever became of it."""
    world = make.world(nodes=1)
    before(world)

    assert world.refusals(make.submitted("j")) == [Refusal.DUPLICATE]


def test_an_id_is_free_again_after_the_window() -> None:
    """Ids of ended jobs are remembered for `dedupe_window`."""
    world = make.world(nodes=1, dedupe_window=make.DAY)
    _ended(world)
    world.later(2 * make.DAY).step(make.submitted("other"))
    world.ready("other")
    world.exits("other")

    assert world.refusals(make.submitted("j")) == []


def test_duplicates_of_one_batch_are_told_together() -> None:
    """One refusal for a partition and a reason, with the range and the number."""
    world = make.world()
    same = make.submitted("j")

    refused = make.only(world.step(same, same, make.submitted("k"), same), d.InputRejected)

    assert (refused.first, refused.last, refused.count) == (1, 3, 2)


# --- arrays ---------------------------------------------------------------------------------------


def test_an_array_is_so_many_tasks() -> None:
    """`x.1` to `x.N`, each with a number of its own, in order."""
    world = make.world(nodes=1)

    told = world.step(make.submitted("x", gpus=1, count=3))

    queued = make.of_kind(told, d.JobQueued)
    assert [(one.job, one.number, one.array) for one in queued] == [
        ("x.1", 1, "x"),
        ("x.2", 2, "x"),
        ("x.3", 3, "x"),
    ]
    assert all(one.spec.count == 1 for one in queued)


def test_cancelling_an_array_cancels_what_is_left_of_it() -> None:
    """Those that wait end at once, those that run get their grace, ended ones stay as they are."""
    world = make.world(nodes=1)
    world.step(make.submitted("x", gpus=4, count=3))
    world.ready("x.1")
    world.exits("x.1")
    world.ready("x.2")

    world.step(f.JobCancelRequested(job="x"))
    world.exits("x.2")
    world.exits("x.3", reason="not_started")

    assert [world.state_of(f"x.{i}") for i in (1, 2, 3)] == ["succeeded", "cancelled", "cancelled"]


@pytest.mark.parametrize(("code", "outcome"), [(0, "starting"), (1, "failed")])
def test_who_waits_for_an_array_waits_for_all_of_it(code: int, outcome: str) -> None:
    """It starts after the last task's success, and fails if any task failed."""
    world = make.world(nodes=1)
    world.step(make.submitted("x", gpus=4, count=2, retries=0))
    world.step(make.submitted("next", after=("x",)))
    world.ready("x.1")
    world.ready("x.2")
    world.exits("x.2", code=code)
    assert world.state_of("next") == "queued"

    world.exits("x.1")

    assert world.state_of("next") == outcome


def test_an_array_does_not_take_the_name_of_a_live_job() -> None:
    """`x.1` exists already: the whole array is refused, and the job goes on."""
    world = make.world(nodes=1)
    world.step(make.submitted("x.1", gpus=1))
    number = world.job("x.1").number

    world.step(make.submitted("x", gpus=1, count=2))

    assert world.job("x.1").number == number
    assert "x.2" not in world.state.jobs


# --- holds ----------------------------------------------------------------------------------------


def test_a_held_job_does_not_start_until_released() -> None:
    """Though there is room."""
    world = make.world(nodes=1)
    world.step(make.submitted("j"), f.JobHoldRequested(job="j", why="data is late"))
    assert world.cause("j") is d.WaitCause.HOLD

    world.step(f.JobHoldReleased(job="j"))

    assert world.state_of("j") == "starting"


def test_holding_what_runs_lets_it_run() -> None:
    """It waits only if it is queued again."""
    world = make.world(nodes=1, running=[make.gang("j", on="n0")])
    world.step(f.JobHoldRequested(job="j"))
    assert world.state_of("j") == "running"

    world.step(f.FaultDetected(node="n0", gpu=0, fault="xid"), f.FaultCleared(node="n0", gpu=0))
    world.exits("j", reason="stopped")

    assert world.cause("j") is d.WaitCause.HOLD


# --- class ----------------------------------------------------------------------------------------


def test_a_job_of_a_higher_class_comes_first() -> None:
    """Also when it got the class after it was submitted."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0", job_class=make.URGENT)])
    world.step(make.submitted("first"), make.submitted("second"))
    world.step(f.JobPriorityChangeRequested(job="second", job_class=make.HIGH))

    world.exits("old")

    assert [world.state_of(one) for one in ("first", "second")] == ["queued", "starting"]


# --- cancels and refusals -------------------------------------------------------------------------


def test_cancelling_what_waits_ends_it_at_once() -> None:
    """With the reason that was given."""
    world = make.world(nodes=1, running=[make.gang("old", on="n0")])
    world.step(make.submitted("j"))

    finished = make.only(world.step(f.JobCancelRequested(job="j", why="typo")), d.JobFinished)

    assert (finished.outcome, finished.reason) == (d.Outcome.CANCELLED, "typo")


ASKED: list[tuple[Any, Refusal]] = [
    (f.JobCancelRequested(job="ghost"), Refusal.NO_SUCH_JOB),
    (f.JobCancelRequested(job="gone"), Refusal.JOB_ENDED),
    (f.JobHoldRequested(job="ghost"), Refusal.NO_SUCH_JOB),
    (f.JobHoldRequested(job="gone"), Refusal.JOB_ENDED),
    (f.JobHoldReleased(job="ghost"), Refusal.NO_SUCH_JOB),
    (f.JobHoldReleased(job="live"), Refusal.ALREADY_SO),
    (f.JobPriorityChangeRequested(job="ghost", job_class=make.LOW), Refusal.NO_SUCH_JOB),
    (f.JobPriorityChangeRequested(job="live", job_class=make.NORMAL), Refusal.ALREADY_SO),
]


@pytest.mark.parametrize(("asked", "reason"), ASKED)
def test_what_cannot_be_done_is_refused(asked: Any, reason: Refusal) -> None:
    """With the reason, and nothing else happens."""
    world = make.world(nodes=1, running=[make.gang("live", on="n0"), make.gang("gone", on="n0")])
    world.step(make.submitted("x", gpus=0))
    world.exits("gone")

    told = world.step(asked)

    assert make.kinds(told) == ["InputRejected"]
    assert told[0].reason == reason


@pytest.mark.parametrize("kind", [f.JobCancelRequested, f.JobHoldRequested])
def test_asking_twice_is_refused_the_second_time(kind: Any) -> None:
    """The first was enough."""
    world = make.world(nodes=1, running=[make.gang("live", on="n0")])
    world.step(kind(job="live"))

    assert len(world.refusals(kind(job="live"))) == 1


def test_bytes_that_nobody_can_read_are_refused_with_their_offset() -> None:
    """They stop nothing."""
    world = make.world(nodes=1)
    garbage = Fact("jobs", 0, 77, world.now_ms, None, "no single-object header")

    told = world.step(garbage, make.submitted("j"))

    refused = make.only(told, d.InputRejected)
    assert (refused.reason, refused.detail) == (Refusal.UNDECODABLE, "no single-object header")
    assert (refused.first, refused.last) == (77, 77)
    assert world.state_of("j") == "starting"


def test_a_fact_in_a_topic_that_is_not_its_own_is_refused() -> None:
    """Writers are kept apart: who may write jobs may not set teams."""
    world = make.world()
    stray = world.fact(make.team("mine", 99))._replace(topic="jobs")

    refused = make.only(world.step(stray), d.InputRejected)

    assert (refused.reason, refused.detail) == (Refusal.UNKNOWN_KIND, "TeamSet")
    assert "mine" not in world.state.teams
