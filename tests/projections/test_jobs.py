"""The view of jobs: states and costs over a job's life."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gangline.events import decisions as d
from tests.projections import story as s

if TYPE_CHECKING:
    from tests.projections.conftest import Desk


def test_a_job_that_succeeds_has_its_whole_life_in_one_row(desk: Desk) -> None:
    """Wait is from submission to the first start."""
    story = desk.story
    story.step(s.node("n0"), s.queued("a"))
    story.wait(s=30)
    story.step(s.placed("a", "n0"))
    story.wait(s=10)
    story.step(s.started("a"))
    story.wait(h=1)
    story.step(s.released("a", productive_ms=3_600_000), s.finished("a"))

    desk.catch_up()

    row = desk.one("SELECT * FROM jobs")
    assert row["state"] == "succeeded"
    assert row["wait_s"] == 40.0
    assert (row["attempts"], row["preemptions"], row["lost_gpu_s"]) == (1, 0, 0.0)
    assert (row["ended_at"] - row["started_at"]).total_seconds() == 3600
    assert row["class"] == "normal"


def test_every_state_is_shown_as_it_comes(desk: Desk) -> None:
    """Preempting until it is queued again."""
    story = desk.story
    story.step(s.node("n0"))
    seen = []
    for decision in (
        s.queued("a"),
        s.placed("a", "n0"),
        s.started("a"),
        d.GangPreempted(
            job="a", attempt=1, claimant="b", claimant_attempt=1, cause="class", grace_ms=60_000
        ),
        s.released("a", cause=d.StopCause.PREEMPTED),
        s.requeued("a", cause=d.StopCause.PREEMPTED),
    ):
        story.step(decision)
        desk.catch_up()
        seen.append(desk.one("SELECT state, preemptions FROM jobs"))

    assert [row["state"] for row in seen] == [
        "queued",
        "starting",
        "running",
        "preempting",
        "preempting",
        "queued",
    ]
    assert seen[-1]["preemptions"] == 1


def test_a_cancelled_gang_keeps_its_state_until_it_is_out(desk: Desk) -> None:
    """It works on through its grace."""
    stopping = d.GangStopping(job="a", attempt=1, cause=d.StopCause.CANCELLED, grace_ms=1000)
    desk.story.step(s.node("n0"), s.queued("a"), s.placed("a", "n0"), s.started("a"), stopping)

    desk.catch_up()

    assert desk.one("SELECT state FROM jobs")["state"] == "running"


def test_an_ended_job_stays_as_it_ended(desk: Desk) -> None:
    """The first end wins, whatever comes later."""
    desk.story.step(s.queued("a"), s.finished("a", d.Outcome.CANCELLED))
    desk.story.step(s.finished("a", d.Outcome.SUCCEEDED))

    desk.catch_up()

    assert desk.one("SELECT state FROM jobs")["state"] == "cancelled"


def test_a_rejected_job_says_what_could_start(desk: Desk) -> None:
    """It was never accepted, and so has no number."""
    rejected = d.JobRejected(
        job="a", team="vision", reason="never", text="too large", nearest="gpus=8", submitted_ms=5
    )
    desk.story.step(rejected)

    desk.catch_up()

    row = desk.one("SELECT * FROM jobs")
    assert (row["state"], row["number"]) == ("rejected", 0)
    assert (row["reason"], row["nearest"]) == ("never", "gpus=8")


def test_an_id_that_comes_back_much_later_is_another_job(desk: Desk) -> None:
    """Submissions are told apart by their ids for a while only."""
    story = desk.story
    story.step(s.node("n0"), s.queued("a"), s.placed("a", "n0"), s.started("a"))
    story.step(s.released("a"), s.finished("a"))
    desk.catch_up()
    story.wait(h=24 * 60)
    story.step(s.queued("a", number=7, of=s.spec(gpus=4), submitted_ms=story.now_ms))
    story.step(s.placed("a", "n0", gpus=4))

    desk.catch_up()

    job = desk.one("SELECT number, gpus, state, attempts, ended_at FROM jobs")
    assert job == {"number": 7, "gpus": 4, "state": "starting", "attempts": 0, "ended_at": None}
    attempt = desk.one("SELECT state, gpus, cause, seats FROM attempts")
    assert (attempt["state"], attempt["gpus"], attempt["cause"]) == ("starting", 4, "")
    assert attempt["seats"][0]["gpus"] == [0, 1, 2, 3]


def test_no_view_holds_a_command(desk: Desk) -> None:
    """The private part of a spec stays in the log."""
    desk.story.step(s.queued("a"))

    desk.catch_up()

    shown = [desk.one("SELECT spec FROM jobs"), desk.one("SELECT detail FROM decisions")]
    assert "secret" not in json.dumps(shown)
    assert "private" not in json.dumps(shown)
