"""A second, simple-minded memory of a cell, folded from decisions alone.

It shares nothing with the core but the vocabulary, so that the two can be held against each other.
It keeps who holds which GPU, what each job waits for, and what nodes and teams are. Sums are made
when they are asked for, but for the GPUs of each team's own jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Gpu = tuple[str, int]
Attempt = tuple[str, int]


@dataclass(slots=True, kw_only=True, eq=False)
class ModelJob:
    """A job. seats: of its present or last place, which it has now when it holds.

    number: in order of acceptance. started_ms: of the present attempt, None before. waits_ms: since
    when it waits; cause: for what, empty while nobody said. saved_ms: productive time in its newest
    checkpoint. leaving: it was told to stop and still holds. held_by: who keeps it from starting,
    empty for nobody. retries: used up. outcome: how it ended, empty while it lives.
    """

    job: str
    spec: Spec
    job_class: int
    number: int = 0
    attempt: int = 0
    seats: tuple[d.Seat, ...] = ()
    holds: bool = False
    ready: set[str] = field(default_factory=set)
    started_ms: int | None = None
    starts: int = 0
    preemptions: int = 0
    waits_ms: int = 0
    cause: str = ""
    saved_ms: int = 0
    leaving: bool = False
    held_by: str = ""
    retries: int = 0
    outcome: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class ModelNode:
    """A node. bad: its broken GPUs. ills: what is wrong with the whole of it."""

    node: str
    path: tuple[str, ...]
    levels: tuple[str, ...]
    gpus: int
    labels: Mapping[str, str]
    boot_id: str = ""
    service: d.Service = d.Service.OPEN
    bad: set[int] = field(default_factory=set)
    ills: set[str] = field(default_factory=set)

    @property
    def health(self) -> d.Health:
        """The worst that holds."""
        if "lost" in self.ills:
            return d.Health.LOST
        if "quarantine" in self.ills:
            return d.Health.QUARANTINED
        return d.Health.SUSPECTED if self.ills else d.Health.WELL

    @property
    def in_service(self) -> int:
        """How many of its GPUs may be used by new work."""
        usable = self.health is d.Health.WELL and self.service is d.Service.OPEN
        return self.gpus - len(self.bad) if usable else 0

    @property
    def unhealthy(self) -> int:
        """How many of its GPUs are out because something is wrong."""
        if self.service is not d.Service.OPEN:
            return 0
        return self.gpus if self.health is not d.Health.WELL else len(self.bad)


@dataclass(slots=True, kw_only=True, eq=False)
class ModelClaim:
    """Room that victims make for a claimant. since_ms: of the first victim told to stop."""

    claimant: str
    since_ms: int
    victims: set[str] = field(default_factory=set)


class Model:
    """The memory. Every decision of the log is given to `fold` in order.

    own: GPUs held by each team's own jobs. unexplained: jobs that wait without a cause. changed:
    nodes whose GPUs changed hands or health; whoever counts them clears it.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, ModelJob] = {}
        self.holding: dict[str, ModelJob] = {}
        self.waiting: dict[str, ModelJob] = {}
        self.unexplained: dict[str, ModelJob] = {}
        self.own: dict[str, int] = {}
        self.changed: set[str] = set()
        self.nodes: dict[str, ModelNode] = {}
        self.teams: dict[str, d.TeamChanged] = {}
        self.policy: dict[str, int] = {}
        self.holders: dict[Gpu, Attempt] = {}
        self.lingering: dict[Gpu, Attempt] = {}
        self.reservations: dict[str, d.ReservationPlanned] = {}
        self.claims: dict[str, ModelClaim] = {}
        self.trouble_ms = -1
        self.now_ms = 0

    def fold(self, decision: d.Decision, now_ms: int) -> None:
        """Remember what a decision says."""
        self.now_ms = now_ms
        change = _CHANGES.get(type(decision))
        if change is not None:
            change(self, decision)

    def branch(self, team: str) -> Iterator[str]:
        """A team and its ancestors, innermost first."""
        name = team
        while name in self.teams:
            yield name
            name = self.teams[name].parent

    def named(self, name: str) -> list[ModelJob]:
        """The job of a name, or the tasks of the array of that name."""
        if name in self.jobs:
            return [self.jobs[name]]
        return [job for job in self.jobs.values() if array_of(job.job) == name]

    def unfinished(self, job: ModelJob) -> str:
        """A job for whose success another one has to wait; empty for none."""
        for name in job.spec.after:
            for other in self.named(name):
                if other.outcome != d.Outcome.SUCCEEDED:
                    return other.job
        return ""

    def used(self) -> dict[str, int]:
        """GPUs held by each team's branch."""
        used = dict.fromkeys(self.teams, 0)
        for team, gpus in self.own.items():
            for name in self.branch(team):
                used[name] += gpus
        return used


