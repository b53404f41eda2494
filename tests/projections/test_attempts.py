"""The view of attempts: a gang from its placement until it is out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.events import decisions as d
from tests.projections import story as s

if TYPE_CHECKING:
    from tests.projections.conftest import Desk


def test_an_attempt_tells_where_it_stood_and_what_it_kept(desk: Desk) -> None:
    """Place, times, checkpoints and the reason of its end."""
    story = desk.story
    story.step(s.node("n0"), s.node("n1"), s.queued("a"), s.placed("a", "n0", "n1", gpus=4))
    story.wait(s=20)
    story.step(s.started("a", resumed_ms=5000))
    story.wait(h=1)
    story.step(s.saved("a", productive_ms=3_605_000))
    story.wait(s=60)
    story.step(
        d.MemberEnded(job="a", attempt=1, node="n1", code=0, signal=9, reason="infrastructure"),
        s.released(
            "a",
            cause=d.StopCause.INFRASTRUCTURE,
            lost_gpu_ms=480_000,
            productive_ms=3_605_000,
        ),
    )

    desk.catch_up()

    row = desk.one("SELECT * FROM attempts")
    assert [seat["node"] for seat in row["seats"]] == ["n0", "n1"]
    assert (row["gpus"], row["level"], row["state"]) == (8, "block", "ended")
    assert (row["resumed_s"], row["productive_s"], row["lost_gpu_s"]) == (5, 3605, 480)
    assert (row["checkpoints"], row["cause"]) == (1, "infrastructure")
    assert (row["exit_signal"], row["exit_node"]) == (9, "n1")
    assert (row["ended_at"] - row["started_at"]).total_seconds() == 3660


def test_each_attempt_has_a_row(desk: Desk) -> None:
    """Numbered as everywhere else."""
    story = desk.story
    story.step(s.node("n0"), s.queued("a"))
    story.step(s.placed("a", "n0"), s.started("a"))
    story.step(s.released("a", cause=d.StopCause.USER), s.requeued("a"))
    story.step(s.placed("a", "n0", attempt=2))

    desk.catch_up()

    rows = desk.all("SELECT attempt, state, cause FROM attempts ORDER BY attempt")
    assert rows == [
        {"attempt": 1, "state": "ended", "cause": "user"},
        {"attempt": 2, "state": "starting", "cause": ""},
    ]


def test_a_preempted_attempt_names_its_claimant(desk: Desk) -> None:
    """And why it had to go."""
    preempted = d.GangPreempted(
        job="a", attempt=1, claimant="b", claimant_attempt=1, cause="reclaim", grace_ms=1
    )
    desk.story.step(s.node("n0"), s.queued("a"), s.placed("a", "n0"), s.started("a"), preempted)

    desk.catch_up()

    row = desk.one("SELECT state, claimant, cause_text FROM attempts")
    assert row == {"state": "stopping", "claimant": "b", "cause_text": "reclaim"}


def test_an_attempt_ended_as_its_first_failure(desk: Desk) -> None:
    """Though another member was heard of sooner."""
    late = d.MemberEnded(job="a", attempt=1, node="n1", code=1)
    culprit = d.MemberEnded(job="a", attempt=1, node="n0", code=139, signal=11)
    out = d.GangReleased(
        job="a", attempt=1, cause=d.StopCause.USER, lost_gpu_ms=0, productive_ms=0,
        failed_on="n0", code=139, signal=11,
    )  # fmt: skip
    desk.story.step(s.node("n0"), s.node("n1"), s.queued("a"), s.placed("a", "n0", "n1"))
    desk.story.step(s.started("a"), late, culprit, out, s.requeued("a", cause=d.StopCause.USER))

    desk.catch_up()

    assert desk.one("SELECT exit_node, exit_code, exit_signal FROM attempts") == {
        "exit_node": "n0",
        "exit_code": 139,
        "exit_signal": 11,
    }


def test_an_attempt_that_hung_says_so(desk: Desk) -> None:
    """Its failure is the machine's, as a hung network may be."""
    hung = d.MemberEnded(job="a", attempt=1, node="n0", code=0, signal=9, reason="hung")
    stop = d.GangStopping(job="a", attempt=1, cause=d.StopCause.INFRASTRUCTURE, grace_ms=0)
    out = s.released("a", cause=d.StopCause.INFRASTRUCTURE)
    desk.story.step(s.node("n0"), s.queued("a"), s.placed("a", "n0"), s.started("a"), hung)
    desk.story.step(stop, out, s.requeued("a", cause=d.StopCause.INFRASTRUCTURE))

    desk.catch_up()

    assert desk.one("SELECT cause, cause_text FROM attempts") == {
        "cause": "infrastructure",
        "cause_text": "no progress for its progress_timeout",
    }


@pytest.mark.parametrize(
    ("presumed", "said"),
    [
        (True, "n1 was lost or removed"),
        (False, "the machine, or the supervisor of its processes, failed on n1"),
    ],
)
def test_an_attempt_that_a_node_failed_names_the_node(
    desk: Desk, said: str, *, presumed: bool
) -> None:
    """Not the one that was stopped for it."""
    lost = d.MemberEnded(
        job="a", attempt=1, node="n1", code=0, reason="infrastructure", presumed=presumed
    )
    stop = d.GangStopping(job="a", attempt=1, cause=d.StopCause.INFRASTRUCTURE, grace_ms=0)
    broken = replace(lost, node="n0", presumed=False)
    out = s.released("a", cause=d.StopCause.INFRASTRUCTURE)
    desk.story.step(s.node("n0"), s.node("n1"), s.queued("a"), s.placed("a", "n0", "n1"))
    desk.story.step(s.started("a"), lost, stop, broken, out)

    desk.catch_up()

    assert desk.one("SELECT cause, cause_text FROM attempts") == {
        "cause": "infrastructure",
        "cause_text": said,
    }


def test_an_aborted_start_is_no_attempt_of_the_job(desk: Desk) -> None:
    """But it has its row, and its reason."""
    story = desk.story
    story.step(s.node("n0"), s.queued("a"), s.placed("a", "n0"))
    story.step(
        d.GangStartAborted(job="a", attempt=1, slow=("n0",), why="n0 was not ready"),
        s.released("a", cause=d.StopCause.START_ABORTED),
        s.requeued("a", cause=d.StopCause.START_ABORTED),
    )

    desk.catch_up()

    assert desk.one("SELECT state, cause_text FROM attempts") == {
        "state": "aborted",
        "cause_text": "n0 was not ready",
    }
    assert desk.one("SELECT attempts, aborted_starts FROM jobs") == {
        "attempts": 0,
        "aborted_starts": 1,
    }
