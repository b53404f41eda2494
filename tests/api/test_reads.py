"""Reading: pages, one's own writes, the stream, health and metrics."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gangline.api.history import moment_of
from gangline.client import Client, NotYetError
from gangline.events.log import Position, Topic
from gangline.replay.timetravel import When
from tests.api.fakes import World, make_world
from tests.support.api import listening_api

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def served() -> Iterator[tuple[str, World]]:
    """An API that listens."""
    with listening_api() as found:
        yield found


def _made(number: int, job: str = "j", kind: str = "GangPlaced") -> dict[str, Any]:
    return {"position": f"decisions-0-{number}", "at": "2026-11-30T12:00:00Z", "kind": kind,
            "job": job, "node": None, "team": None, "detail": {}}  # fmt: skip


def test_lists_come_in_pages(world: World) -> None:
    """`next` begins the next page; null ends it."""
    world.views.tables["teams"] = [{"team": str(i)} for i in range(5)]

    first = world.client.get("/v1/teams?limit=3").json()
    second = world.client.get(f"/v1/teams?limit=3&after={first['next']}").json()

    assert [row["team"] for row in first["items"]] == ["0", "1", "2"]
    assert [row["team"] for row in second["items"]] == ["3", "4"]
    assert second["next"] is None


def test_a_client_can_wait_for_its_own_write(served: tuple[str, World]) -> None:
    """A read with `min_position` answers when the views have come so far."""
    url, world = served
    world.views.tables["jobs"] = [{"job": "j", "team": "a"}]
    threading.Timer(0.2, lambda: setattr(world.views, "reached", Position("jobs", 0, 7))).start()

    with Client(url) as client:
        assert client.job("j", min_position="jobs-0-7")["team"] == "a"


def test_a_view_that_does_not_come_so_far_is_said_to_be_behind() -> None:
    """503 with Retry-After, after a bounded wait."""
    world = make_world(wait_s=0.05)

    answer = world.client.get("/v1/queue?min_position=jobs-0-7")

    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:gangline:problem:not-yet"
    assert answer.headers["retry-after"] == "1"


def test_a_position_that_is_none_is_not_waited_for(world: World) -> None:
    """It is a mistake of the client's."""
    answer = world.client.get("/v1/queue?min_position=yesterday")

    assert answer.status_code == 422
    assert "topic-partition-offset" in answer.json()["detail"]


def test_the_stream_goes_on_where_a_client_left_it(served: tuple[str, World]) -> None:
    """A client that comes back with the last id misses nothing and sees nothing twice."""
    url, world = served
    world.views.made += [_made(i) for i in range(1_200)]

    with Client(url) as client:
        seen = [h for h, _ in zip(_decisions(client, after=""), range(700), strict=False)]
        rest = _decisions(client, after=seen[-1].position)
        assert next(rest).row["position"] == "decisions-0-700"
    assert [h.row["position"] for h in seen] == [f"decisions-0-{i}" for i in range(700)]


def _decisions(client: Client, *, after: str) -> Iterator[Any]:
    return (h for h in client.events(after=after) if h is not None)


def test_a_time_is_written_in_one_way(served: tuple[str, World]) -> None:
    """ISO 8601 with a Z, in lists, in the stream, and in what is asked before anything else."""
    url, world = served
    at = datetime(2026, 11, 30, 12, 0, 0, 5_000, tzinfo=UTC)
    world.views.made.append(_made(0) | {"at": at})

    with Client(url) as client:
        streamed = next(_decisions(client, after="")).row["at"]
        (listed,) = client.pages("/v1/decisions")

    assert streamed == listed["at"] == "2026-11-30T12:00:00.005000Z"


def test_a_moment_to_come_is_now() -> None:
    """Nobody can look ahead; what waits has not waited longer than until now."""
    when = moment_of("2031-01-01T00:00:00Z", now_ms=1_796_000_000_000)

    assert when == When(at_ms=1_796_000_000_000)
    assert moment_of("1m", now_ms=1_796_000_000_000) == When(at_ms=1_795_999_940_000)


