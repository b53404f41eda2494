"""What the fleet is and who holds what of it: the state under ledger, teams and fairness. Pure.

Every GPU of every node is at any moment in exactly one account: held by a gang (`starting`,
`running` or `stopping`, by the team of its job), or out (`unhealthy`, `drained` or `lingering`), or
`reserved` for a gang that waits, or free. The sums are kept as decisions come; a decision changes
only the nodes that it names.

Of what a GPU is at once, the first counts: held, drained, unhealthy, lingering, reserved, free.

The state is a set of records by key, so that a view can save what changed and find it again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.projections import conditions
from gangline.projections.lending import TeamTerms, Tree
from gangline.projections.records import (
    RECORDS,
    RUNNING,
    STOPPING,
    GangBook,
    JobBook,
    ModelBook,
    NodeBook,
    PlanBook,
    Tally,
    plain_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

UNHEALTHY: Final = "unhealthy"
DRAINED: Final = "drained"
LINGERING: Final = "lingering"
MODEL: Final = "model"
"""The label of nodes that names the model of GPU."""


class BooksError(Exception):
    """A decision contradicts the ones before it."""


class Books:
    """The state. `held` by (team, phase), `out` by account, `reserved` and `waiting` by team: GPUs.

    models: of nodes that say what model their GPUs are.
    queued, running: jobs by team. shape_need: GPUs that jobs want which wait for a shape only.
    changed: keys whose records changed since they were last taken. uses: GPUs held by team.
    uses_version, levels_version, demand_version: count changes of who uses or is promised how
    much, of what GPUs are, and of what is wanted, so that nothing is computed twice.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeBook] = {}
        self.jobs: dict[str, JobBook] = {}
        self.gangs: dict[str, GangBook] = {}
        self.plans: dict[str, PlanBook] = {}
        self.teams: dict[str, TeamTerms] = {}
        self.models: dict[str, ModelBook] = {}
        self.capacity = 0
        self.free = 0
        self.shape_need = 0
        self.held: Counter[tuple[str, str]] = Counter()
        self.out: Counter[str] = Counter()
        self.reserved: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        self.queued: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.uses: Counter[str] = Counter()
        self.uses_version = 0
        self.levels_version = 0
        self.demand_version = 0
        self.changed: dict[str, None] = {}
        self._planned_on: dict[str, dict[str, int]] = {}
        self._tallies: dict[str, Tally] = {}
        self._tree: Tree | None = None

    def tree(self) -> Tree:
        """The teams by parent."""
        if self._tree is None:
            self._tree = Tree(self.teams)
        return self._tree

    def set_team(self, name: str, terms: TeamTerms) -> None:
        """A team is as said from now on; its place among the teams stays."""
        known = self.teams.get(name)
        order = len(self.teams) if known is None else known.order
        self.teams[name] = replace(terms, order=order)
        self._tree = None
        self.changed_uses()
        self.touch("team", name)

    def apply(self, decision: d.Decision) -> None:
        """Change the state as a decision says; BooksError where it cannot be."""
        fold = FOLDS.get(type(decision))
        if fold is not None:
            fold(self, decision)

    # --- saving and finding again --------------------------------------------------------------

    def take_changed(self) -> dict[str, Any]:
        """Records that changed since the last call, by key, as JSON values; None for those gone."""
        found: dict[str, Any] = {}
        for key in self.changed:
            kind, _, name = key.partition(":")
            record = self._store(kind).get(name)
            found[key] = None if record is None else plain_record(record)
        self.changed.clear()
        return found

    def restore(self, records: Mapping[str, Any]) -> None:
        """Put saved records into new books, and count everything again."""
        for key in sorted(records):
            kind, _, name = key.partition(":")
            if kind in RECORDS:
                self._store(kind)[name] = RECORDS[kind](**records[key])
        for job, plan in sorted(self.plans.items()):
            self._plan_on(job, plan)
        for name, node in self.nodes.items():
            self.capacity += node.gpus
            self.recount(name)
        for gang in self.gangs.values():
            self.held[gang.team, gang.phase] += gang.gpus
            self._use(gang.team, gang.gpus)
            self.running[gang.team] += 1
        for job_book in self.jobs.values():
            self._count_job(job_book, 1)

    def _store(self, kind: str) -> dict[str, Any]:
        stores: dict[str, dict[str, Any]] = {
            "node": self.nodes,
            "job": self.jobs,
            "gang": self.gangs,
            "plan": self.plans,
            "team": self.teams,
            "model": self.models,
        }
        return stores[kind]

    def touch(self, kind: str, name: str) -> None:
        """Note that a record changed."""
        self.changed[f"{kind}:{name}"] = None

    # --- what a node's GPUs are ----------------------------------------------------------------

    def recount(self, name: str) -> None:
        """Bring the sums up to date after a change of a node."""
        before = self._tallies.pop(name, None)
        node = self.nodes.get(name)
        after = None if node is None else self._tally(node, self._planned_on.get(name, {}))
        if after is not None:
            self._tallies[name] = after
        if after == before:
            return
        if before is not None:
            self._add(before, -1)
        if after is not None:
            self._add(after, 1)
        self.levels_version += 1
        self.demand_version += 1

    def _add(self, tally: Tally, sign: int) -> None:
        self.free += sign * tally.free
        for account, gpus in tally.out.items():
            self.out[account] += sign * gpus
        for team, gpus in tally.reserved.items():
            self.reserved[team] += sign * gpus

    def _tally(self, node: NodeBook, plans: Mapping[str, int]) -> Tally:
        left = node.gpus - sum(map(len, node.held.values()))
        if node.conditions or not node.open:
            account = UNHEALTHY if node.open else DRAINED
            return Tally(out={account: left}, reserved={}, free=0)
        if not (node.bad or node.lingering or plans):
            return Tally(out={}, reserved={}, free=left)
        held = {gpu for gpus in node.held.values() for gpu in gpus}
        bad = set(node.bad) - held
        linger = {gpu for gpus in node.lingering.values() for gpu in gpus} - held - bad
        free = left - len(bad) - len(linger)
        reserved: dict[str, int] = {}
        for job in sorted(plans):
            gpus = min(plans[job], free)
            if gpus:
                team = self.plans[job].team
                reserved[team] = reserved.get(team, 0) + gpus
                free -= gpus
        out = {UNHEALTHY: len(bad), LINGERING: len(linger)}
        return Tally(out=out, reserved=reserved, free=free)

    # --- jobs ----------------------------------------------------------------------------------

    def change_job(self, name: str, **values: object) -> None:
        """Change fields of a job that is known, and what it adds to the sums."""
        job = self.jobs.get(name)
        if job is None:
            return
        self._count_job(job, -1)
        for field_name, value in values.items():
            setattr(job, field_name, value)
        self._count_job(job, 1)
        self.touch("job", name)

    def add_job(self, name: str, job: JobBook) -> None:
        """A job came; one that was there before is replaced."""
        self.drop_job(name)
        self.jobs[name] = job
        self._count_job(job, 1)
        self.touch("job", name)

    def drop_job(self, name: str) -> None:
        """A job ended."""
        job = self.jobs.pop(name, None)
        if job is not None:
            self._count_job(job, -1)
            self.touch("job", name)

    def _count_job(self, job: JobBook, sign: int) -> None:
        demand = job.demand
        if demand:
            self.waiting[job.team] += sign * demand
            self.demand_version += 1
            if job.cause == d.WaitCause.TOPOLOGY:
                self.shape_need += sign * demand
                self.levels_version += 1
        if job.waiting:
            self.queued[job.team] += sign

    # --- gangs ---------------------------------------------------------------------------------

    def seat(self, decision: d.GangPlaced) -> None:
        """A gang holds GPUs from now on."""
        job = self.jobs.get(decision.job)
        if job is None or decision.job in self.gangs:
            raise BooksError(f"{decision.job} is placed, but it does not wait")
        for seat in decision.seats:
            node = self.nodes.get(seat.node)
            if node is None or not node.can_hold(seat.gpus):
                raise BooksError(
                    f"{decision.job} is placed on GPUs of {seat.node} that it cannot have"
                )
            node.held[decision.job] = list(seat.gpus)
            self.touch("node", seat.node)
        nodes = [seat.node for seat in decision.seats]
        gpus = sum(len(seat.gpus) for seat in decision.seats)
        gang = GangBook(attempt=decision.attempt, team=job.team, gpus=gpus, nodes=nodes)
        self.gangs[decision.job] = gang
        self.held[gang.team, gang.phase] += gpus
        self._use(gang.team, gpus)
        self.running[gang.team] += 1
        self.change_job(decision.job, waiting=False, cause="")
        self._touch_gang(decision.job, nodes)

    def turn(self, name: str, phase: str) -> None:
        """A gang is in another phase."""
        gang = self.gangs.get(name)
        if gang is not None:
            self.held[gang.team, gang.phase] -= gang.gpus
            gang.phase = phase
            self.held[gang.team, gang.phase] += gang.gpus
            self.levels_version += 1
            self.touch("gang", name)

    def unseat(self, decision: d.GangReleased) -> None:
        """A gang holds nothing any more; where its processes may live on, its GPUs stay out."""
        gang = self.gangs.pop(decision.job, None)
        if gang is None:
            raise BooksError(f"{decision.job} is released, but it holds nothing")
        self.held[gang.team, gang.phase] -= gang.gpus
        self._use(gang.team, -gang.gpus)
        self.running[gang.team] -= 1
        for name in gang.nodes:
            node = self.nodes.get(name)
            if node is None:
                continue
            gpus = node.held.pop(decision.job, [])
            if name in decision.lingering:
                node.lingering[f"{decision.job}#{decision.attempt}"] = gpus
        self._touch_gang(decision.job, gang.nodes)

    def _use(self, team: str, gpus: int) -> None:
        self.uses[team] += gpus
        self.changed_uses()

    def changed_uses(self) -> None:
        """Who uses how much, or is promised it, is another than before."""
        self.uses_version += 1
        self.levels_version += 1
        self.demand_version += 1

    def _touch_gang(self, job: str, nodes: Iterable[str]) -> None:
        self.touch("gang", job)
        for name in nodes:
            self.touch("node", name)
            self.recount(name)

    # --- reservations --------------------------------------------------------------------------

    def plan(self, name: str, plan: PlanBook | None) -> None:
        """Keep room for a job, other room than before, or none."""
        before = self.plans.pop(name, None)
        if plan is not None:
            self.plans[name] = plan
            self._plan_on(name, plan)
        for node in before.seats if before else ():
            if plan is None or node not in plan.seats:
                del self._planned_on[node][name]
        for node in {**(before.seats if before else {}), **(plan.seats if plan else {})}:
            self.recount(node)
        self.touch("plan", name)

    def _plan_on(self, name: str, plan: PlanBook) -> None:
        for node, gpus in plan.seats.items():
            self._planned_on.setdefault(node, {})[name] = gpus

    # --- nodes ---------------------------------------------------------------------------------

    def add_node(self, name: str, gpus: int) -> None:
        """A node belongs to the fleet, or has another number of GPUs than before."""
        node = self.nodes.get(name)
        if node is None:
            self.nodes[name] = NodeBook(gpus=gpus)
            self.capacity += gpus
        elif any(gpu >= gpus for held in node.held.values() for gpu in held):
            raise BooksError(f"{name} shrinks to {gpus} GPUs under a gang")
        else:
            self.capacity += gpus - node.gpus
            node.gpus = gpus
        self.after_node(name)

    def name_model(self, name: str, model: str) -> None:
        """What a node's GPUs are; empty for not said."""
        before = self.models.pop(name, None)
        if model:
            self.models[name] = ModelBook(model=model)
        if before != self.models.get(name):
            self.touch("model", name)

    def drop_node(self, name: str) -> None:
        """A node left the fleet, and with it what gangs still hold there."""
        node = self.nodes.pop(name, None)
        if node is None:
            return
        self.name_model(name, "")
        self.capacity -= node.gpus
        for job, gpus in node.held.items():
            gang = self.gangs[job]
            gang.gpus -= len(gpus)
            self.held[gang.team, gang.phase] -= len(gpus)
            self._use(gang.team, -len(gpus))
            self.touch("gang", job)
        self.after_node(name)

    def after_node(self, name: str) -> None:
        """Count a node again, and the capacity."""
        self.changed_uses()
        self.touch("node", name)
        self.recount(name)


