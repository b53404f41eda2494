"""Prometheus metrics of the API's process and, from the views, of the cell. No series per job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gangline.projections.queries import ViewsUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gangline.api.views import Views

_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_TEAM_GAUGES: Final = {
    "guaranteed": "GPUs that the team is guaranteed.",
    "used": "GPUs that the team holds.",
    "borrowed": "GPUs that the team holds beyond its guarantee.",
    "lent": "GPUs of its guarantee that other teams hold.",
    "queued": "Jobs of the team that wait.",
}


class Metrics:
    """The registry of one application."""

    def __init__(self, views: Views) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "gangline_api_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "gangline_api_request_duration_seconds",
            "From a request's first byte to its answer's first byte.",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.registry.register(_Cell(views))


class _Cell(Collector):
    """Numbers of the cell, read from the views when they are asked for."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: registering must not read the views."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges; only `gangline_views_up 0` while the views cannot be reached."""
        up = GaugeMetricFamily("gangline_views_up", "Whether the views can be read.")
        try:
            numbers, lag = self._views.numbers(), self._views.lag()
        except ViewsUnreachableError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from _of_fleet(numbers)
        yield from _of_teams(numbers.get("teams", ()))
        yield _labelled(
            "gangline_projection_lag_seconds",
            "How old the newest decision in a view is, behind the log.",
            "view",
            {str(row["view"]): float(row.get("lag_s") or 0) for row in lag},
        )


def _of_fleet(numbers: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    fleet = dict(numbers.get("fleet") or {})
    yield GaugeMetricFamily("gangline_nodes", "Nodes of the fleet.", fleet.pop("nodes", 0))
    yield _labelled("gangline_gpus", "GPUs by what they are.", "state", fleet)
    queue = {row["reason"]: row["jobs"] for row in numbers.get("queue", ())}
    yield _labelled("gangline_queued_jobs", "Jobs that wait, by why.", "reason", queue)
    jobs = {row["state"]: row["jobs"] for row in numbers.get("jobs", ())}
    yield _labelled("gangline_jobs", "Jobs that have not ended, by state.", "state", jobs)


def _of_teams(teams: Any) -> Iterator[GaugeMetricFamily]:  # noqa: ANN401 - rows
    for name, about in _TEAM_GAUGES.items():
        values = {str(row["team"]): row.get(name) or 0 for row in teams}
        yield _labelled(f"gangline_team_{name}", about, "team", values)


def _labelled(name: str, about: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family


class Measured:
    """Middleware that counts and times requests by route, not by path."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._count(scope, message["status"], time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, sent)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.requests.labels(scope["method"], route, str(status)).inc()
        self._metrics.seconds.labels(scope["method"], route).observe(seconds)
