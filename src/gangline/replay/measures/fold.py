"""The fold of a history of decisions into what the measures are computed from.

It is fed what is in the log and nothing else, so that a simulation, a replayed log and a what-if
are measured by the same code. It keeps a record for each job and attempt, and heights over time:
GPUs by what happens to them, waiting jobs and GPUs, what each team holds and wants.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events.spec import UNLIMITED
from gangline.replay.measures.records import (
    LARGE_GPUS,
    UNSAID,
    AttemptRecord,
    Escrow,
    JobRecord,
    NodeRecord,
    TeamRecord,
    band_of,
)
from gangline.replay.measures.series import Level, Series
from gangline.replay.measures.starvation import StarvationWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gangline.events.facts import TeamSet

MINUTE_MS: Final = 60_000
BUCKET_MS: Final = 10 * MINUTE_MS
STARTING: Final = "starting"
NO_DEMAND: Final = "no_demand"
# Reservations that end for these reasons excuse an eviction that started nobody.
EXCUSES: Final = ("cancelled", "fault", "held")


class Fold:
    """The records and heights of one history.

    bucket_ms: the grain of everything over time. team_of: whose each job really is, where the
    history itself knows one team only; the teams are then told by `set_teams`.
    """

    def __init__(
        self,
        *,
        origin_ms: int,
        bucket_ms: int = BUCKET_MS,
        team_of: Mapping[str, str] | None = None,
    ) -> None:
        self._team_of = team_of
        self.origin_ms = origin_ms
        self.bucket_ms = bucket_ms
        self.now_ms = origin_ms
        self.events = 0
        self.jobs: dict[str, JobRecord] = {}
        self.attempts: list[AttemptRecord] = []
        self.nodes: dict[str, NodeRecord] = {}
        self.levels: tuple[str, ...] = ()
        self.teams: list[TeamRecord] = []
        self.rejected: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.preemptions: Counter[str] = Counter()
        self.wait_ms: Counter[tuple[str, str]] = Counter()
        self.placed: Counter[tuple[int, int, str]] = Counter()
        self.capacity: list[tuple[int, int]] = []
        self.waiting_gpus: Counter[str] = Counter()
        self.claims: dict[tuple[str, int], int] = {}
        self.starvation = StarvationWatch(self)
        self.policy: dict[str, int] = {}
        self._levels: dict[tuple[str, str], Level] = {}
        self._held_by_block: dict[tuple[str, ...], Series] = {}
        self._unavailable: dict[str, tuple[int, int]] = {}
        self._escrows: dict[str, Escrow] = {}
        self._kept: dict[str, int] = {}
        self._idle = ""
        self._total_gpus = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            d.JobQueued: self._queued,
            d.JobRejected: self._rejected,
            d.WaitCauseChanged: self._cause_changed,
            d.GangPlaced: self._placed,
            d.GangStarted: self._started,
            d.GangStartAborted: self._start_aborted,
            d.GangPreempted: self._preempted,
            d.GangReleased: self._released,
            d.JobRequeued: self._requeued,
            d.JobFinished: self._finished,
            d.ReservationPlanned: self._reserved,
            d.ReservationReleased: self._unreserved,
            d.NodeAdded: self._node_added,
            d.NodeDropped: self._node_dropped,
            d.NodeHealthChanged: self._health_changed,
            d.NodeServiceChanged: self._service_changed,
            d.GpuWithdrawn: self._gpu_withdrawn,
            d.GpuReturned: self._gpu_returned,
            d.TeamChanged: self._team_changed,
            d.PolicyChanged: self._policy_changed,
            d.InputRejected: self._input_rejected,
        }

    def fold(self, decisions: Iterable[d.Decision], *, now_ms: int) -> None:
        """Take in what one step decided."""
        self.now_ms = now_ms
        self.starvation.pass_time(now_ms)
        for decision in decisions:
            self.events += 1
            handler = self._handlers.get(type(decision))
            if handler is not None:
                handler(decision)
        self._tell_idle()

    def settle(self, now_ms: int) -> None:
        """Bring everything over time up to now, as at the end of a history."""
        self.now_ms = max(now_ms, self.now_ms)
        self.starvation.pass_time(self.now_ms)
        for level in self._levels.values():
            level.settle(self.now_ms)

    def series(self, kind: str, name: str = "") -> Series:
        """Heights over time: `gpus` by what happens, `team_held`, `team_wanted`, `queue`."""
        return self._level(kind, name).series

    def names(self, kind: str) -> tuple[str, ...]:
        """The names under which a kind of series exists, in the order they came up."""
        return tuple(name for of, name in self._levels if of == kind)

    def team_held(self, team: str) -> int:
        """GPUs that a team's own gangs hold now."""
        return self._level("team_held", team).height

    def blocks(self) -> dict[tuple[str, ...], Series]:
        """Held GPUs over time in each lowest domain, as far as gangs have let go."""
        return self._held_by_block

    # --- jobs ------------------------------------------------------------------------------------

    def _queued(self, decision: d.JobQueued) -> None:
        spec = decision.spec
        job = JobRecord(
            job=decision.job,
            team=spec.team if self._team_of is None else self._team_of[decision.job],
            gpus=spec.gpus,
            gpus_per_node=spec.gpus_per_node,
            limit_ms=spec.limit_ms,
            submitted_ms=decision.submitted_ms or self.now_ms,
        )
        self.jobs[decision.job] = job
        self.counts["submitted"] += 1
        if job.gpus >= LARGE_GPUS:
            self.starvation.watch_large(job)
        self.starvation.watch(job)
        self._has_waited(job)
        self._wait(job, UNSAID)

    def _rejected(self, decision: d.JobRejected) -> None:
        self.rejected[decision.reason] += 1
        job = self.jobs.get(decision.job)
        if job is None:
            self.counts["submitted"] += 1
        elif not job.ended_ms:
            self._wait(job, "")
            job.ended_ms, job.outcome = self.now_ms, d.Outcome.REJECTED.value

    def _cause_changed(self, decision: d.WaitCauseChanged) -> None:
        for name in decision.jobs:
            job = self.jobs.get(name)
            if job is not None and job.cause not in ("", STARTING):
                self._wait(job, decision.cause.value)

    def _wait(self, job: JobRecord, cause: str) -> None:
        """A job waits for another reason from now on; empty: it does not wait."""
        before = job.cause
        if before:
            self.wait_ms[band_of(job.gpus), before] += self.now_ms - job.cause_since_ms
        job.cause, job.cause_since_ms = cause, self.now_ms
        self._count_waiting(job, before, -1)
        self._count_waiting(job, cause, 1)

    def _has_waited(self, job: JobRecord) -> None:
        """What it waited before anybody said so, as at a desk that hands jobs in one by one."""
        since_ms = job.submitted_ms
        if since_ms >= self.now_ms:
            return
        self.wait_ms[band_of(job.gpus), UNSAID] += self.now_ms - since_ms
        self.series("queue", "jobs").add(since_ms, self.now_ms, 1)
        self.series("queue", "gpus").add(since_ms, self.now_ms, job.gpus)
        self.series("team_wanted", job.team).add(since_ms, self.now_ms, job.gpus)

    def _count_waiting(self, job: JobRecord, cause: str, sign: int) -> None:
        if cause in ("", STARTING):
            return
        self.waiting_gpus[cause] += sign * job.gpus
        self._level("queue", "jobs").change(self.now_ms, sign)
        self._level("queue", "gpus").change(self.now_ms, sign * job.gpus)
        if cause not in (d.WaitCause.DEPENDENCY, d.WaitCause.HOLD):
            self._level("team_wanted", job.team).change(self.now_ms, sign * job.gpus)

    def _requeued(self, decision: d.JobRequeued) -> None:
        self.counts["requeued"] += 1
        self._wait(self.jobs[decision.job], UNSAID)

    def _finished(self, decision: d.JobFinished) -> None:
        job = self.jobs.get(decision.job)
        if job is None:
            return
        self._wait(job, "")
        job.ended_ms, job.outcome = self.now_ms, decision.outcome.value
        if decision.outcome is d.Outcome.CANCELLED:
            self._excuse(job.job)

    # --- gangs -----------------------------------------------------------------------------------

    def _placed(self, decision: d.GangPlaced) -> None:
        job = self.jobs[decision.job]
        attempt = AttemptRecord(
            job=job,
            number=decision.attempt,
            placed_ms=self.now_ms,
            parts=tuple((seat.node, len(seat.gpus)) for seat in decision.seats),
        )
        job.attempt = attempt
        self.attempts.append(attempt)
        self.placed[job.gpus, job.gpus_per_node or 0, decision.level] += 1
        self._wait(job, STARTING)
        self._hold(attempt, 1)
        self._level("gpus", STARTING).change(self.now_ms, job.gpus)

    def _started(self, decision: d.GangStarted) -> None:
        job = self.jobs[decision.job]
        attempt = job.attempt
        if attempt is None:
            return
        attempt.started_ms, attempt.resumed_ms = self.now_ms, decision.resumed_ms
        job.first_start_ms = job.first_start_ms or self.now_ms
        self._wait(job, "")
        self._level("gpus", STARTING).change(self.now_ms, -job.gpus)
        self.starvation.started(attempt)
        self.claims.pop((job.job, decision.attempt), None)

    def _start_aborted(self, decision: d.GangStartAborted) -> None:
        self.counts["aborted_starts"] += 1
        # Its claim is not broken by choice: a node was too slow.
        self.claims.pop((decision.job, decision.attempt), None)

    def _preempted(self, decision: d.GangPreempted) -> None:
        self.preemptions[decision.cause] += 1
        attempt = self.jobs[decision.job].attempt
        if attempt is not None:
            attempt.preempted = decision.cause
        claim = (decision.claimant, decision.claimant_attempt)
        self.claims[claim] = self.claims.get(claim, 0) + 1

    def _released(self, decision: d.GangReleased) -> None:
        job = self.jobs[decision.job]
        attempt = job.attempt
        if attempt is None:
            return
        job.attempt = None
        attempt.released_ms, attempt.stop = self.now_ms, decision.cause.value
        attempt.lost_gpu_ms = decision.lost_gpu_ms
        if attempt.started_ms:
            attempt.kept_ms = max(0, decision.productive_ms - attempt.resumed_ms)
            job.productive_ms = decision.productive_ms
            self.starvation.stopped(attempt)
        else:
            self._level("gpus", STARTING).change(self.now_ms, -job.gpus)
        if job.cause == STARTING:
            self._wait(job, "")
        self._hold(attempt, -1)
        self._put_on_map(attempt)
        self._victim_is_out(job.job)

    def _hold(self, attempt: AttemptRecord, sign: int) -> None:
        """The gang's GPUs are held from now on, or not any more."""
        gpus = sign * attempt.job.gpus
        self._level("gpus", "held").change(self.now_ms, gpus)
        self._level("team_held", attempt.job.team).change(self.now_ms, gpus)
        for name, count in attempt.parts:
            node = self.nodes.get(name)
            if node is not None:
                node.held += sign * count
                self._count_unavailable(node)

    def _put_on_map(self, attempt: AttemptRecord) -> None:
        for name, count in attempt.parts:
            node = self.nodes.get(name)
            if node is not None:
                series = self._held_by_block.get(node.path)
                if series is None:
                    series = self._held_by_block[node.path] = self._new_series()
                series.add(attempt.placed_ms, attempt.released_ms, count)

    # --- reservations ----------------------------------------------------------------------------

    def _reserved(self, decision: d.ReservationPlanned) -> None:
        if decision.kind != "claim":
            return
        self._escrows[decision.job] = Escrow(
            gpus=sum(seat.gpus for seat in decision.seats),
            victims={name for name in decision.victims if self._holds(name)},
        )
        self._keep(decision.job)

    def _unreserved(self, decision: d.ReservationReleased) -> None:
        if self._escrows.pop(decision.job, None) is not None:
            self._keep(decision.job)
        if decision.why in EXCUSES:
            self._excuse(decision.job)

    def _keep(self, claimant: str) -> None:
        """Count a claim's GPUs that its victims do not hold any more."""
        escrow = self._escrows.get(claimant)
        gpus = 0
        if escrow is not None:
            gpus = max(0, escrow.gpus - sum(self.jobs[name].gpus for name in escrow.victims))
        before = self._kept.pop(claimant, 0)
        self._kept[claimant] = gpus
        self._level("gpus", "reserved").change(self.now_ms, gpus - before)

    def _holds(self, name: str) -> bool:
        job = self.jobs.get(name)
        return job is not None and job.attempt is not None

    def _victim_is_out(self, name: str) -> None:
        for claimant, escrow in self._escrows.items():
            if name in escrow.victims:
                escrow.victims.discard(name)
                self._keep(claimant)

    def _excuse(self, job: str) -> None:
        """The evictions for a claimant that was cancelled or met a fault are not in vain."""
        for claim in [claim for claim in self.claims if claim[0] == job]:
            del self.claims[claim]

    # --- nodes -----------------------------------------------------------------------------------

    def _node_added(self, decision: d.NodeAdded) -> None:
        self.levels = decision.levels
        node = NodeRecord(name=decision.node, gpus=decision.gpus, path=decision.path)
        self.nodes[decision.node] = node
        self._grow(decision.gpus)

    def _node_dropped(self, decision: d.NodeDropped) -> None:
        node = self.nodes.pop(decision.node, None)
        if node is not None:
            node.health, node.service, node.bad = d.Health.WELL, d.Service.OPEN, set()
            self._count_unavailable(node)
            self._grow(-node.gpus)

    def _grow(self, gpus: int) -> None:
        self._total_gpus += gpus
        self.capacity.append((self.now_ms, self._total_gpus))
        self._level("gpus", "capacity").change(self.now_ms, gpus)

    def _health_changed(self, decision: d.NodeHealthChanged) -> None:
        node = self.nodes.get(decision.node)
        if node is not None:
            node.health = decision.health
            self.counts[f"node_{decision.health.value}"] += 1
            self._count_unavailable(node)

    def _service_changed(self, decision: d.NodeServiceChanged) -> None:
        node = self.nodes.get(decision.node)
        if node is not None:
            node.service = decision.service
            self._count_unavailable(node)

    def _gpu_withdrawn(self, decision: d.GpuWithdrawn) -> None:
        node = self.nodes.get(decision.node)
        if node is not None:
            node.bad.add(decision.gpu)
            self._count_unavailable(node)

    def _gpu_returned(self, decision: d.GpuReturned) -> None:
        node = self.nodes.get(decision.node)
        if node is not None:
            node.bad.discard(decision.gpu)
            self._count_unavailable(node)

    def _count_unavailable(self, node: NodeRecord) -> None:
        """Count a node's idle GPUs that cannot be had."""
        now = node.idle_unhealthy, node.idle_out
        before = self._unavailable.get(node.name, (0, 0))
        if now != before:
            self._unavailable[node.name] = now
            self._level("gpus", "unhealthy").change(self.now_ms, now[0] - before[0])
            self._level("gpus", "out_of_service").change(self.now_ms, now[1] - before[1])

    # --- the rest --------------------------------------------------------------------------------

    def set_teams(self, teams: Iterable[TeamSet]) -> None:
        """The teams whose jobs `team_of` names."""
        self.teams = [
            TeamRecord(
                since_ms=self.origin_ms,
                team=team.team,
                guaranteed=team.guaranteed or 0,
                borrow=UNLIMITED if team.borrow is None else team.borrow,
                weight=team.weight or 1,
                parent=team.parent or "",
            )
            for team in teams
        ]

    def _team_changed(self, decision: d.TeamChanged) -> None:
        if self._team_of is not None:
            return
        self.teams.append(
            TeamRecord(
                since_ms=self.now_ms,
                team=decision.team,
                guaranteed=decision.guaranteed,
                borrow=decision.borrow,
                weight=decision.weight,
                parent=decision.parent,
            )
        )

    def _policy_changed(self, decision: d.PolicyChanged) -> None:
        self.policy.update(decision.values)

    def _input_rejected(self, decision: d.InputRejected) -> None:
        self.counts["rejected_inputs"] += decision.count

    def _tell_idle(self) -> None:
        """Say why the GPUs that are free now are free: for what most of the waiting GPUs wait."""
        waiting = [(gpus, cause) for cause, gpus in self.waiting_gpus.items() if gpus]
        cause = max(waiting)[1] if waiting else NO_DEMAND
        busy = ("held", "unhealthy", "out_of_service", "reserved")
        used = sum(self._level("gpus", name).height for name in busy)
        # A GPU that breaks while it is kept for a claim counts twice until the claim is let go.
        free = max(0, self._total_gpus - used)
        if self._idle != cause and self._idle:
            old = self._level("idle", self._idle)
            old.change(self.now_ms, -old.height)
        self._idle = cause
        level = self._level("idle", cause)
        if level.height != free:
            level.change(self.now_ms, free - level.height)

    def _new_series(self) -> Series:
        return Series(self.origin_ms, self.bucket_ms)

    def _level(self, kind: str, name: str) -> Level:
        level = self._levels.get((kind, name))
        if level is None:
            level = self._levels[kind, name] = Level(self._new_series(), self.now_ms)
        return level