def test_a_jobs_life_comes_in_pages(world: World) -> None:
    """However often it was moved out."""
    world.views.tables["jobs"] = [{"job": "j-1", "team": "a"}]
    world.views.made += [_made(i, "j-1") for i in range(5)]

    first = world.client.get("/v1/jobs/j-1/events?limit=3").json()
    second = world.client.get(f"/v1/jobs/j-1/events?limit=3&after={first['next']}").json()

    places = [row["position"] for row in first["items"] + second["items"]]
    assert places == [f"decisions-0-{i}" for i in range(5)]
    assert second["next"] is None


def test_waiting_for_many_jobs_needs_one_stream(served: tuple[str, World]) -> None:
    """Each job's exit code is there as soon as its end is decided."""
    url, world = served
    rows: list[dict[str, Any]] = [
        {"job": name, "team": "a", "state": "running", "exit_code": None} for name in "abc"
    ]
    world.views.tables["jobs"] = rows

    def end(name: str, state: str, code: int | None) -> None:
        next(r for r in rows if r["job"] == name).update(state=state, exit_code=code)
        world.views.made.append(_made(len(world.views.made), name, "JobFinished"))

    threading.Timer(0.1, end, ["b", "failed", 3]).start()
    threading.Timer(0.2, end, ["a", "succeeded", 0]).start()
    threading.Timer(0.3, end, ["c", "cancelled", None]).start()
    with Client(url) as client:
        assert client.wait_all("abc", timeout_s=20) == {"a": 0, "b": 3, "c": 143}


def test_waiting_ends_at_its_timeout(served: tuple[str, World]) -> None:
    """NotYetError names who has not ended."""
    url, _ = served
    with Client(url) as client, pytest.raises(NotYetError, match="j"):
        client.wait("j", timeout_s=0.5)


def test_health_says_what_is_not_reachable(world: World) -> None:
    """The process lives, but is not ready while the views are away."""
    ready = world.client.get("/readyz")
    world.views.down = True
    away = world.client.get("/readyz")

    assert (ready.status_code, away.status_code) == (200, 503)
    assert away.json()["views"] == (
        "the views' Postgres is not reachable (no Postgres at nowhere:5432)"
    )
    assert world.client.get("/healthz").status_code == 200


def test_metrics_count_requests_by_route_and_show_the_cell(world: World) -> None:
    """By route, not by path: no series for each job."""
    world.client.get("/v1/jobs/one")
    world.client.get("/v1/jobs/two")

    text = world.client.get("/metrics").text

    assert (
        'gangline_api_requests_total{method="GET",route="/v1/jobs/{job}",status="404"} 2.0' in text
    )
    assert 'gangline_gpus{state="held"} 3.0' in text
    assert 'gangline_queued_jobs{reason="capacity"} 2.0' in text
    assert 'gangline_team_used_gpus{team="a"} 3.0' in text


def test_metrics_survive_views_that_are_away(world: World) -> None:
    """They say so."""
    world.views.down = True

    assert "gangline_views_up 0.0" in world.client.get("/metrics").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/jobs?state=sleeping", 422),
        ("/v1/jobs?limit=0", 422),
        ("/v1/utilization?since=yesterday", 422),
        ("/v1/utilization?since=1h&until=2h", 422),
        ("/v1/nothing", 404),
        ("/v1/jobs/a%20b", 422),
    ],
)
def test_a_wrong_question_is_one_problem(world: World, path: str, status: int) -> None:
    """Never a traceback, never another form."""
    answer = world.client.get(path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("jobs?tema=a", "tema: there is no such parameter; did you mean team?"),
        ("ledger?sinec=2h", "sinec: there is no such parameter; did you mean since?"),
        ("queue?min_postion=jobs-0-1", "did you mean min_position?"),
        ("jobs?team=a&team=b", "team: it is given twice"),
    ],
)
def test_a_filter_that_is_mistyped_is_refused(world: World, query: str, said: str) -> None:
    """It would show what it was to leave out."""
    answer = world.client.get(f"/v1/{query}")

    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_no_route_guesses_what_a_parameter_means(world: World) -> None:
    """Whatever is read, in every route of the API."""
    paths = world.client.get("/openapi.json").json()["paths"]
    reads = [path for path, verbs in paths.items() if "get" in verbs and path.startswith("/v1")]

    for path in reads:
        concrete = path.format(job="a", node="n0", file="rank-0.out", position="control-0-0")
        answer = world.client.get(concrete, params={"no_such_thing": "1"})
        assert answer.status_code == 422, path
        assert "there is no such parameter" in answer.json()["detail"], path
    assert len(reads) > 15