# --- what each decision does -------------------------------------------------------------------


def _job_queued(books: Books, decision: d.JobQueued) -> None:
    spec = decision.spec
    job = JobBook(team=spec.team, gpus=spec.gpus, saves=spec.checkpoint is not None)
    books.add_job(decision.job, job)


def _wait_cause_changed(books: Books, decision: d.WaitCauseChanged) -> None:
    for name in decision.jobs:
        books.change_job(name, cause=str(decision.cause))


def _job_ended(books: Books, decision: d.JobFinished | d.JobRejected) -> None:
    books.drop_job(decision.job)


def _reservation_planned(books: Books, decision: d.ReservationPlanned) -> None:
    job = books.jobs.get(decision.job)
    if job is not None:
        seats = {seat.node: seat.gpus for seat in decision.seats}
        books.plan(decision.job, PlanBook(team=job.team, seats=seats))


def _member_ended(books: Books, decision: d.MemberEnded) -> None:
    node = books.nodes.get(decision.node)
    if node is not None and node.lingering.pop(f"{decision.job}#{decision.attempt}", []):
        books.after_node(decision.node)


def _node_added(books: Books, decision: d.NodeAdded) -> None:
    books.add_node(decision.node, decision.gpus)
    books.name_model(decision.node, decision.labels.get(MODEL, ""))


