"""`/healthz`, `/readyz` and `/metrics`: for whoever looks after the process."""

from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic_core import to_jsonable_python

from gangline.api.problems import ProblemError
from gangline.api.settings import Settings
from gangline.projections.queries import ViewsUnreachableError

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(request: Request) -> JSONResponse:
    """Whether the log and the views are reachable, and how far the views are behind."""
    seen, away = readiness(request.app.state)
    body = {"status": "not ready" if away else "ready"} | seen | away
    return JSONResponse(to_jsonable_python(body, fallback=str), 503 if away else 200)


def readiness(state: Any) -> tuple[dict[str, Any], dict[str, str]]:  # noqa: ANN401 - starlette's
    """How far log and views are, and which of them is not reachable, with a line that says why."""
    seen: dict[str, Any] = {}
    away: dict[str, str] = {}
    for name, ask in (("log", state.desk.publisher.ends), ("views", state.views.lag)):
        try:
            seen[name] = ask()
        except ViewsUnreachableError as error:
            away[name] = views_are_away(state.settings, error)
        except ProblemError as problem:
            away[name] = problem.detail
    return seen, away


def views_are_away(settings: Settings, error: ViewsUnreachableError) -> str:
    """One line: which database does not answer, and why."""
    where = urlsplit(settings.database)
    at = f" at {where.hostname}:{where.port or 5432}" if where.hostname else ""
    return f"the views' Postgres{at} is not reachable ({error})"


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """Prometheus metrics of this process and of the cell."""
    return Response(
        generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST
    )
