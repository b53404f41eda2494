"""`GET /v1/events`: decisions as they are made, as server-sent events.

The id of an event is its position; a client that comes back with `Last-Event-ID` (browsers do so by
themselves) goes on after it, and misses nothing. Every stream reads the view for itself, at its own
pace; a slow reader delays nobody.
"""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import anyio
from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic_core import to_json
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from gangline.api.auth import principal_of
from gangline.api.jobs import Caller
from gangline.api.names import Name
from gangline.api.problems import ProblemError
from gangline.api.query import only_known
from gangline.api.reads import OpenViews
from gangline.api.views import Row, Views
from gangline.projections.queries import ViewsUnreachableError

router = APIRouter(prefix="/v1", tags=["reads"], dependencies=[Depends(only_known)])

_POLL_S: Final = 0.25
_PAGE: Final = 500
_MAX_STREAMS: Final = 200


class Streams:
    """How many streams are open."""

    def __init__(self) -> None:
        self.open = 0


@router.get("/events", response_class=EventSourceResponse)
async def events(
    request: Request,
    views: OpenViews,
    _: Caller,
    job: Name | None = None,
    last_event_id: Annotated[str, Header(max_length=300)] = "",
    after: Annotated[str, Query(max_length=300)] = "end",
) -> EventSourceResponse:
    """Decisions from now on, or after `Last-Event-ID` or `after` (empty: from the first)."""
    streams: Streams = request.app.state.streams
    if streams.open >= _MAX_STREAMS:
        raise ProblemError(
            "too-many", f"{_MAX_STREAMS} streams are open", headers={"Retry-After": "10"}
        )
    cursor = last_event_id or after
    # What is no position is said at once: a stream that has begun can only break off.
    if cursor != "end":
        await _next_rows(views, cursor, job or "", limit=1)
    source = _follow(request, cursor, job or "", views=views)
    return EventSourceResponse(source, ping=15, send_timeout=30)


async def _follow(
    request: Request, cursor: str, job: str, *, views: Views
) -> AsyncIterator[ServerSentEvent]:
    """Events after a position, for as long as whoever asked may come in."""
    streams: Streams = request.app.state.streams
    streams.open += 1
    try:
        if cursor == "end":
            cursor = await run_in_threadpool(views.end)
        yield ServerSentEvent(comment="following", id=cursor or None, retry=2_000)
        while _may_stay(request):
            rows = await _next_rows(views, cursor, job)
            for row in rows:
                cursor = str(row["key"])
                yield _event(row)
            if len(rows) < _PAGE:
                await anyio.sleep(_POLL_S)
    finally:
        streams.open -= 1


def _may_stay(request: Request) -> bool:
    """Whether the token is still one: a stream is open for days, and tokens are revoked."""
    try:
        principal_of(request)
    except ProblemError:
        return False
    return True


async def _next_rows(views: Views, cursor: str, job: str, *, limit: int = _PAGE) -> list[Row]:
    """The next page; none while the views cannot be reached, as they come back."""
    try:
        return list(await run_in_threadpool(views.decisions, after=cursor, job=job, limit=limit))
    except ViewsUnreachableError:
        return []


def _event(row: Row) -> ServerSentEvent:
    data: dict[str, Any] = {name: value for name, value in row.items() if name != "key"}
    return ServerSentEvent(
        data=to_json(data).decode(),
        event="decision",
        id=str(row["key"]),
    )
