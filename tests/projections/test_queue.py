"""The view of the queue: order, reasons, estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events import decisions as d
from gangline.events.spec import JobClass
from tests.projections import story as s

if TYPE_CHECKING:
    from tests.projections.conftest import Desk


def plan(job: str, *, in_s: float, story: s.Story, kind: str = "plan") -> d.ReservationPlanned:
    """Room is kept for a job from so many seconds on."""
    start_ms = story.now_ms + int(in_s * 1000)
    return d.ReservationPlanned(
        job=job, kind=kind, start_ms=start_ms, end_ms=start_ms + 1000, seats=()
    )


def line(desk: Desk) -> list[str]:
    """The jobs of the queue in order."""
    return [row["job"] for row in desk.all("SELECT job FROM queue ORDER BY position")]


def test_the_queue_goes_by_class_then_age_then_number(desk: Desk) -> None:
    """Among teams that stand alike."""
    high = s.spec(job_class=JobClass.HIGH)
    desk.story.step(
        s.queued("young", number=3, submitted_ms=s.START_MS + 9),
        s.queued("old-2", number=2),
        s.queued("old-1", number=1),
        s.queued("high", number=4, of=high, submitted_ms=s.START_MS + 99),
    )

    desk.catch_up()

    assert line(desk) == ["high", "old-1", "old-2", "young"]


def test_a_team_that_uses_less_than_its_guarantee_comes_first(desk: Desk) -> None:
    """Before older jobs of one that does not, as the scheduler takes them."""
    desk.story.step(
        s.node("n0"), s.team("vision", guaranteed=4), s.team("nlp", guaranteed=4), s.queued("a")
    )
    desk.story.step(s.placed("a", "n0"))
    desk.story.step(
        s.queued("old", number=2),
        s.queued("young", number=3, of=s.spec(team="nlp"), submitted_ms=s.START_MS + 9),
    )

    desk.catch_up()

    assert line(desk) == ["young", "old"]


def test_a_team_that_used_less_of_late_comes_first(desk: Desk) -> None:
    """Of two that have no guarantee; a projector that comes later counts on from what was saved."""
    story = desk.story
    story.step(s.node("n0"), s.team("vision"), s.team("nlp"), s.queued("a"))
    story.step(s.placed("a", "n0"), s.started("a"))
    desk.catch_up()
    story.wait(h=1)
    story.step(s.released("a"), s.finished("a"))
    story.step(
        s.queued("old", number=2),
        s.queued("young", number=3, of=s.spec(team="nlp"), submitted_ms=s.START_MS + 9),
    )

    desk.catch_up()

    assert line(desk) == ["young", "old"]


def test_a_large_gang_past_its_bound_heads_its_class(desk: Desk) -> None:
    """Its firm reservation says so."""
    desk.story.step(s.queued("old"), s.queued("large", number=2))
    desk.story.step(plan("large", in_s=600, story=desk.story, kind="firm"))

    desk.catch_up()

    assert line(desk) == ["large", "old"]


def test_a_reason_stands_for_all_jobs_that_it_names(desk: Desk) -> None:
    """With its numbers."""
    desk.story.step(
        s.queued("a"),
        s.queued("b", number=2),
        s.waits("a", "b", cause=d.WaitCause.BORROW_LIMIT, text="needs 8, may borrow 4"),
    )

    desk.catch_up()

    rows = desk.all("SELECT reason, reason_text FROM queue")
    assert rows == [{"reason": "borrow_limit", "reason_text": "needs 8, may borrow 4"}] * 2
    assert desk.one("SELECT reason FROM jobs WHERE job = 'a'")["reason"] == "borrow_limit"


def test_a_placed_job_leaves_the_queue_and_a_requeued_one_comes_back(desk: Desk) -> None:
    """With its old age."""
    story = desk.story
    story.step(s.node("n0"), s.queued("a"), s.placed("a", "n0"), s.started("a"))
    desk.catch_up()
    while_running = line(desk)
    story.wait(h=1)
    story.step(s.queued("b", number=2, submitted_ms=story.now_ms))
    story.step(s.released("a", cause=d.StopCause.USER), s.requeued("a"))

    desk.catch_up()

    assert while_running == []
    assert line(desk) == ["a", "b"]


def test_ended_and_rejected_jobs_are_not_in_the_queue(desk: Desk) -> None:
    """Nothing waits for them."""
    rejected = d.JobRejected(job="b", team="vision", reason="never", text="")
    desk.story.step(s.queued("a"), s.queued("b", number=2), rejected)
    desk.story.step(s.finished("a", d.Outcome.CANCELLED))

    desk.catch_up()

    assert line(desk) == []


def test_without_a_plan_there_is_no_estimate(desk: Desk) -> None:
    """A reservation gives one, and its end takes it away."""
    story = desk.story
    story.step(s.queued("a"))
    desk.catch_up()
    without = desk.one("SELECT * FROM queue")
    story.step(plan("a", in_s=600, story=story))
    desk.catch_up()
    planned = desk.one("SELECT * FROM queue")
    story.step(d.ReservationReleased(job="a", why="expired"))
    desk.catch_up()
    again = desk.one("SELECT * FROM queue")

    assert without["estimated_start_p50"] is None
    assert planned["estimated_start_p50"] == planned["estimated_start_p90"]
    assert (planned["estimated_start_p50"] - planned["submitted_at"]).total_seconds() == 600
    assert planned["reservation"] == "plan"
    assert (again["reservation"], again["estimated_start_p90"]) == (None, None)


def test_estimates_are_moved_by_how_far_past_plans_were(desk: Desk) -> None:
    """Plans use declared limits, so most gangs start earlier; some start later."""
    story = desk.story
    story.step(s.node("n0"))
    for number, late_s in enumerate((-300, -300, -300, -200, -100, -100, 0, 0, 60, 900), start=1):
        job = f"j{number}"
        story.step(s.queued(job, number=number), plan(job, in_s=1000, story=story))
        story.wait(s=1000 + late_s)
        story.step(
            s.placed(job, "n0"), s.started(job), d.ReservationReleased(job=job, why="started")
        )
        story.step(s.released(job), s.finished(job))
    story.step(s.queued("new", number=99), plan("new", in_s=1000, story=story))

    desk.catch_up()

    row = desk.one(
        "SELECT extract(epoch FROM q.estimated_start_p50 - p.as_of) AS p50_s,"
        " extract(epoch FROM q.estimated_start_p90 - p.as_of) AS p90_s"
        " FROM queue AS q JOIN projection AS p ON p.view = 'queue'"
    )
    assert (row["p50_s"], row["p90_s"]) == (900, 1060)


def test_an_estimate_never_lies_in_the_past(desk: Desk) -> None:
    """A plan that is overdue says `now`."""
    story = desk.story
    story.step(s.queued("a"), plan("a", in_s=10, story=story))
    story.wait(h=1)
    story.step()

    desk.catch_up()

    row = desk.one(
        "SELECT q.estimated_start_p50 = p.as_of AS now FROM queue AS q"
        " JOIN projection AS p ON p.view = 'queue'"
    )
    assert row["now"]


def test_a_held_job_says_so(desk: Desk) -> None:
    """Until it is released."""
    desk.story.step(s.queued("a"), d.JobHeld(job="a", by="user:ada", why="not yet"))
    desk.catch_up()
    held = desk.one("SELECT held FROM queue")["held"]
    desk.story.step(d.JobReleased(job="a"))

    desk.catch_up()

    assert held
    assert not desk.one("SELECT held FROM queue")["held"]


def test_a_job_in_another_class_moves_in_line(desk: Desk) -> None:
    """From the moment of the decision."""
    desk.story.step(s.queued("a"), s.queued("b", number=2))
    desk.story.step(d.PriorityChanged(job="b", job_class=JobClass.URGENT))

    desk.catch_up()

    assert line(desk) == ["b", "a"]
    assert desk.one("SELECT class FROM jobs WHERE job = 'b'")["class"] == "urgent"
