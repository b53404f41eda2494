"""What every process says of itself: JSON lines on stderr, and Prometheus metrics on a port.

One line is one action: `event` names it, the other fields are its values, times are UTC. Metrics
have base units and one prefix, and no series is named after a job.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import CollectorRegistry, Info, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gangline.streams import let_go_of_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from structlog.typing import Processor

_SHARED: Final[tuple[Processor, ...]] = (
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


class _Lines(structlog.PrintLogger):
    """Writes lines while that is possible: a full disk costs a line, never the process."""

    def msg(self, message: str) -> None:
        """Write a line."""
        with contextlib.suppress(OSError):
            super().msg(message)

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def log_json(process: str, **values: str) -> None:
    """Write all logs of this process as JSON lines, each with its process's name and values.

    GANGLINE_LOG_LEVEL names the least level that is written (info).
    """
    level = os.environ.get("GANGLINE_LOG_LEVEL", "info").upper()
    least = logging.getLevelNamesMapping().get(level, logging.INFO)
    structlog.contextvars.bind_contextvars(process=process, **values)
    always = structlog.contextvars.get_contextvars()

    def named(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """Threads have contexts of their own, and the process's name all the same."""
        return {**always, **event}

    structlog.configure(
        processors=[
            *_SHARED,
            named,
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=lambda *_: _Lines(sys.stderr),
    )
    atexit.register(let_go_of_output)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_SHARED, structlog.stdlib.ExtraAdder(), named],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.dict_tracebacks,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=max(least, logging.WARNING), handlers=[handler], force=True)
    logging.getLogger("gangline").setLevel(least)


def registry_of(component: str) -> CollectorRegistry:
    """A registry that says which program this is: `gangline_build_info`."""
    registry = CollectorRegistry()
    about = {"component": component, "version": metadata.version("gangline")}
    Info("gangline_build", "The program that serves these metrics.", registry=registry).info(about)
    return registry


def serve_metrics(registry: CollectorRegistry, port: int | None, *, address: str = "") -> int:
    """Serve a registry for Prometheus on a port (0: any free one); the port, 0 for none."""
    if port is None:
        return 0
    host = address or "0.0.0.0"  # noqa: S104
    with named_address(host, port):
        server, _ = start_http_server(port, addr=host, registry=registry)
    return int(server.server_port)


@contextlib.contextmanager
def named_address(host: str, port: int) -> Iterator[None]:
    """Errors of the system in here are about this address, and say so."""
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        why = (
            os.strerror(number) if number > 0 else error.strerror
        )  # a host that is unknown has none
        raise OSError(number, why, f"{host}:{port}") from error


class Lag(Collector):
    """How far each view is behind the log, and whether it is stuck.

    lag: rows with `view`, `lag_events`, `lag_s`, `skipped` and `problem`. unreachable: the error
    that it raises while the views cannot be read; then `gangline_views_up` is 0 and nothing else.
    """

    def __init__(
        self, lag: Callable[[], Sequence[Mapping[str, Any]]], *, unreachable: type[Exception]
    ) -> None:
        self._lag = lag
        self._unreachable = unreachable

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: registering must not read the views."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All gauges, read when they are asked for."""
        up = GaugeMetricFamily("gangline_views_up", "Whether the views can be read.")
        try:
            rows = self._lag()
        except self._unreachable:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from _of_views(rows)


def _of_views(rows: Sequence[Mapping[str, Any]]) -> Iterator[GaugeMetricFamily]:
    """One gauge a question, one series a view."""
    for name, about, value in (
        ("lag_seconds", "How old the oldest decision is that a view lacks.", "lag_s"),
        ("lag_events", "Decision records that a view lacks.", "lag_events"),
        ("skipped_records", "Records that a view left out by its declared rule.", "skipped"),
        ("stuck", "Whether a view cannot fold its next record.", "problem"),
    ):
        family = GaugeMetricFamily(f"gangline_projection_{name}", about, labels=["view"])
        for row in rows:
            found = row.get(value) or 0
            family.add_metric([str(row["view"])], 1.0 if isinstance(found, str) else float(found))
        yield family
