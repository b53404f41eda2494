"""The view `nodes`: one row a node, as it is now, with one letter for each of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gangline.events import decisions as d
from gangline.events.named_sql import load_sql
from gangline.projections import conditions
from gangline.projections.work import ReadModel, Unknown, Work, touched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gangline.projections.steps import Item

FREE: Final = "."
BAD: Final = "b"
STARTING: Final = "s"
RUNNING: Final = "r"
STOPPING: Final = "x"
LINGERING: Final = "l"
CLAIM: Final = 0
_SCHEDULER: Final = "scheduler"


@dataclass(slots=True, kw_only=True)
class NodeRow:
    """The columns of the table `node`.

    occupants: {phase, job, gpus} by `job#attempt`. claims: GPUs kept as they become free, by job.
    """

    cell: str
    node: str
    path: list[str]
    levels: list[str]
    gpus: int
    health: str = "well"
    conditions: list[str] = field(default_factory=list)
    service: str = "open"
    held: int = 0
    free: int = 0
    bad: int = 0
    gpu_states: str = ""
    occupants: dict[str, dict[str, Any]] = field(default_factory=dict)
    bad_gpus: list[int] = field(default_factory=list)
    claims: dict[str, int] = field(default_factory=dict)
    health_ms: int
    health_cause: str = ""
    until_ms: int = 0
    service_ms: int
    service_cause: str = ""
    service_by: str = ""
    deadline_ms: int = 0
    maintenance: dict[str, Any] = field(default_factory=dict)
    strikes: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    boot_id: str = ""
    address: str = ""
    agent_version: str = ""
    dropped: bool = False

    def letters(self) -> None:
        """Bring the letters and counts up to date."""
        states = [FREE] * self.gpus
        for gpu in self.bad_gpus:
            states[gpu] = BAD
        self.held = 0
        for occupant in self.occupants.values():
            for gpu in occupant["gpus"]:
                states[gpu] = occupant["phase"]
            if occupant["phase"] != LINGERING:
                self.held += len(occupant["gpus"])
        self.bad = len(self.bad_gpus)
        self.gpu_states = "".join(states)
        in_service = self.health == "well" and self.service == "open"
        unclaimed = max(0, states.count(FREE) - sum(self.claims.values()))
        self.free = unclaimed if in_service else 0


@dataclass(slots=True, kw_only=True)
class GangRow:
    """The columns of the table `node_gang`. attempt 0: a claim of the job, not a gang."""

    cell: str
    job: str
    attempt: int
    nodes: list[str]


@dataclass(slots=True)
class Fleet:
    """The rows that a run touches. gangs: by job and attempt. gone: gangs that left."""

    cell: str
    nodes: dict[str, NodeRow]
    gangs: dict[tuple[str, int], GangRow]
    changed: dict[str, None] = field(default_factory=dict)
    gone: dict[tuple[str, int], GangRow] = field(default_factory=dict)

    def node(self, name: str) -> NodeRow | None:
        """A node that is to change."""
        self.changed[name] = None
        return self.nodes.get(name)

    def add(self, decision: d.NodeAdded, at_ms: int) -> None:
        """A node belongs to the fleet; one that was known stays as it is otherwise."""
        row = self.node(decision.node)
        if row is None or row.dropped:
            row = NodeRow(
                cell=self.cell,
                node=decision.node,
                path=[],
                levels=[],
                gpus=0,
                health_ms=at_ms,
                service_ms=at_ms,
            )
            self.nodes[decision.node] = row
        row.path, row.levels = list(decision.path), list(decision.levels)
        row.gpus, row.labels = decision.gpus, dict(decision.labels)

    def place(self, decision: d.GangPlaced) -> None:
        """A gang holds GPUs."""
        key = (decision.job, decision.attempt)
        for seat in decision.seats:
            row = self.node(seat.node)
            if row is not None:
                row.occupants[_name(key)] = {
                    "phase": STARTING,
                    "job": decision.job,
                    "gpus": list(seat.gpus),
                }
        nodes = [seat.node for seat in decision.seats]
        self.gone.pop(key, None)
        self.gangs[key] = GangRow(
            cell=self.cell, job=decision.job, attempt=decision.attempt, nodes=nodes
        )

    def turn(self, job: str, attempt: int, phase: str) -> None:
        """A gang is in another phase."""
        gang = self.gangs.get((job, attempt))
        for name in gang.nodes if gang else ():
            row = self.node(name)
            if row is not None and _name((job, attempt)) in row.occupants:
                row.occupants[_name((job, attempt))]["phase"] = phase

    def release(self, decision: d.GangReleased) -> None:
        """A gang holds nothing any more, except where its processes may live on."""
        key = (decision.job, decision.attempt)
        gang = self.gangs.get(key)
        if gang is None:
            return
        for name in gang.nodes:
            row = self.node(name)
            if row is None:
                continue
            if name in decision.lingering and _name(key) in row.occupants:
                row.occupants[_name(key)]["phase"] = LINGERING
            else:
                row.occupants.pop(_name(key), None)
        gang.nodes = [name for name in gang.nodes if name in decision.lingering]
        self._forget_empty(key, gang)

    def member_ended(self, decision: d.MemberEnded) -> None:
        """What lingered is gone."""
        key = (decision.job, decision.attempt)
        row, gang = self.node(decision.node), self.gangs.get(key)
        occupant = row.occupants.get(_name(key)) if row is not None else None
        if row is None or gang is None or occupant is None or occupant["phase"] != LINGERING:
            return
        del row.occupants[_name(key)]
        gang.nodes = [name for name in gang.nodes if name != decision.node]
        self._forget_empty(key, gang)

    def claim(self, decision: d.ReservationPlanned) -> None:
        """GPUs stay with a claimant as they become free; a plan of another kind keeps none."""
        self.unclaim(decision.job)
        if decision.kind != "claim":
            return
        for seat in decision.seats:
            row = self.node(seat.node)
            if row is not None:
                row.claims[decision.job] = seat.gpus
        key = (decision.job, CLAIM)
        self.gone.pop(key, None)
        self.gangs[key] = GangRow(
            cell=self.cell,
            job=decision.job,
            attempt=CLAIM,
            nodes=[seat.node for seat in decision.seats],
        )

    def unclaim(self, job: str) -> None:
        """A claim is over, if there was one."""
        gang = self.gangs.get((job, CLAIM))
        if gang is None:
            return
        for name in gang.nodes:
            row = self.node(name)
            if row is not None:
                row.claims.pop(job, None)
        gang.nodes = []
        self._forget_empty((job, CLAIM), gang)

    def _forget_empty(self, key: tuple[str, int], gang: GangRow) -> None:
        if not gang.nodes:
            del self.gangs[key]
            self.gone[key] = gang


def _name(key: tuple[str, int]) -> str:
    return f"{key[0]}#{key[1]}"


def _dropped(row: NodeRow, _decision: d.NodeDropped, _at_ms: int) -> None:
    row.dropped, row.occupants, row.claims = True, {}, {}


def _booted(row: NodeRow, decision: d.NodeBooted, _at_ms: int) -> None:
    row.boot_id, row.address = decision.boot_id, decision.address
    row.agent_version = decision.agent_version


def _health_changed(row: NodeRow, decision: d.NodeHealthChanged, at_ms: int) -> None:
    row.conditions = conditions.after(row.conditions, decision)
    health = str(conditions.health_of(row.conditions))
    if row.health != health:
        row.health, row.health_ms = health, at_ms
    row.health_cause, row.until_ms = decision.cause, decision.until_ms
    if decision.strike or decision.cause == conditions.UNREADY:
        row.strikes += 1
    if conditions.QUARANTINE in conditions.ended(decision):
        row.strikes = 0


def _service_changed(row: NodeRow, decision: d.NodeServiceChanged, at_ms: int) -> None:
    if row.service != decision.service:
        row.service_ms = at_ms
    # Where the scheduler carries out what somebody asked for, whoever asked keeps standing there.
    if decision.by != _SCHEDULER or row.service != decision.service:
        row.service_by = decision.by
    row.service, row.service_cause = str(decision.service), decision.cause
    row.deadline_ms = decision.deadline_ms
    if decision.service is d.Service.OPEN:
        row.maintenance = {}


def _maintenance_announced(row: NodeRow, decision: d.MaintenanceAnnounced, _at_ms: int) -> None:
    row.maintenance = {
        "from_ms": decision.from_ms,
        "until_ms": decision.until_ms,
        "why": decision.why,
        "by": decision.by,
    }


def _withdrawn(row: NodeRow, decision: d.GpuWithdrawn, _at_ms: int) -> None:
    if decision.gpu not in row.bad_gpus and 0 <= decision.gpu < row.gpus:
        row.bad_gpus.append(decision.gpu)


def _returned(row: NodeRow, decision: d.GpuReturned, _at_ms: int) -> None:
    if decision.gpu in row.bad_gpus:
        row.bad_gpus.remove(decision.gpu)


_OF_NODES: Final[Mapping[type, Callable[[NodeRow, Any, int], None]]] = {
    d.NodeDropped: _dropped,
    d.NodeBooted: _booted,
    d.NodeHealthChanged: _health_changed,
    d.NodeServiceChanged: _service_changed,
    d.MaintenanceAnnounced: _maintenance_announced,
    d.GpuWithdrawn: _withdrawn,
    d.GpuReturned: _returned,
}
_OF_GANGS: Final[Mapping[type, Callable[[Fleet, Any], None]]] = {
    d.GangPlaced: lambda fleet, x: fleet.place(x),
    d.GangStarted: lambda fleet, x: fleet.turn(x.job, x.attempt, RUNNING),
    d.GangStartAborted: lambda fleet, x: fleet.turn(x.job, x.attempt, STOPPING),
    d.GangPreempted: lambda fleet, x: fleet.turn(x.job, x.attempt, STOPPING),
    d.GangStopping: lambda fleet, x: fleet.turn(x.job, x.attempt, STOPPING),
    d.GangReleased: lambda fleet, x: fleet.release(x),
    d.MemberEnded: lambda fleet, x: fleet.member_ended(x),
    d.ReservationPlanned: lambda fleet, x: fleet.claim(x),
    d.ReservationReleased: lambda fleet, x: fleet.unclaim(x.job),
}


class Nodes(ReadModel):
    """The read model of `nodes`."""

    name = "nodes"
    tables = ("node", "node_gang")
    unknown = Unknown.SKIP
    kinds = (d.NodeAdded, *_OF_NODES, *_OF_GANGS)
    sql = load_sql("gangline.projections", "nodes.sql")

    def apply(self, work: Work) -> Iterator[None]:
        """Fold a run of steps into the tables."""
        decisions = list(work.decisions(self))
        fleet = self._load(work, decisions)
        yield
        for item, decision in decisions:
            work.at = item
            fold(fleet, decision, item.at_ms)
        rows = [fleet.nodes[name] for name in fleet.changed if name in fleet.nodes]
        for row in rows:
            row.letters()
        work.write("write", rows)
        work.write("remove_gangs", list(fleet.gone.values()))
        work.write("write_gangs", list(fleet.gangs.values()))

    def _load(self, work: Work, decisions: list[tuple[Item, d.Decision]]) -> Fleet:
        gangs = work.load("load_gangs", GangRow, jobs=touched(decisions, "job"))
        names = dict.fromkeys(touched(decisions, "node"))
        names |= dict.fromkeys(name for gang in gangs for name in gang.nodes)
        names |= dict.fromkeys(_seat_nodes(decision for _, decision in decisions))
        nodes = work.load("load", NodeRow, nodes=list(names))
        return Fleet(
            work.cell,
            {row.node: row for row in nodes},
            {(row.job, row.attempt): row for row in gangs},
        )


def _seat_nodes(decisions: Iterable[d.Decision]) -> Iterable[str]:
    for decision in decisions:
        if isinstance(decision, (d.GangPlaced, d.ReservationPlanned)):
            for seat in decision.seats:
                yield seat.node


def fold(fleet: Fleet, decision: d.Decision, at_ms: int) -> None:
    """Change the rows as a decision says."""
    if isinstance(decision, d.NodeAdded):
        fleet.add(decision, at_ms)
    elif type(decision) in _OF_GANGS:
        _OF_GANGS[type(decision)](fleet, decision)
    else:
        row = fleet.node(decision.node)  # type: ignore[union-attr]
        if row is not None:
            _OF_NODES[type(decision)](row, decision, at_ms)