def array_of(job: str) -> str:
    """The array that a job is a task of, if it is one: tasks are named `ARRAY.NUMBER`."""
    return job.rpartition(".")[0]


def gpus_of(seats: tuple[d.Seat, ...]) -> Iterator[Gpu]:
    """Every GPU of a place."""
    for seat in seats:
        for gpu in seat.gpus:
            yield seat.node, gpu


def _queued(model: Model, decision: d.JobQueued) -> None:
    job = ModelJob(
        job=decision.job,
        spec=decision.spec,
        job_class=int(decision.spec.job_class),
        number=decision.number,
        waits_ms=model.now_ms,
    )
    model.jobs[job.job] = model.waiting[job.job] = model.unexplained[job.job] = job


def _rejected(model: Model, decision: d.JobRejected) -> None:
    if decision.job in model.waiting:
        model.waiting.pop(decision.job).outcome = str(d.Outcome.REJECTED)
        model.unexplained.pop(decision.job, None)


def _finished(model: Model, decision: d.JobFinished) -> None:
    model.jobs[decision.job].outcome = str(decision.outcome)
    model.waiting.pop(decision.job, None)
    model.unexplained.pop(decision.job, None)


def _requeued(model: Model, decision: d.JobRequeued) -> None:
    job = model.jobs[decision.job]
    job.waits_ms, job.cause, job.retries = model.now_ms, "", decision.retries_used
    model.waiting[job.job] = model.unexplained[job.job] = job


def _held(model: Model, decision: d.JobHeld) -> None:
    model.jobs[decision.job].held_by = decision.by


def _let_go(model: Model, decision: d.JobReleased) -> None:
    model.jobs[decision.job].held_by = ""


def _priority(model: Model, decision: d.PriorityChanged) -> None:
    model.jobs[decision.job].job_class = int(decision.job_class)


def _cause(model: Model, decision: d.WaitCauseChanged) -> None:
    for name in decision.jobs:
        model.jobs[name].cause = str(decision.cause)
        model.unexplained.pop(name, None)


def _placed(model: Model, decision: d.GangPlaced) -> None:
    job = model.jobs[decision.job]
    job.attempt, job.seats, job.holds = decision.attempt, decision.seats, True
    job.ready, job.started_ms, job.cause = set(), None, ""
    for gpu in gpus_of(decision.seats):
        model.holders[gpu] = (decision.job, decision.attempt)
    model.claims.pop(decision.job, None)
    model.waiting.pop(decision.job, None)
    model.unexplained.pop(decision.job, None)
    model.holding[decision.job] = job
    model.own[job.spec.team] = model.own.get(job.spec.team, 0) + job.spec.gpus
    model.changed.update(seat.node for seat in decision.seats)


def _ready(model: Model, decision: d.MembersReady) -> None:
    model.jobs[decision.job].ready.update(decision.nodes)


def _started(model: Model, decision: d.GangStarted) -> None:
    job = model.jobs[decision.job]
    job.started_ms = model.now_ms
    job.starts += 1


def _saved(model: Model, decision: d.CheckpointRecorded) -> None:
    model.jobs[decision.job].saved_ms = decision.productive_ms


def _preempted(model: Model, decision: d.GangPreempted) -> None:
    job = model.jobs[decision.job]
    job.preemptions += 1
    job.leaving = True
    claim = model.claims.setdefault(
        decision.claimant, ModelClaim(claimant=decision.claimant, since_ms=model.now_ms)
    )
    claim.victims.add(decision.job)


def _stopping(model: Model, decision: d.GangStopping | d.GangStartAborted) -> None:
    model.jobs[decision.job].leaving = True


def _released(model: Model, decision: d.GangReleased) -> None:
    job = model.jobs[decision.job]
    job.holds = job.leaving = False
    if model.holding.pop(decision.job, None) is not None:
        model.own[job.spec.team] -= job.spec.gpus
    model.changed.update(seat.node for seat in job.seats)
    for gpu in gpus_of(job.seats):
        holder = model.holders.pop(gpu, None)
        if gpu[0] in decision.lingering and holder is not None:
            model.lingering[gpu] = holder


