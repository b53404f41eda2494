"""`/healthz`, `/readyz` and `/metrics`: for whoever looks after the process."""

from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from gangline.api.problems import ProblemError
from gangline.projections.queries import ViewsUnreachableError

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(request: Request) -> JSONResponse:
    """Whether the log and the views are reachable, and how far the views are behind."""
    state = request.app.state
    body: dict[str, Any] = {"status": "ready"}
    for name, ask in (("log", state.desk.publisher.ends), ("views", state.views.lag)):
        try:
            body[name] = ask()
        except ViewsUnreachableError as error:
            body[name] = views_are_away(request, error)
            body["status"] = "not ready"
        except ProblemError as problem:
            body[name] = problem.detail
            body["status"] = "not ready"
    return JSONResponse(_plain(body), 200 if body["status"] == "ready" else 503)


def views_are_away(request: Request, error: ViewsUnreachableError) -> str:
    """One line: which database does not answer, and why."""
    where = urlsplit(request.app.state.settings.database)
    at = f" at {where.hostname}:{where.port or 5432}" if where.hostname else ""
    return f"the views' Postgres{at} is not reachable ({error})"


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    """JSON's types only: rows of views hold times."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """Prometheus metrics of this process and of the cell."""
    return Response(
        generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST
    )
