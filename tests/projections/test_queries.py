"""What programs read: filters, pages by key, windows of the ledger, and clear errors."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from gangline.events import decisions as d
from gangline.events.log import Position
from gangline.projections.queries import QueryError, Views, ViewsUnreachableError
from tests.projections import story as s
from tests.projections.test_projector import life_of

if TYPE_CHECKING:
    from tests.projections.conftest import Desk

HOUR_MS = 3_600_000


def pages(views: Views, view: str, **where: object) -> list[dict[str, object]]:
    """All rows of a view, read two at a time."""
    rows: list[dict[str, Any]] = []
    after = ""
    while page := views.rows(view, where=where, after=after, limit=2):
        rows += page
        after = str(page[-1]["key"])
    return rows


def test_jobs_come_newest_first_in_pages(desk: Desk, views: Views) -> None:
    """Also where several were submitted in the same millisecond."""
    for number in range(1, 8):
        desk.story.step(
            s.queued(f"j{number}", number=number, submitted_ms=s.START_MS + number // 3)
        )
    desk.catch_up()

    rows = pages(views, "jobs")

    assert [row["job"] for row in rows] == ["j6", "j7", "j3", "j4", "j5", "j1", "j2"]


def test_jobs_are_found_by_team_and_state(desk: Desk, views: Views) -> None:
    """Together or alone."""
    desk.story.step(
        s.queued("a"),
        s.queued("b", number=2, of=s.spec("speech")),
        s.queued("c", number=3),
        s.finished("c"),
    )
    desk.catch_up()

    found = {
        "vision": {str(row["job"]) for row in pages(views, "jobs", team="vision")},
        "queued": {str(row["job"]) for row in pages(views, "jobs", state="queued")},
        "both": {str(row["job"]) for row in pages(views, "jobs", team="vision", state="queued")},
    }

    assert found == {"vision": {"a", "c"}, "queued": {"a", "b"}, "both": {"a"}}


@pytest.mark.parametrize(
    ("view", "count"),
    [("queue", 3), ("nodes", 3), ("teams", 3), ("faults", 3), ("waits", 1), ("fairness", 9)],
)
def test_every_list_is_read_in_pages(desk: Desk, views: Views, view: str, count: int) -> None:
    """No row is missing, and none comes twice."""
    for number in range(1, 4):
        desk.story.step(
            s.team(f"t{number}"),
            s.node(f"n{number}"),
            d.GpuWithdrawn(node=f"n{number}", gpu=0, fault="xid"),
            s.queued(f"j{number}", number=number, of=s.spec(f"t{number}")),
        )
    desk.story.wait(s=1)
    desk.story.step()
    desk.catch_up()

    keys = [row["key"] for row in pages(views, view)]

    assert len(keys) == len(set(keys)) == count


def test_places_in_line_do_not_depend_on_the_filter(desk: Desk, views: Views) -> None:
    """A team sees where its jobs stand among all."""
    for number, team in enumerate(("vision", "speech", "speech", "vision"), start=1):
        desk.story.step(s.queued(f"j{number}", number=number, of=s.spec(team)))
    desk.catch_up()

    rows = views.rows("queue", where={"team": "vision"})

    assert [row["position"] for row in rows] == [1, 4]


def test_the_feed_of_decisions_resumes_by_position_or_key(desk: Desk, views: Views) -> None:
    """A position is past its whole batch; a key is past one decision."""
    first = desk.story.step(s.queued("a"), s.queued("b", number=2))
    desk.story.step(s.finished("a"))
    desk.catch_up()

    everything = views.decisions()
    after_one = views.decisions(after=everything[0]["key"])
    after_batch = views.decisions(after=str(first))

    assert [row["kind"] for row in everything] == ["JobQueued", "JobQueued", "JobFinished"]
    assert after_one == everything[1:]
    assert after_batch == everything[2:]
    assert views.end() == "decisions-0-1"
    assert [row["kind"] for row in views.decisions(job="a")] == ["JobQueued", "JobFinished"]


def test_the_feed_is_filtered_by_kind_and_node(desk: Desk, views: Views) -> None:
    """For the history of one node."""
    desk.story.step(s.node("n0"), s.node("n1"), d.GpuWithdrawn(node="n1", gpu=0, fault="xid"))
    desk.catch_up()

    assert [row["kind"] for row in views.decisions(node="n1")] == ["NodeAdded", "GpuWithdrawn"]
    assert [row["node"] for row in views.decisions(kind="GpuWithdrawn")] == ["n1"]


def test_a_jobs_life_has_its_waits_between_its_decisions(desk: Desk, views: Views) -> None:
    """Though a reason is decided for many jobs at once."""
    story = desk.story
    story.step(s.node("n0"), s.queued("a"), s.queued("b", number=2))
    story.wait(s=1)
    story.step(s.waits("a", "b"))
    story.wait(s=1)
    story.step(s.placed("a", "n0"))
    desk.catch_up()

    kinds = [(row["kind"], row["detail"].get("cause")) for row in views.job_events("a")]

    assert kinds == [
        ("JobQueued", None),
        ("Waits", "deciding"),
        ("Waits", "capacity"),
        ("GangPlaced", None),
        ("Waits", "starting"),
    ]


def test_a_jobs_life_goes_on_where_a_page_of_it_ended(desk: Desk, views: Views) -> None:
    """In the order of batches also where many are of one moment, and nothing twice."""
    story = desk.story
    story.step(s.node("n0"), s.queued("a"))
    for attempt in range(1, 6):
        story.step(s.placed("a", "n0", attempt=attempt))
        story.step(s.started("a", attempt=attempt))
        story.step(s.released("a", attempt=attempt), s.requeued("a", attempt=attempt))
    desk.catch_up()

    whole: list[dict[str, Any]] = []
    after = ""
    while rows := views.job_events("a", after=after, limit=3):
        whole += rows
        after = rows[-1]["key"]

    assert whole == views.job_events("a")
    places = [int(row["position"].rpartition("-")[2]) for row in whole if row["position"]]
    assert places == sorted(places)
    assert len(places) == 1 + 5 * 4
    with pytest.raises(QueryError, match="no list goes on at"):
        views.job_events("a", after="1:2")


def test_any_window_of_the_ledger_adds_up(desk: Desk, views: Views) -> None:
    """Cut anywhere, also through work that was saved later."""
    story = desk.story
    story.step(s.node("n0"), s.team("vision"))
    for number in range(1, 4):
        life_of(story, f"j{number}", "n0", number=number)
    desk.catch_up()
    edges = [s.START_MS, s.START_MS + 1, s.START_MS + 4_000_003, s.START_MS + 2 * HOUR_MS + 7]

    for from_ms, to_ms in pairwise(edges):
        rows = views.ledger(from_ms=from_ms, to_ms=to_ms)
        assert sum(row["gpu_ms"] for row in rows) == 8 * (to_ms - from_ms)


def test_utilization_comes_in_steps(desk: Desk, views: Views) -> None:
    """Every step's accounts add up to its capacity."""
    story = desk.story
    story.step(s.node("n0"), s.team("vision"))
    for number in range(1, 4):
        life_of(story, f"j{number}", "n0", number=number)
    desk.catch_up()

    rows = views.utilization(from_ms=s.START_MS, to_ms=s.START_MS + 3 * HOUR_MS, step_s=3600)

    steps: Counter[object] = Counter()
    for row in rows:
        steps[row["from_at"]] += row["gpu_ms"]
    assert list(steps.values()) == [8 * HOUR_MS] * 3
    assert {row["account"] for row in rows} == {"idle_lendable", "productive"}


