"""What jobs print, from the agents' log servers, for whoever may read jobs' private parts."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final
from urllib.parse import quote

import httpx2
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from gangline.api.auth import Verb, authorise
from gangline.api.jobs import Caller
from gangline.api.names import Name
from gangline.api.problems import ProblemError
from gangline.api.query import only_known
from gangline.api.reads import OpenViews, job_or_problem
from gangline.api.views import Views

router = APIRouter(prefix="/v1", tags=["jobs"], dependencies=[Depends(only_known)])

_TIMEOUT: Final = httpx2.Timeout(5.0, connect=2.0)
_AT_ONCE: Final = 16
_PASSED_ON: Final = ("x-next-offset", "x-size")


@router.get("/jobs/{job}/logs")
def files(
    job: Name,
    request: Request,
    views: OpenViews,
    caller: Caller,
    attempt: Annotated[int | None, Query(ge=1)] = None,
    node: Name | None = None,
) -> dict[str, Any]:
    """The files that an attempt of a job (its last one) writes to, over all its nodes or on one.

    `size`: bytes ever written. `unreachable`: nodes that say nothing, each with the `detail`.
    """
    authorise(caller, Verb.READ_PRIVATE, str(job_or_problem(views, job)["team"]))
    found = attempt_of(views, job, attempt)
    nodes = [each for each in nodes_of(found) if node in (None, each)]
    if not nodes:
        raise ProblemError("not-found", f"attempt {found['attempt']} of {job} is not on {node}")
    path = f"/logs/{quote(job, safe='')}/{found['attempt']}"
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        said = list(pool.map(lambda each: _listed(request, views, each, path), nodes))
    return {
        "job": job,
        "attempt": found["attempt"],
        "state": found["state"],
        "files": [file for answer in said if isinstance(answer, list) for file in answer],
        "unreachable": [
            {"node": each, "detail": answer.detail}
            for each, answer in zip(nodes, said, strict=True)
            if isinstance(answer, ProblemError)
        ],
    }


def _listed(
    request: Request, views: Views, node: str, path: str
) -> list[dict[str, Any]] | ProblemError:
    """A node's files of an attempt, none where it keeps none; or why it says nothing."""
    try:
        answer = ask(request, views, node, path)
    except ProblemError as problem:
        return [] if problem.slug == "not-found" else problem
    return [{"node": node, **each} for each in json.loads(answer.content)["files"]]


@router.get("/jobs/{job}/logs/{node}/{file}")
def part(  # noqa: PLR0913, PLR0917 - parameters of a route
    job: Name,
    node: Name,
    file: Name,
    request: Request,
    views: OpenViews,
    caller: Caller,
    attempt: Annotated[int | None, Query(ge=1)] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_048_576)] = 1_048_576,
) -> Response:
    """A part of one of them. `X-Next-Offset` says where to go on, `X-Size` how long it is."""
    authorise(caller, Verb.READ_PRIVATE, str(job_or_problem(views, job)["team"]))
    number = attempt_of(views, job, attempt)["attempt"]
    path = f"/logs/{quote(job, safe='')}/{number}/{quote(file, safe='')}"
    answer = ask(request, views, node, path, {"offset": offset, "limit": limit})
    headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
    return Response(answer.content, headers=headers, media_type="application/octet-stream")


def attempt_of(views: Views, job: str, number: int | None) -> Mapping[str, Any]:
    """An attempt's row, or a problem."""
    rows = views.rows("attempts", where={"job": job}, after="", limit=10_000)
    wanted = [row for row in rows if number in (None, row["attempt"])]
    if not wanted:
        which = "no attempt yet" if number is None else f"no attempt {number}"
        raise ProblemError("not-found", f"{job} has {which}, so it has printed nothing")
    return wanted[-1]


def nodes_of(attempt: Mapping[str, Any]) -> Iterator[str]:
    """The nodes of an attempt in rank order, each once."""
    yield from dict.fromkeys(str(seat["node"]) for seat in attempt["seats"])


def ask(
    request: Request,
    views: Views,
    node: str,
    path: str,
    params: Mapping[str, int] | None = None,
) -> httpx2.Response:
    """One request to a node's log server, or a problem."""
    rows = views.rows("nodes", where={"node": node}, after="", limit=1)
    if not rows:
        raise ProblemError("not-found", f"there is no node {node}")
    address = str(rows[0]["address"])
    if ":" not in address:
        raise ProblemError("agent-unreachable", f"node {node} serves no logs")
    token = request.app.state.settings.agent_token
    headers = {"Authorization": f"Bearer {token}"}
    try:
        answer = httpx2.get(
            f"http://{address}{path}", params=params, headers=headers, timeout=_TIMEOUT
        )
    except httpx2.TransportError as error:
        raise ProblemError("agent-unreachable", f"{node} at {address}: {error}") from error
    if answer.status_code == 404:
        raise ProblemError("not-found", f"node {node} keeps no such log")
    if not answer.is_success:
        raise ProblemError("agent-unreachable", f"{node} answers {answer.status_code}")
    return answer
