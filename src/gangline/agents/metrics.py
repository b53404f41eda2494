"""Prometheus metrics of a node's agent: what it runs, what is broken, what waits to be said."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client import Metric


class Reading(NamedTuple):
    """An agent at one moment. stages: its members by stage. stated: facts by kind since its start.

    undelivered: facts that the log does not have yet. heard_s: since the log last answered.
    slow_ranks: ranks that are slower than the others of their member (pace.py).
    """

    gpus: int
    stages: Mapping[str, int]
    faults: int
    undelivered: int
    heard_s: float
    stated: Mapping[str, int]
    slow_ranks: int = 0


class AgentCollector(Collector):
    """Asks the agent when Prometheus asks."""

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read = read

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering must not ask the agent."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All families; no series is named after a job."""
        found = self._read()
        for name, about, value in (
            ("gpus", "GPUs that the agent claims.", found.gpus),
            ("faults", "Faults that the agent sees now.", found.faults),
            ("undelivered_facts", "Facts on disk that the log does not have.", found.undelivered),
            ("slow_ranks", "Ranks slower than the others of their member here.", found.slow_ranks),
            ("log_silence_seconds", "Time since the log last took a message.", found.heard_s),
        ):
            yield GaugeMetricFamily(f"gangline_agent_{name}", about, value)
        members = GaugeMetricFamily(
            "gangline_agent_members", "Members of gangs on the node.", labels=["stage"]
        )
        for stage, count in sorted(found.stages.items()):
            members.add_metric([stage], count)
        yield members
        stated = CounterMetricFamily(
            "gangline_agent_facts", "Facts that the agent stated.", labels=["kind"]
        )
        for kind, count in sorted(Counter(found.stated).items()):
            stated.add_metric([kind], count)
        yield stated