def test_numbers_for_metrics_are_those_of_the_views(desk: Desk, views: Views) -> None:
    """Fleet, queue, jobs and teams."""
    desk.story.step(
        s.node("n0"),
        s.node("n1"),
        d.GpuWithdrawn(node="n1", gpu=0, fault="xid"),
        s.team("vision"),
        s.queued("a"),
        s.placed("a", "n0"),
        s.queued("b", number=2),
        s.waits("b"),
    )
    desk.catch_up()

    numbers = views.numbers()

    assert numbers["fleet"] == {"total": 16, "held": 8, "free": 7, "nodes": 2, "unhealthy": 1}
    assert numbers["queue"] == [{"reason": "capacity", "jobs": 1, "gpus": 8}]
    assert numbers["jobs"] == [{"state": "queued", "jobs": 1}, {"state": "starting", "jobs": 1}]
    assert [team["used"] for team in numbers["teams"]] == [8]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"view": "jbos"}, "there is no list of 'jbos'; there are jobs, attempts"),
        (
            {"view": "jobs", "where": {"colour": "red"}},
            "jobs cannot be asked for by colour; only by team",
        ),
        ({"view": "jobs", "after": "x"}, "after: no list goes on at 'x'"),
        ({"view": "jobs", "after": "x:y"}, "after: no list goes on at 'x'"),
        (
            {"view": "jobs", "after": f"{9 * 10**18}0:y"},
            "after: no list goes on at '9000000",
        ),
        ({"view": "jobs", "after": "٣:y"}, "after: no list goes on at '٣'"),
        ({"view": "jobs", "limit": 0}, "limit: this is at least 1, not 0"),
    ],
)
def test_a_wrong_question_is_answered_by_what_would_be_right(
    views: Views, wrong: dict[str, object], message: str
) -> None:
    """In one line."""
    with pytest.raises(QueryError, match=message):
        views.rows(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("after", ["jobs-0-1", "decisions-0-x", "decisions-0-1.x", "?"])
def test_decisions_come_only_after_a_position_of_decisions(views: Views, after: str) -> None:
    """Anything else is an error, not an empty list."""
    with pytest.raises(QueryError):
        views.decisions(after=after)


def test_a_value_of_the_wrong_kind_is_the_askers_error(views: Views) -> None:
    """Not a broken database."""
    with pytest.raises(QueryError):
        views.rows("fairness", where={"window_s": "long"})


def test_a_database_that_is_not_there_is_said_in_a_line() -> None:
    """Nothing listens on that port."""
    views = Views("postgresql://u:p@127.0.0.1:1/none?connect_timeout=1", "main", wait_s=0.5)

    with pytest.raises(ViewsUnreachableError) as caught:
        views.lag()
    views.close()

    assert "\n" not in str(caught.value)


def test_a_database_without_views_is_said_as_such(postgres_url: str) -> None:
    """And what makes them."""
    views = Views(postgres_url, "main")

    with pytest.raises(ViewsUnreachableError, match="`gangline projector` makes them"):
        views.lag()
    views.close()


def test_readers_cannot_change_anything(desk: Desk, views: Views) -> None:
    """Their connections are read-only."""
    views.lag()
    with views._pool.connection() as connection:
        found = connection.execute("SHOW default_transaction_read_only").fetchone()

    assert found == {"default_transaction_read_only": "on"}
    assert desk.cell == views.cell


def test_a_position_of_a_stuck_view_does_not_hold_up_the_others(desk: Desk, views: Views) -> None:
    """Read-your-writes waits for the views that move."""
    desk.story.step(s.queued("a"), inputs=1)
    desk.catch_up()
    desk.execute("UPDATE view_position SET problem = 'a bug', inputs = '{}' WHERE view = 'jobs'")
    fact = Position("jobs", 0, 0)

    assert views.contains(fact)
    assert not views.contains(fact, view="jobs")


@pytest.mark.parametrize(
    ("position", "why"),
    [
        ("control-0-3", "no such team"),
        ("control-0-4", "no such team"),
        ("control-0-5", "no such team"),
        ("control-0-6", None),
        ("control-0-7", "already so"),
        ("control-0-8", None),
        ("control-0-9", "already so"),
        ("control-1-3", None),
        ("jobs-0-3", None),
    ],
)
def test_why_a_fact_was_refused(desk: Desk, views: Views, position: str, why: str | None) -> None:
    """By its position; of refusals told together that leave some out, only the ends are sure."""
    refusal = d.InputRejected(
        topic="control", partition=0, first=3, last=5, count=3, reason="no such team"
    )
    some = replace(refusal, first=7, last=9, count=2, reason="already so")
    desk.story.step(refusal, some)
    desk.catch_up()

    found = views.refusal(Position.parse(position))

    assert (found and found["reason"]) == why
