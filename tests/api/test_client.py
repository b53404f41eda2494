"""The Python client: one key is one job, whatever is lost on the way; and waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx2
import pytest

from gangline.client import AsyncClient, Client, GanglineError, JobSpec, NotYetError
from gangline.events.log import Topic
from tests.support.api import listening_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api.fakes import World

SPEC = JobSpec(team="vision", gpus=8, command=["true"])


class Lossy(httpx2.BaseTransport):
    """A network that delivers every request and loses the first answers."""

    def __init__(self, losses: int) -> None:
        self._real = httpx2.HTTPTransport()
        self.losses = losses
        self.requests = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Deliver, then lose the answer."""
        answer = self._real.handle_request(request)
        self.requests += 1
        if self.requests > self.losses:
            return answer
        answer.read()
        raise httpx2.ReadError("the connection broke")

    def close(self) -> None:
        """Let go of connections."""
        self._real.close()


@pytest.fixture
def api() -> Iterator[tuple[str, World]]:
    """An API that listens, and what is behind it."""
    with listening_api() as (url, world):
        yield url, world


@pytest.mark.parametrize("losses", [1, 3])
def test_a_lost_answer_makes_no_second_job(api: tuple[str, World], losses: int) -> None:
    """The same key is sent again until there is an answer; one fact stands in the log."""
    url, world = api
    transport = Lossy(losses)

    with Client(url, transport=transport) as gangline:
        done = gangline.submit(SPEC)

    assert transport.requests == losses + 1
    assert [event.body.job for event in world.facts(Topic.JOBS)] == [done.job]


def test_lost_answers_of_a_batch_make_no_second_jobs(api: tuple[str, World]) -> None:
    """2,500 jobs go in three requests, in order, each once."""
    url, world = api
    specs = [JobSpec(team="vision", gpus=1, name=f"n{i}") for i in range(2_500)]

    with Client(url, transport=Lossy(1)) as gangline:
        done = gangline.submit_many(specs)

    assert [event.body.job for event in world.facts(Topic.JOBS)] == [each.job for each in done]
    assert [each.job.partition("-")[0] for each in done[::1_000]] == ["n0", "n1000", "n2000"]


def test_a_dry_run_is_refused_where_the_server_knows_none() -> None:
    """A server that submitted instead is no answer: the error names the job, which has one key."""
    keys = []

    def older_server(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers["idempotency-key"])
        return httpx2.Response(202, json={"job": keys[-1], "position": "jobs-0-1"})

    with (
        Client("http://older", transport=httpx2.MockTransport(older_server)) as gangline,
        pytest.raises(GanglineError, match="knows no dry runs") as caught,
    ):
        gangline.dry_run(SPEC)

    assert keys[0] in str(caught.value)


def test_waiting_for_an_array_is_waiting_for_all_its_tasks(api: tuple[str, World]) -> None:
    """A task's end is heard by whoever waits for the array."""
    url, world = api
    tasks = [
        {"job": f"a.{i}", "array_of": "a", "state": "succeeded", "exit_code": 0} for i in (1, 2)
    ]
    world.views.tables["jobs"] = [tasks[0], tasks[1] | {"state": "running"}]

    with Client(url) as gangline:
        with pytest.raises(NotYetError):
            gangline.wait("a", timeout_s=0.2)
        world.views.made = [{"kind": "JobFinished", "job": "a.1"}]
        heard = gangline.events(after="")
        assert [next(heard), next(heard)][1].ended == ("a.1", "a")  # type: ignore[union-attr]
        world.views.tables["jobs"] = tasks
        assert gangline.wait("a") == 0


def test_the_async_client_does_the_same(api: tuple[str, World]) -> None:
    """Submissions and waits of many jobs at once, on one loop."""
    url, world = api
    world.views.tables["jobs"] = [
        {"job": f"j{i}", "state": "succeeded", "exit_code": 0} for i in range(20)
    ]

    async def story() -> tuple[list[str], list[int], str]:
        async with AsyncClient(url) as gangline:
            done = await asyncio.gather(*(gangline.submit(SPEC, key=f"j{i}") for i in range(20)))
            codes = await asyncio.gather(*(gangline.wait(each.job) for each in done))
            rows = [row["job"] async for row in gangline.pages("/v1/jobs", limit=7)]
            return rows, codes, (await gangline.job("j3"))["job"]

    rows, codes, job = asyncio.run(story())

    assert (len(rows), set(codes), job) == (20, {0}, "j3")
    assert len(world.facts(Topic.JOBS)) == 20
