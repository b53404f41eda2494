"""Prometheus counters of what a leader decided: kinds, evictions by cause, work that was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from gangline.events import decisions as d

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME: Final = "gangline_scheduler"
_GANGS: Final = (1, 8, 64, 128, 512)


class DecisionMetrics:
    """Counts decisions; no series is named after a job, a node or a team."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._kinds = Counter(f"{_NAME}_decisions", "Decisions made.", ["kind"], registry=registry)
        self._preempted = Counter(
            f"{_NAME}_preemptions", "Gangs moved out for others.", ["cause"], registry=registry
        )
        self._stopped = Counter(
            f"{_NAME}_releases", "Attempts whose GPUs were released.", ["cause"], registry=registry
        )
        self._lost = Counter(
            f"{_NAME}_lost_gpu_seconds",
            "GPU time of work that must be done again.",
            ["cause"],
            registry=registry,
        )
        self._rejected = Counter(
            f"{_NAME}_rejected_inputs", "Facts that were refused.", ["reason"], registry=registry
        )
        self._placed = Histogram(
            f"{_NAME}_placed_gang_gpus",
            "GPUs of the gangs that were placed.",
            buckets=_GANGS,
            registry=registry,
        )

    def count(self, decisions: Iterable[d.Decision]) -> None:
        """Count what one step decided."""
        for decision in decisions:
            self._kinds.labels(type(decision).__name__).inc()
            match decision:
                case d.GangPreempted():
                    self._preempted.labels(decision.cause).inc()
                case d.GangReleased():
                    self._stopped.labels(str(decision.cause)).inc()
                    self._lost.labels(str(decision.cause)).inc(decision.lost_gpu_ms / 1_000)
                case d.InputRejected():
                    self._rejected.labels(decision.reason).inc(decision.count)
                case d.GangPlaced():
                    self._placed.observe(sum(len(seat.gpus) for seat in decision.seats))
                case _:
                    pass
