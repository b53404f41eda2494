"""The headline numbers: the JSON object of `gangline simulate`, computed from a fold."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gangline.replay.measures.fairness import HOUR_MS, Fairness, fairness_of
from gangline.replay.measures.fold import Fold
from gangline.replay.measures.placement import placement_of
from gangline.replay.measures.records import BANDS, AttemptRecord, band_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gangline.replay.measures.records import JobRecord

SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The loaded window: first to last submission. capacity_gpu_ms: what the fleet had in it."""

    start_ms: int
    end_ms: int
    capacity_gpu_ms: int

    def cut(self, start_ms: int, end_ms: int) -> int:
        """How much of an interval lies in the window."""
        return max(0, min(end_ms, self.end_ms) - max(start_ms, self.start_ms))

    def share(self, gpu_ms: int) -> float:
        """An amount as a share of the capacity."""
        return gpu_ms / self.capacity_gpu_ms if self.capacity_gpu_ms else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A history, measured. numbers: the JSON object."""

    numbers: dict[str, Any]
    window: Window
    fairness: Fairness
    fold: Fold


def measure(fold: Fold) -> Measured:
    """Everything that can be said of a history from its decisions alone."""
    fold.settle(fold.now_ms)
    jobs = list(fold.jobs.values())
    window = _window(fold, jobs)
    fairness = fairness_of(fold, hours=(window.end_ms - fold.origin_ms) // HOUR_MS)
    numbers = {
        **_counts(fold, jobs, window),
        **_gpu_time(fold, window),
        "wait_s": by_band(jobs, _wait_ms, _seconds),
        "jct_s": by_band(jobs, _jct_ms, _seconds),
        "slowdown": by_band(jobs, _slowdown, _thousandths),
        "placement": placement_of(fold),
        "fairness": _fairness_numbers(fairness),
        "starved": len(fold.starvation.starved),
        "starved_jobs": fold.starvation.starved[:20],
        "waiting": _waiting(fold),
        "events": fold.events,
    }
    return Measured(numbers=numbers, window=window, fairness=fairness, fold=fold)


def by_band(
    jobs: Iterable[JobRecord],
    value: Callable[[JobRecord], int | None],
    unit: Callable[[int], float],
) -> dict[str, dict[str, float]]:
    """A measure's mean and percentiles over all jobs and those of each band; without jobs, none."""
    values: dict[str, list[int]] = {"all": [], **{band: [] for band in BANDS}}
    for job in jobs:
        one = value(job)
        if one is not None:
            values["all"].append(one)
            values[band_of(job.gpus)].append(one)
    return {band: spread(sorted(ordered), unit) for band, ordered in values.items()}


