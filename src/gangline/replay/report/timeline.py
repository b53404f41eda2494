"""Heights over time for the pictures: few enough points to draw, exact within each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gangline.replay.measures.result import hold_of
from gangline.replay.measures.series import Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.replay.measures import Fold

MOST_POINTS: Final = 240
DAY_MS: Final = 86_400_000

# What a GPU may be doing, from the bottom of the picture up: key, words.
STATES: Final = (
    ("productive", "productive work"),
    ("lost", "work that was lost"),
    ("starting", "starting"),
    ("stopping", "stopping, standing still"),
    ("reserved", "kept for a claim"),
    ("idle_order", "idle: order, reservations"),
    ("idle_quota", "idle: quota"),
    ("idle_shape", "idle: not in the shape asked for"),
    ("idle_room", "idle: too few for what waits"),
    ("idle_other", "idle: jobs held, dependent, just come"),
    ("idle_demand", "idle: nothing waits"),
    ("unhealthy", "unhealthy"),
    ("out_of_service", "cordoned, draining, maintenance"),
)
_IDLE: Final = {
    "fair_share": "idle_order",
    "reservation": "idle_order",
    "borrow_limit": "idle_quota",
    "topology": "idle_shape",
    "capacity": "idle_room",
    "nodes_unhealthy": "idle_room",
    "no_demand": "idle_demand",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Points in days from the start, and mean heights up to each, in GPUs or jobs."""

    days: list[float]
    states: dict[str, list[float]]
    capacity: list[float]
    waiting_jobs: list[float]
    waiting_gpus: list[float]


def timeline_of(fold: Fold) -> Timeline:
    """The whole history in at most MOST_POINTS points."""
    buckets = max(1, -(-(fold.now_ms - fold.origin_ms) // fold.bucket_ms))
    per_point = -(-buckets // MOST_POINTS)
    points = -(-buckets // per_point)
    point_ms = per_point * fold.bucket_ms

    def heights(series: Series) -> list[float]:
        values = series.values(points * per_point)
        sums = (sum(values[at : at + per_point]) for at in range(0, len(values), per_point))
        return [_mean(value, index, fold, point_ms) for index, value in enumerate(sums)]

    states = {key: [0.0] * points for key, _ in STATES}
    for key, series in _work(fold).items():
        states[key] = heights(series)
    for key in ("reserved", "unhealthy", "out_of_service"):
        states[key] = heights(fold.series("gpus", key))
    for cause in fold.names("idle"):
        key = _IDLE.get(cause, "idle_other")
        states[key] = _sum(states[key], heights(fold.series("idle", cause)))
    return Timeline(
        days=[(index + 0.5) * point_ms / DAY_MS for index in range(points)],
        states=states,
        capacity=heights(fold.series("gpus", "capacity")),
        waiting_jobs=heights(fold.series("queue", "jobs")),
        waiting_gpus=heights(fold.series("queue", "gpus")),
    )


def block_map(fold: Fold) -> tuple[list[str], list[float], list[list[float]]]:
    """Names of the lowest domains, days, and the share of each domain that was held by then."""
    buckets = max(1, -(-(fold.now_ms - fold.origin_ms) // fold.bucket_ms))
    per_point = -(-buckets // (MOST_POINTS // 2))
    points = -(-buckets // per_point)
    point_ms = per_point * fold.bucket_ms
    gpus: dict[tuple[str, ...], int] = {}
    for node in fold.nodes.values():
        gpus[node.path] = gpus.get(node.path, 0) + node.gpus
    rows = []
    for path, total in gpus.items():
        series = fold.blocks().get(path, Series(fold.origin_ms, fold.bucket_ms))
        values = series.values(points * per_point)
        sums = [sum(values[at : at + per_point]) for at in range(0, len(values), per_point)]
        rows.append([_mean(v, index, fold, point_ms) / total for index, v in enumerate(sums)])
    days = [index * point_ms / DAY_MS for index in range(points + 1)]
    return ["/".join(path[-1:]) for path in gpus], days, rows


def _work(fold: Fold) -> dict[str, Series]:
    """What held GPUs were doing: starting, productive work, lost work, and the rest."""
    keys = ("starting", "productive", "lost", "stopping")
    work = {key: Series(fold.origin_ms, fold.bucket_ms) for key in keys}
    for attempt in fold.attempts:
        gpus = attempt.job.gpus
        placed_ms, worked_ms, end_ms = hold_of(attempt, fold.now_ms)
        started_ms = attempt.started_ms or end_ms
        lost_ms = min(end_ms, worked_ms + attempt.lost_gpu_ms // gpus)
        work["starting"].add(placed_ms, started_ms, gpus)
        if attempt.started_ms:
            work["productive"].add(started_ms, worked_ms, gpus)
            work["lost"].add(worked_ms, lost_ms, gpus)
            work["stopping"].add(lost_ms, end_ms, gpus)
    return work


def _mean(value: int, index: int, fold: Fold, point_ms: int) -> float:
    """The mean height of a point; the last one may be shorter."""
    length = min(point_ms, fold.now_ms - fold.origin_ms - index * point_ms)
    return value / length if length > 0 else 0.0


def _sum(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(one, other, strict=True)]