def test_an_operator_states_facts_about_nodes_and_teams(world: World) -> None:
    """They stand in `control`, in order."""
    world.views.tables["nodes"] = [{"node": "n0"}]

    for path, body in (
        ("nodes/n0/drain", {"deadline": "2h", "why": "fan"}),
        ("nodes/n0/maintenance", {"at": "1d", "lasts": "4h"}),
    ):
        world.client.post(f"/v1/{path}", json=body).raise_for_status()
    told = {"guaranteed": 8, "borrow": "none", "by_model": {"h100": 4}}
    world.client.put("/v1/teams/a", json=told).raise_for_status()

    drain, window, team = [event.body for event in world.facts(Topic.CONTROL)]
    assert (drain.node, drain.deadline_ms, drain.why) == ("n0", 7_200_000, "fan")
    assert (window.in_ms, window.for_ms) == (86_400_000, 14_400_000)
    assert (team.team, team.guaranteed, team.borrow, team.weight) == ("a", 8, 0, None)
    assert team.by_model == {"h100": 4}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "policy", {"values": {"retries": 10**30}}),
        ("PUT", "nodes/n1", {"levels": ["l"] * 2, "path": ["p"] * 2, "gpus": 8}),
        ("PUT", "nodes/n1", {"levels": [*map(str, range(99))], "path": ["p"] * 99, "gpus": 8}),
        ("GET", "queue?min_position=jbos-0-1", None),
        ("GET", f"queue?min_position=jobs-0-{10**30}", None),
        ("GET", f"queue?min_position=jobs-0-{'9' * 5_000}", None),
        ("GET", "events?after=garbage", None),
    ],
)
def test_what_cannot_be_is_said_at_once(world: World, method: str, path: str, body: Any) -> None:
    """422, and nothing stands in the log."""
    answer = world.client.request(method, f"/v1/{path}", json=body)

    assert (answer.status_code, answer.json()["type"]) == (422, "urn:gangline:problem:invalid")
    assert world.facts(Topic.CONTROL) == []


@pytest.mark.parametrize(
    ("position", "status", "said"),
    [
        ("control-0-3", 200, {"position": "control-0-3", "refused": True, "first": 3}),
        ("control-0-4", 200, {"position": "control-0-4", "refused": False}),
        ("control-0-9", 503, {"type": "urn:gangline:problem:not-yet"}),
        ("control-0", 422, {"type": "urn:gangline:problem:invalid"}),
        ("'; --", 422, {"type": "urn:gangline:problem:invalid"}),
    ],
)
def test_what_became_of_a_fact(
    world: World, position: str, status: int, said: dict[str, Any]
) -> None:
    """Taken or refused, once the views contain what followed from it."""
    world.views.made = [{"kind": "InputRejected", "job": None, "detail": {"first": 3}}]
    world.views.reached = Position("control", 0, 5)

    answer = world.client.get(f"/v1/facts/{position}")

    assert answer.status_code == status
    assert answer.json() | said == answer.json()


def test_openapi_names_every_route(world: World) -> None:
    """With the spec's schema, so that clients can be generated."""
    document = world.client.get("/openapi.json").json()

    assert "/v1/jobs/{job}/cancel" in document["paths"]
    schema = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    assert {"team", "gpus", "topology", "command"} <= set(schema["schema"]["properties"])
