"""HTTP's own methods, whatever the route: HEAD, OPTIONS, and what a refusal allows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import httpx2
import pytest

from tests.api.test_rights import routes
from tests.support.api import listening_api

if TYPE_CHECKING:
    from fastapi import FastAPI

    from tests.api.fakes import World

PLACES = {"job": "a", "node": "n0", "team": "t", "file": "rank-0.out", "position": "jobs-0-0"}
GETS = [path for method, path in routes() if method == "GET" and path != "/v1/events"]


@pytest.mark.parametrize("path", [*GETS, "/queue", "/openapi.json", "/static/icon.svg"])
def test_whatever_can_be_read_can_be_asked_about(world: World, path: str) -> None:
    """HEAD is answered with the status and headers of GET, and nothing behind them."""
    where = path.format(**PLACES)

    head, whole = world.client.head(where), world.client.get(where)

    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_it_is_counted_as_what_was_asked(world: World) -> None:
    """By its route, like everything else."""
    world.client.head("/v1/queue")

    told = world.client.get("/metrics").text
    assert 'gangline_api_requests_total{method="HEAD",route="/v1/queue",status="200"} 1.0' in told


def test_head_of_a_stream_ends() -> None:
    """It would go on for ever; the place in the count of open streams is free again."""
    with listening_api() as (url, world), httpx2.Client(base_url=url, timeout=20) as client:
        answers = [client.head("/v1/events") for _ in range(3)]
        freed = threading.Event()
        state = cast("FastAPI", world.client.app).state
        while state.streams.open and not freed.wait(0.05):
            pass

    assert [answer.status_code for answer in answers] == [200] * 3
    assert answers[0].headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/jobs", "GET, POST, HEAD, OPTIONS"),
        ("/v1/jobs/a/cancel", "POST, OPTIONS"),
        ("/v1/nodes/n0", "PUT, DELETE, OPTIONS"),
        ("/queue", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/static/icon.svg", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_refusal_names_every_method_that_there_is(world: World, path: str, allowed: str) -> None:
    """Those of all routes with this address, not of the first one; OPTIONS asks for just that."""
    refused, asked = world.client.patch(path), world.client.options(path)

    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
    assert refused.headers["content-type"] == "application/problem+json"
    assert asked.headers["allow"] == allowed
    assert (asked.status_code, asked.content) in ((204, b""), (405, asked.content))


def test_what_is_nowhere_has_no_methods(world: World) -> None:
    """Not found, whatever is asked."""
    assert world.client.options("/v1/nope").status_code == 404
    assert world.client.head("/v1/nope").status_code == 404
