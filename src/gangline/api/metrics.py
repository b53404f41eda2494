"""Prometheus metrics of the API's process and, from the views, of the cell. No series per job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gangline.projections.queries import ViewsUnreachableError
from gangline.telemetry import Lag, registry_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gangline.api.views import Views

_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""A client may make up others, and each would be a series."""
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
        self.registry = registry_of("api")
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
        self.registry.register(Lag(views.lag, unreachable=ViewsUnreachableError))


class _Cell(Collector):
    """Numbers of the cell, read from the views when they are asked for."""

    def __init__(self, views: Views) -> None:
        self._views = views

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: registering must not read the views."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges; none while the views cannot be reached."""
        try:
            numbers = self._views.numbers()
            fairness = self._views.rows("fairness", where={}, after="", limit=10_000)
        except ViewsUnreachableError:
            return
        yield from _of_fleet(numbers)
        yield from _of_teams(numbers.get("teams", ()))
        yield from _of_fairness(fairness)


def _of_fairness(rows: Iterable[Mapping[str, Any]]) -> Iterator[GaugeMetricFamily]:
    """Delivered less entitled, by team and window: the error that fairness is judged by."""
    family = GaugeMetricFamily(
        "gangline_team_fairness_error_gpu_hours",
        "GPU-hours delivered beyond those the team was entitled to.",
        labels=["team", "window"],
    )
    for row in rows:
        error = (row.get("delivered_gpu_hours") or 0) - (row.get("entitled_gpu_hours") or 0)
        family.add_metric([str(row["team"]), f"{int(row['window_s']) // 3_600}h"], float(error))
    yield family


def _of_fleet(numbers: Mapping[str, Any]) -> Iterator[GaugeMetricFamily]:
    fleet = dict(numbers.get("fleet") or {})
    yield GaugeMetricFamily("gangline_nodes", "Nodes of the fleet.", fleet.pop("nodes", 0))
    total = fleet.pop("total", 0)
    yield GaugeMetricFamily("gangline_fleet_gpus", "GPUs of the fleet.", total)
    yield _labelled("gangline_gpus", "GPUs by what they are.", "state", fleet)
    queue = {row["reason"]: row["jobs"] for row in numbers.get("queue", ())}
    yield _labelled("gangline_queued_jobs", "Jobs that wait, by why.", "reason", queue)
    jobs = {row["state"]: row["jobs"] for row in numbers.get("jobs", ())}
    yield _labelled("gangline_jobs", "Jobs that have not ended, by state.", "state", jobs)


def _of_teams(teams: Any) -> Iterator[GaugeMetricFamily]:  # noqa: ANN401 - rows
    for name, about in _TEAM_GAUGES.items():
        values = {str(row["team"]): row.get(name) or 0 for row in teams}
        unit = "jobs" if name == "queued" else "gpus"
        yield _labelled(f"gangline_team_{name}_{unit}", about, "team", values)


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
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(method, route).observe(seconds)
