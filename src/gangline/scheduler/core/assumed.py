"""What plans assume of a gang: its grace, how long it runs, when it is out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangline.scheduler.core.entities import Job
from gangline.scheduler.core.lifecycle import Phase

NEVER: Final = 1 << 62


def grace_ms(policy: Mapping[str, int], job: Job) -> int:
    """Its own grace, or the policy's."""
    own = job.spec.grace_ms
    return policy["preemption_grace"] if own is None else own


def run_ms(policy: Mapping[str, int], job: Job) -> int:
    """How long an attempt is assumed to run from its start, grace included."""
    limit_ms = job.spec.limit_ms
    if limit_ms is None:
        limit_ms = policy["default_limit"]
    else:
        under_way = job.started_ms and job.seats
        limit_ms = max(0, limit_ms - (job.resumed_ms if under_way else job.saved_ms))
    return limit_ms + grace_ms(policy, job)


def assumed_end_ms(policy: Mapping[str, int], job: Job) -> int:
    """When a gang that holds GPUs is assumed to be out, if it does not outlive that."""
    if job.phase is Phase.STOPPING:
        return job.stop_ms + job.stop_grace_ms
    return (job.started_ms or job.placed_ms) + run_ms(policy, job)


def protected_until_ms(policy: Mapping[str, int], job: Job) -> int:
    """Until when an attempt may not be reclaimed by others than `urgent`.

    NEVER before it has started.
    """
    doubled = policy["min_runtime"] << min(job.preemptions, 30)
    least = min(doubled, max(policy["min_runtime"], policy["min_runtime_max"]))
    if not least:
        return 0
    return job.started_ms + least if job.started_ms else NEVER