def spread(ordered: Sequence[int], unit: Callable[[int], float] = float) -> dict[str, float]:
    """Mean, percentiles (nearest rank) and maximum of ascending values."""
    if not ordered:
        return dict.fromkeys(("mean", "p50", "p90", "p99", "max"), 0.0)
    count = len(ordered)
    return {
        "mean": unit(sum(ordered) // count),
        **{f"p{p}": unit(ordered[(p * count + 99) // 100 - 1]) for p in (50, 90, 99)},
        "max": unit(ordered[-1]),
    }


def _window(fold: Fold, jobs: Sequence[JobRecord]) -> Window:
    submitted = [job.submitted_ms for job in jobs]
    start_ms = min(submitted, default=fold.origin_ms)
    end_ms = max(submitted, default=start_ms)
    if end_ms == start_ms:
        # Everything at one instant: what follows until the last has ended is the load.
        end_ms = max((job.ended_ms for job in jobs), default=start_ms)
    changes = [*fold.capacity, (fold.now_ms, 0)]
    window = Window(start_ms=start_ms, end_ms=end_ms, capacity_gpu_ms=0)
    capacity = sum(
        gpus * window.cut(from_ms, to_ms)
        for (from_ms, gpus), (to_ms, _) in itertools.pairwise(changes)
    )
    return Window(start_ms=start_ms, end_ms=end_ms, capacity_gpu_ms=capacity)


def _counts(fold: Fold, jobs: Sequence[JobRecord], window: Window) -> dict[str, Any]:
    ended = [job for job in jobs if job.ended_ms and job.outcome != "rejected"]
    in_vain = sum(fold.claims.values())
    last_ms = max((job.ended_ms for job in ended), default=window.start_ms)
    return {
        "jobs": fold.counts["submitted"],
        "finished": len(ended),
        "outcomes": dict(sorted(Counter(job.outcome for job in ended).items())),
        "rejected": sum(fold.rejected.values()),
        "rejected_reasons": dict(sorted(fold.rejected.items())),
        "makespan_s": _seconds(last_ms - window.start_ms),
        "window_s": _seconds(window.end_ms - window.start_ms),
        "attempts": sum(1 for attempt in fold.attempts if attempt.started_ms),
        "aborted_starts": fold.counts["aborted_starts"],
        "preemptions": sum(fold.preemptions.values()),
        "preemptions_by_cause": dict(sorted(fold.preemptions.items())),
        "evictions_without_start": in_vain,
        "rejected_inputs": fold.counts["rejected_inputs"],
    }


def _gpu_time(fold: Fold, window: Window) -> dict[str, Any]:
    """Shares of the window's capacity, and GPU-hours of the whole history."""
    held = productive = all_held = preempted = 0
    lost: Counter[str] = Counter()
    for attempt in fold.attempts:
        gpus = attempt.job.gpus
        start_ms, worked_ms, end_ms = hold_of(attempt, fold.now_ms)
        held += gpus * window.cut(start_ms, end_ms)
        productive += gpus * window.cut(attempt.started_ms or end_ms, worked_ms)
        all_held += gpus * (end_ms - start_ms)
        if attempt.preempted:
            preempted += gpus * (end_ms - start_ms)
        if attempt.lost_gpu_ms:
            lost[attempt.preempted or attempt.stop] += attempt.lost_gpu_ms
    demand = sum(
        job.gpus * window.cut(job.submitted_ms, job.submitted_ms + job.productive_ms)
        for job in fold.jobs.values()
    )
    return {
        "allocation": _share(window.share(held)),
        "goodput": _share(window.share(productive)),
        "demand": _share(window.share(demand)),
        "held_gpu_hours": _gpu_hours(all_held),
        "lost_gpu_hours": _gpu_hours(sum(lost.values())),
        "lost_gpu_hours_by_cause": {cause: _gpu_hours(ms) for cause, ms in sorted(lost.items())},
        "lost_share": _share(sum(lost.values()) / all_held if all_held else 0.0),
        "preempted_gpu_hours": _gpu_hours(preempted),
        "preempted_share": _share(preempted / all_held if all_held else 0.0),
    }


def hold_of(attempt: AttemptRecord, now_ms: int) -> tuple[int, int, int]:
    """When an attempt began to hold, until when its work counts, when it let go.

    One that still runs counts as productive up to now.
    """
    end_ms = attempt.released_ms or now_ms
    if not attempt.started_ms:
        return attempt.placed_ms, attempt.placed_ms, end_ms
    worked_ms = attempt.started_ms + attempt.kept_ms if attempt.released_ms else now_ms
    return attempt.placed_ms, min(worked_ms, end_ms), end_ms


def _fairness_numbers(fairness: Fairness) -> dict[str, Any]:
    return {
        "per_team": {
            name: {
                "delivered_gpu_hours": _gpu_hours(sum(team.delivered)),
                "entitled_gpu_hours": _gpu_hours(sum(team.entitled)),
            }
            for name, team in fairness.teams.items()
        },
        "max_error": _share(fairness.max_error),
        "worst": {"team": fairness.worst[0], "from_hour": fairness.worst[1]},
        "windows": fairness.windows,
    }


def _waiting(fold: Fold) -> dict[str, dict[str, float]]:
    """Job-hours waited in each band, by cause."""
    result: dict[str, dict[str, float]] = {band: {} for band in BANDS}
    for (band, cause), waited_ms in sorted(fold.wait_ms.items()):
        if waited_ms:
            result[band][cause] = round(waited_ms / HOUR_MS, 3)
    return result


def _wait_ms(job: JobRecord) -> int | None:
    return job.first_start_ms - job.submitted_ms if job.first_start_ms else None


def _jct_ms(job: JobRecord) -> int | None:
    return job.ended_ms - job.submitted_ms if job.ended_ms and job.first_start_ms else None


def _slowdown(job: JobRecord) -> int | None:
    """Time in the system over productive time, in thousandths."""
    if not job.ended_ms or not job.productive_ms:
        return None
    return (job.ended_ms - job.submitted_ms) * 1000 // job.productive_ms


def _seconds(milliseconds: int) -> float:
    return milliseconds / SECOND_MS


def _thousandths(value: int) -> float:
    return value / 1000


def _share(value: float) -> float:
    return round(value, 6)


def _gpu_hours(gpu_ms: int) -> float:
    return round(gpu_ms / HOUR_MS, 3)
