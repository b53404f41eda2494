"""The view of waits: every pending millisecond of a job has one cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events import decisions as d
from tests.projections import story as s

if TYPE_CHECKING:
    from gangline.projections.queries import Views
    from tests.projections.conftest import Desk


def seconds(desk: Desk) -> dict[str, float]:
    """Job-seconds by cause."""
    rows = desk.all("SELECT cause, sum(wait_s) AS wait_s FROM waits GROUP BY cause")
    return {row["cause"]: row["wait_s"] for row in rows}


def test_a_wait_is_the_sum_of_its_causes(desk: Desk) -> None:
    """From the submission to the start, without a gap."""
    story = desk.story
    story.wait(s=2)
    story.step(s.node("n0"), s.queued("a"))
    story.wait(s=10)
    story.step(s.waits("a", cause=d.WaitCause.FAIR_SHARE))
    story.wait(s=20)
    story.step(s.waits("a", cause=d.WaitCause.CAPACITY))
    story.wait(s=30)
    story.step(s.placed("a", "n0"))
    story.wait(s=5)
    story.step(s.started("a"))

    desk.catch_up()

    assert seconds(desk) == {"deciding": 12, "fair_share": 20, "capacity": 30, "starting": 5}
    assert desk.one("SELECT wait_s FROM jobs")["wait_s"] == 67


def test_a_wait_that_goes_on_counts_up_to_now(desk: Desk) -> None:
    """The view's own time is that of its last decisions."""
    story = desk.story
    story.step(s.queued("a"), s.waits("a"))
    story.wait(s=40)
    story.step()

    desk.catch_up()

    row = desk.one("SELECT * FROM waits")
    assert (row["cause"], row["waiting_now"], row["waits"], row["wait_s"]) == ("capacity", 1, 0, 40)


def test_the_same_cause_again_goes_on(desk: Desk) -> None:
    """Only its text was another."""
    desk.story.step(s.queued("a"), s.waits("a", text="needs 8"))
    desk.story.wait(s=10)
    desk.story.step(s.waits("a", text="needs 4"))

    desk.catch_up()

    assert desk.one("SELECT count(*) AS n FROM wait")["n"] == 1


def test_a_job_that_waits_again_has_another_wait(desk: Desk) -> None:
    """That is no wait for a first start any more."""
    story = desk.story
    story.step(s.node("n0"), s.queued("a"))
    story.wait(s=1)
    story.step(s.placed("a", "n0"), s.started("a"))
    story.wait(h=1)
    story.step(s.released("a", cause=d.StopCause.PREEMPTED), s.requeued("a"), s.waits("a"))

    desk.catch_up()

    rows = desk.all("SELECT cause, first_start FROM wait ORDER BY from_ms")
    assert rows == [
        {"cause": "deciding", "first_start": True},
        {"cause": "capacity", "first_start": False},
    ]


def test_waits_are_told_by_band(desk: Desk, views: Views) -> None:
    """Small, medium and large gangs."""
    story = desk.story
    sizes = {"small": 7, "medium": 8, "large": 128}
    for number, (job, gpus) in enumerate(sizes.items(), start=1):
        story.step(s.node(job, gpus=gpus), s.queued(job, number=number, of=s.spec(gpus=gpus)))
        story.wait(s=10)
        story.step(s.placed(job, job, gpus=gpus), s.started(job))

    desk.catch_up()

    bands = views.wait_bands(since_ms=0)
    assert [(row["band"], row["started"], row["p50_s"]) for row in bands] == [
        ("1-7", 1, 10),
        ("8-127", 1, 20),
        ("128+", 1, 30),
    ]


def test_a_job_that_ends_in_the_queue_waits_no_more(desk: Desk) -> None:
    """It was cancelled."""
    desk.story.step(s.queued("a"))
    desk.story.wait(s=7)
    desk.story.step(s.finished("a", d.Outcome.CANCELLED))

    desk.catch_up()

    assert seconds(desk) == {"deciding": 7}
    assert desk.one("SELECT count(*) AS n FROM wait_job")["n"] == 0
