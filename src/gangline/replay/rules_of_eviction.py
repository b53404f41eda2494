"""Rule 8: who may evict whom, and what becomes of the room, by the second memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events.spec import JobClass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.decisions import GangPreempted, ReservationReleased
    from gangline.replay.model import Model, ModelJob

SETTLED = ("started", "cancelled", "held", "fault", "withdrawn", "overtaken")
"""Why room that victims made may be let go."""


class Evictions:
    """Remembers who was evicted for whom, so that nobody is twice."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._seen: set[tuple[str, int, str, int, str]] = set()

    def problem(self, victim: ModelJob, claimant: ModelJob, decision: GangPreempted) -> str:
        """Why nobody may evict so; empty for no reason."""
        urgent = claimant.job_class == JobClass.URGENT
        by_class = claimant.job_class >= JobClass.HIGH and claimant.job_class > victim.job_class
        young = self._ran_ms(victim) < self._protected_ms(victim)
        pair = (claimant.job, claimant.attempt, victim.job, victim.attempt, decision.cause)
        reclaims = decision.cause == "reclaim"
        problems = (
            (pair in self._seen, "the same eviction as before"),
            (not victim.holds, "the victim holds nothing"),
            (claimant.holds, "the claimant has a place"),
            (not victim.spec.preemptible, "the victim is not preemptible"),
            (decision.cause == "class" and not by_class, "its class gives no such right"),
            (reclaims and victim.job_class == JobClass.URGENT, "nobody reclaims from urgent"),
            (not urgent and young, "the victim has not run for min_runtime"),
        )
        self._seen.add(pair)
        return next((text for bad, text in problems if bad), "")

    def room_problem(self, decision: ReservationReleased) -> str:
        """Why room that victims made may not be let go so; empty for no reason."""
        claim = self._model.claims.get(decision.job)
        if claim is None:
            return ""
        if decision.why not in SETTLED:
            return f"room for {decision.job} is let go: {decision.why}"
        if decision.why == "fault" and self._model.trouble_ms < claim.since_ms:
            return f"room for {decision.job} is let go for a fault that never was"
        return ""

    def in_vain(self) -> Iterator[str]:
        """Evictions that at the end have led to nothing."""
        model = self._model
        for claim in model.claims.values():
            held = any(model.jobs[victim].holds for victim in claim.victims)
            if not held and claim.since_ms > model.trouble_ms:
                who = ", ".join(sorted(claim.victims))
                yield f"{who} evicted for {claim.claimant}, which never started"

    def _ran_ms(self, job: ModelJob) -> int:
        return 0 if job.started_ms is None else self._model.now_ms - job.started_ms

    def _protected_ms(self, job: ModelJob) -> int:
        policy = self._model.policy
        least = policy.get("min_runtime", 600_000)
        most = max(policy.get("min_runtime_max", 7_200_000), least)
        return min(least << min(job.preemptions, 40), most)