def _node_health_changed(books: Books, decision: d.NodeHealthChanged) -> None:
    node = books.nodes.get(decision.node)
    if node is not None:
        node.conditions = conditions.after(node.conditions, decision)
        books.after_node(decision.node)


def _node_service_changed(books: Books, decision: d.NodeServiceChanged) -> None:
    node = books.nodes.get(decision.node)
    if node is not None:
        node.open = decision.service is d.Service.OPEN
        books.after_node(decision.node)


def _gpu_withdrawn(books: Books, decision: d.GpuWithdrawn) -> None:
    node = books.nodes.get(decision.node)
    if node is not None and 0 <= decision.gpu < node.gpus and decision.gpu not in node.bad:
        node.bad.append(decision.gpu)
        books.after_node(decision.node)


def _gpu_returned(books: Books, decision: d.GpuReturned) -> None:
    node = books.nodes.get(decision.node)
    if node is not None and decision.gpu in node.bad:
        node.bad.remove(decision.gpu)
        books.after_node(decision.node)


def _team_changed(books: Books, decision: d.TeamChanged) -> None:
    terms = TeamTerms(
        parent=decision.parent,
        guaranteed=decision.guaranteed,
        borrow=decision.borrow,
        lend=decision.lend,
        weight=decision.weight,
        by_model=dict(sorted(decision.by_model.items())),
    )
    books.set_team(decision.team, terms)


