"""Who starves: large gangs past every bound, and jobs that wait though their team is owed room."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gangline.replay.measures.fold import Fold
    from gangline.replay.measures.records import AttemptRecord, JobRecord

HOUR_MS: Final = 3_600_000
SEVEN_DAYS_MS: Final = 7 * 24 * HOUR_MS
BOUND_MS: Final = 12 * HOUR_MS
DEFAULT_LIMIT_MS: Final = 24 * HOUR_MS


class StarvationWatch:
    """Looks at jobs when they pass a bound, so that it is known what ran and was used then.

    starved: large gangs that waited longer than the policy's bound plus the longest limit of what
    ran when they passed it; and jobs that waited over seven days while their team, at that moment,
    used less than its guarantee.
    """

    def __init__(self, fold: Fold) -> None:
        self.starved: list[str] = []
        self._fold = fold
        self._large: deque[JobRecord] = deque()
        self._all: deque[JobRecord] = deque()
        self._patient: list[tuple[int, JobRecord]] = []
        self._running: dict[str, AttemptRecord] = {}

    def watch_large(self, job: JobRecord) -> None:
        """A large gang waits from now on."""
        self._large.append(job)

    def watch(self, job: JobRecord) -> None:
        """A job waits from now on."""
        self._all.append(job)

    def started(self, attempt: AttemptRecord) -> None:
        """A gang runs; if it was waited for too long, that is told."""
        self._running[attempt.job.job] = attempt

    def stopped(self, attempt: AttemptRecord) -> None:
        """A gang runs no more."""
        self._running.pop(attempt.job.job, None)

    def pass_time(self, now_ms: int) -> None:
        """Look at those that have passed a bound by now."""
        bound_ms = self._fold.policy.get("large_gang_wait_bound", BOUND_MS)
        while self._large and self._large[0].submitted_ms + bound_ms <= now_ms:
            job = self._large.popleft()
            if _waits(job):
                until_ms = job.submitted_ms + bound_ms + self._longest_limit_ms()
                self._patient.append((until_ms, job))
        while self._all and self._all[0].submitted_ms + SEVEN_DAYS_MS <= now_ms:
            job = self._all.popleft()
            if _waits(job) and self._is_owed(job):
                self.starved.append(job.job)
        if self._patient:
            self._look_at_patient(now_ms)

    def _look_at_patient(self, now_ms: int) -> None:
        late = [job for until_ms, job in self._patient if until_ms < now_ms and _waits(job)]
        self.starved.extend(job.job for job in late if job.job not in self.starved)
        self._patient = [
            (until_ms, job) for until_ms, job in self._patient if _waits(job) and until_ms >= now_ms
        ]

    def _longest_limit_ms(self) -> int:
        default_ms = self._fold.policy.get("default_limit", DEFAULT_LIMIT_MS)
        limits = (attempt.job.limit_ms or default_ms for attempt in self._running.values())
        return max(limits, default=0)

    def _is_owed(self, job: JobRecord) -> bool:
        """Whether the team uses less than its guarantee now."""
        now = [team for team in self._fold.teams if team.team == job.team]
        return bool(now) and self._fold.team_held(job.team) < now[-1].guaranteed


def _waits(job: JobRecord) -> bool:
    return not job.first_start_ms and not job.ended_ms
