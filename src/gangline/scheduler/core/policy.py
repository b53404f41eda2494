"""The policy: every number that an operator may change, with its default and what it means.

A key that no PolicySet named has its default. Durations are milliseconds, everything else counts; a
value is never negative except where UNLIMITED (-1) is said to be allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

SECOND: Final = 1000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
LONGEST: Final = 3650 * DAY
"""The longest duration that anybody may state: sums and doublings of it still fit in a long."""


class PolicyKey(NamedTuple):
    """One number of the policy. unit: `ms` or `count`."""

    name: str
    default: int
    unit: str
    doc: str
    least: int = 0


_ALL: Final = (
    PolicyKey("heartbeat_interval", 10 * SECOND, "ms", "how often an agent says that it lives", 1),
    PolicyKey("suspect_after", 30 * SECOND, "ms", "silence after which a node gets no new work", 1),
    PolicyKey("lost_after", 2 * MINUTE, "ms", "silence after which its gangs restart elsewhere", 1),
    PolicyKey("start_timeout", 2 * MINUTE, "ms", "from GangPlaced to the last MemberReady", 1),
    PolicyKey(
        "unready_for", 10 * MINUTE, "ms", "how long a node that was not ready stays suspected"
    ),
    PolicyKey(
        "preemption_grace", 60 * SECOND, "ms", "stop signal to SIGKILL, if the job names none"
    ),
    PolicyKey("abort_grace", 5 * SECOND, "ms", "the same, for what is left of a gang that failed"),
    PolicyKey(
        "stop_timeout", 60 * SECOND, "ms", "how long after its grace a node may take to report"
    ),
    PolicyKey(
        "min_runtime", 10 * MINUTE, "ms", "an attempt is not reclaimed before, unless by urgent"
    ),
    PolicyKey("min_runtime_max", 2 * HOUR, "ms", "upper bound of min_runtime's doubling"),
    PolicyKey("hold_after", 5, "count", "infrastructure failures in a row that hold a job", 1),
    PolicyKey("large_gang_gpus", 128, "count", "a gang of so many GPUs is large", 1),
    PolicyKey(
        "large_gang_wait_bound", 12 * HOUR, "ms", "a large gang that waited so long goes first"
    ),
    PolicyKey("usage_half_life", 24 * HOUR, "ms", "decay of past use in the fair-share order", 1),
    PolicyKey("default_limit", 24 * HOUR, "ms", "what plans assume for a job without a limit", 1),
    PolicyKey("retries", 3, "count", "restarts after the user's own failures"),
    PolicyKey("quarantine_after", 3, "count", "faults and losses in the window that quarantine", 1),
    PolicyKey("quarantine_window", 24 * HOUR, "ms", "how long a fault or loss is remembered", 1),
    PolicyKey("quarantine_for", HOUR, "ms", "length of the first quarantine; doubles", 1),
    PolicyKey("crash_loop_under", MINUTE, "ms", "an attempt that fails sooner is backed off"),
    PolicyKey("crash_loop_backoff", 10 * SECOND, "ms", "first back-off of a crash loop; doubles"),
    PolicyKey("crash_loop_backoff_max", 10 * MINUTE, "ms", "upper bound of that back-off"),
    PolicyKey("reservations", 8, "count", "how many waiting jobs in order get a planned start"),
    PolicyKey("replan_interval", 30 * SECOND, "ms", "how often a plan may be made again"),
    PolicyKey(
        "cause_interval", SECOND, "ms", "how often recorded wait causes are brought up to date"
    ),
    PolicyKey(
        "preempted_gpu_hours_cap", -1, "count", "preempted GPU-hours in an hour; -1: no cap", -1
    ),
    PolicyKey("preemption_chain", 3, "count", "how long a chain of preemptions may be"),
    PolicyKey("dedupe_window", 30 * DAY, "ms", "how long the ids of ended jobs are remembered", 1),
    PolicyKey("auto_admit", 0, "count", "1: a node that registers is admitted by its own word"),
    PolicyKey("require_signatures", 0, "count", "1: facts of nodes must carry a valid signature"),
)

KEYS: Final[Mapping[str, PolicyKey]] = {key.name: key for key in _ALL}

Policy = dict[str, int]


def defaults() -> Policy:
    """The policy of a new cell."""
    return {key.name: key.default for key in _ALL}


def problem(name: str, value: int) -> str:
    """What is wrong with a key and its value; empty for nothing."""
    key = KEYS.get(name)
    if key is None:
        return f"no policy key {name}"
    if key.unit == "ms" and value > LONGEST:
        return f"{name} must be at most ten years"
    return "" if value >= key.least else f"{name} must be at least {key.least}"