def _member_ended(model: Model, decision: d.MemberEnded) -> None:
    _gone(model, decision.node, (decision.job, decision.attempt))


def _gone(model: Model, node: str, attempt: Attempt | None) -> None:
    """What lingered on a node is gone. attempt: None for all of it."""
    for gpu, lingers in list(model.lingering.items()):
        if gpu[0] == node and attempt in (None, lingers):
            del model.lingering[gpu]
            model.changed.add(node)


def _reserved(model: Model, decision: d.ReservationPlanned) -> None:
    model.reservations[decision.job] = decision


def _unreserved(model: Model, decision: d.ReservationReleased) -> None:
    model.reservations.pop(decision.job, None)
    model.claims.pop(decision.job, None)


def _node_added(model: Model, decision: d.NodeAdded) -> None:
    model.changed.add(decision.node)
    model.nodes[decision.node] = ModelNode(
        node=decision.node,
        path=decision.path,
        levels=decision.levels,
        gpus=decision.gpus,
        labels=decision.labels,
    )


def _node_dropped(model: Model, decision: d.NodeDropped) -> None:
    model.changed.add(decision.node)
    del model.nodes[decision.node]
    _gone(model, decision.node, None)
    model.trouble_ms = model.now_ms


def _booted(model: Model, decision: d.NodeBooted) -> None:
    node = model.nodes[decision.node]
    if node.boot_id != decision.boot_id:
        _gone(model, decision.node, None)
        if node.boot_id:
            model.trouble_ms = model.now_ms
    node.boot_id = decision.boot_id


def _health(model: Model, decision: d.NodeHealthChanged) -> None:
    model.changed.add(decision.node)
    ills = model.nodes[decision.node].ills
    better = _BETTER.get(decision.cause)
    if better is None:
        ills.add(decision.cause)
        model.trouble_ms = model.now_ms
    else:
        ills.difference_update(better)


def _service(model: Model, decision: d.NodeServiceChanged) -> None:
    model.changed.add(decision.node)
    model.nodes[decision.node].service = decision.service
    if decision.service is not d.Service.OPEN:
        model.trouble_ms = model.now_ms


def _withdrawn(model: Model, decision: d.GpuWithdrawn) -> None:
    model.changed.add(decision.node)
    node = model.nodes[decision.node]
    node.bad.update(range(node.gpus) if decision.gpu < 0 else (decision.gpu,))
    model.trouble_ms = model.now_ms


def _returned(model: Model, decision: d.GpuReturned) -> None:
    model.changed.add(decision.node)
    node = model.nodes[decision.node]
    node.bad.difference_update(range(node.gpus) if decision.gpu < 0 else (decision.gpu,))


def _team(model: Model, decision: d.TeamChanged) -> None:
    model.teams[decision.team] = decision


def _policy(model: Model, decision: d.PolicyChanged) -> None:
    model.policy.update(decision.values)


_BETTER: Final = {
    "heard": ("silent", "lost"),
    "ready again": ("unready",),
    "quarantine over": ("quarantine",),
}
"""Which ills a change of health ends; every other cause is an ill that begins."""

_CHANGES: Final[Mapping[type, Callable[[Model, Any], None]]] = {
    d.JobQueued: _queued,
    d.JobRejected: _rejected,
    d.JobFinished: _finished,
    d.JobRequeued: _requeued,
    d.JobHeld: _held,
    d.JobReleased: _let_go,
    d.PriorityChanged: _priority,
    d.WaitCauseChanged: _cause,
    d.GangPlaced: _placed,
    d.MembersReady: _ready,
    d.GangStarted: _started,
    d.CheckpointRecorded: _saved,
    d.GangPreempted: _preempted,
    d.GangStopping: _stopping,
    d.GangStartAborted: _stopping,
    d.GangReleased: _released,
    d.MemberEnded: _member_ended,
    d.ReservationPlanned: _reserved,
    d.ReservationReleased: _unreserved,
    d.NodeAdded: _node_added,
    d.NodeDropped: _node_dropped,
    d.NodeBooted: _booted,
    d.NodeHealthChanged: _health,
    d.NodeServiceChanged: _service,
    d.GpuWithdrawn: _withdrawn,
    d.GpuReturned: _returned,
    d.TeamChanged: _team,
    d.PolicyChanged: _policy,
}
