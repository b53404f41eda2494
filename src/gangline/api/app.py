"""The application: routes, problems and the door, put together."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gangline.api import (
    health,
    history,
    jobs,
    logs,
    methods,
    operators,
    page,
    page_data,
    present,
    ranks,
    reads,
    session,
    stream,
    submitting,
)
from gangline.api.guard import Guard
from gangline.api.metrics import Measured, Metrics
from gangline.api.mistakes import invalid, mistakes
from gangline.api.problems import ProblemError, slug_of_status
from gangline.api.publisher import Publisher
from gangline.api.query import only_known
from gangline.api.tokens import TokenFile
from gangline.events.bus import open_log
from gangline.events.sealing import KeyStore
from gangline.projections.page_queries import PageViews
from gangline.projections.queries import QueryError, ViewsUnreachableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi.routing import APIRoute
    from starlette.responses import Response

    from gangline.api.settings import Settings
    from gangline.api.views import Views
    from gangline.events.log import Log

_log: Final = logging.getLogger("gangline.api")


def create_app(
    settings: Settings, *, log: Log | None = None, views: Views | None = None
) -> FastAPI:
    """The API of a cell. log, views: those of the settings' URLs where none are given."""
    settings.check()
    log = log or open_log(settings.bus, settings.cell)
    views = views or PageViews(settings.database, settings.cell)
    app = FastAPI(
        title="Gangline",
        version=metadata.version("gangline"),
        docs_url=None,  # its page loads scripts of other sites
        redoc_url=None,
        redirect_slashes=False,  # nothing is elsewhere: an empty name is not found
        lifespan=_closing(log, views),
        generate_unique_id_function=_operation,
    )
    app.state.settings = settings
    app.state.views = views
    app.state.desk = jobs.Desk(Publisher(log), views, keys=_keys(settings))
    app.state.tokens = None if settings.tokens is None else TokenFile(settings.tokens)
    app.state.past = history.Past(log)
    app.state.clerk = present.Clerk(log)
    app.state.metrics = Metrics(views)
    app.state.streams = stream.Streams()
    app.state.activity = page_data.Activity()
    app.state.queues = page_data.Queues()
    for room in (submitting, jobs, operators):
        app.include_router(room.router, dependencies=[Depends(only_known)])
    for room in (logs, ranks, reads, history, present, session, stream, health, page_data, page):
        app.include_router(room.router)
    page.mount(app)
    _answer_problems(app)
    app.add_middleware(methods.Heads)
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(Measured, metrics=app.state.metrics)
    return app


def _keys(settings: Settings) -> KeyStore | None:
    """What private parts of specs are sealed with, None for nothing."""
    return None if settings.seal_keys is None else KeyStore(settings.seal_keys)


def _closing(log: Log, views: Views) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        log.close()
        views.close()

    return lifespan


def _operation(route: APIRoute) -> str:
    """Operations are named by their functions."""
    return route.name


def _answer_problems(app: FastAPI) -> None:
    """Everything that goes wrong is answered by one problem."""

    @app.exception_handler(ProblemError)
    def of_ours(_: Request, error: ProblemError) -> Response:
        return error.response()

    @app.exception_handler(ViewsUnreachableError)
    def of_views(request: Request, error: ViewsUnreachableError) -> Response:
        detail = health.views_are_away(request.app.state.settings, error)
        return ProblemError("views-unreachable", detail, headers={"Retry-After": "2"}).response()

    @app.exception_handler(QueryError)
    def of_queries(_: Request, error: QueryError) -> Response:
        return ProblemError("invalid", str(error)).response()

    @app.exception_handler(RequestValidationError)
    def of_parameters(_: Request, error: RequestValidationError) -> Response:
        return invalid(mistakes(error.errors())).response()

    @app.exception_handler(HTTPException)
    def of_framework(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404 and (frame := page.nowhere(request)) is not None:
            return frame
        detail = f"{request.method} {request.url.path[:200]}: {error.detail}"
        if error.status_code == 405:
            return methods.not_here(request, detail)
        headers = dict(error.headers or {})
        return ProblemError(slug_of_status(error.status_code), detail, headers=headers).response()

    @app.exception_handler(Exception)
    def of_mistakes(request: Request, error: Exception) -> Response:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return ProblemError("internal", "this is our mistake; the API's log says more").response()