FOLDS: Final[Mapping[type, Callable[[Books, Any], None]]] = {
    d.JobQueued: _job_queued,
    d.JobHeld: lambda books, x: books.change_job(x.job, held=True),
    d.JobReleased: lambda books, x: books.change_job(x.job, held=False),
    d.JobRequeued: lambda books, x: books.change_job(x.job, waiting=True, cause=""),
    d.JobFinished: _job_ended,
    d.JobRejected: _job_ended,
    d.WaitCauseChanged: _wait_cause_changed,
    d.GangPlaced: lambda books, x: books.seat(x),
    d.GangStarted: lambda books, x: books.turn(x.job, RUNNING),
    d.GangStartAborted: lambda books, x: books.turn(x.job, STOPPING),
    d.GangPreempted: lambda books, x: books.turn(x.job, STOPPING),
    d.GangStopping: lambda books, x: books.turn(x.job, STOPPING),
    d.GangReleased: lambda books, x: books.unseat(x),
    d.MemberEnded: _member_ended,
    d.ReservationPlanned: _reservation_planned,
    d.ReservationReleased: lambda books, x: books.plan(x.job, None),
    d.NodeAdded: _node_added,
    d.NodeDropped: lambda books, x: books.drop_node(x.node),
    d.NodeHealthChanged: _node_health_changed,
    d.NodeServiceChanged: _node_service_changed,
    d.GpuWithdrawn: _gpu_withdrawn,
    d.GpuReturned: _gpu_returned,
    d.TeamChanged: _team_changed,
}
