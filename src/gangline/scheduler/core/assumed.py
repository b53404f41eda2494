"""What plans assume of a gang: its grace, how long it runs, when it is out."""

from __future__ import annotations

from collections.abc import Mapping

from gangline.scheduler.core.entities import Job
from gangline.scheduler.core.lifecycle import Phase


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
        limit_ms = max(0, limit_ms - (job.resumed_ms if job.started_ms else job.saved_ms))
    return limit_ms + grace_ms(policy, job)


def assumed_end_ms(policy: Mapping[str, int], job: Job) -> int:
    """When a gang that holds GPUs is assumed to be out, if it does not outlive that."""
    if job.phase is Phase.STOPPING:
        return job.stop_ms + job.stop_grace_ms
    return (job.started_ms or job.placed_ms) + run_ms(policy, job)
