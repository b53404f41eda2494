"""Small worlds for tests of the core: what is not said has a sane default.

A `World` is a cell on the real core. Each of its steps is also folded into a second state, packed
into bytes and kept, so that every test of this folder proves as well that folding decisions gives
what deciding gave, and that every decision can be written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, get_args

from gangline.events import codec
from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.events.batch import Edge
from gangline.events.decisions import Seat, WaitCause
from gangline.events.envelope import Event
from gangline.events.spec import CheckpointSpec, JobClass, Spec, Topology, TopologyKind
from gangline.scheduler import core
from gangline.scheduler.core.entities import Job, Node, Team
from gangline.scheduler.core.fleet import bits
from gangline.scheduler.core.inputs import Fact

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

STOPPED: Final = {"code": 143, "signal": 15, "reason": "stopped"}
"""What a member says that ended on order."""
DAY: Final = 24 * HOUR
START: Final = 1_000 * DAY
TOPICS: Final[Mapping[type, str]] = {
    **dict.fromkeys(get_args(f.JobFact), "jobs"),
    **dict.fromkeys(get_args(f.ControlFact), "control"),
    **dict.fromkeys(get_args(f.NodeFact), "nodes"),
}
_MOST_WAKES: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Gang:
    """A gang that runs when the world begins. on: its nodes. ran_ms: since when."""

    name: str
    on: tuple[str, ...]
    ran_ms: int
    spec: Spec


class Inputs(NamedTuple):
    """What one step was given."""

    facts: tuple[Fact, ...]
    edges: tuple[Edge, ...]
    now_ms: int
    caught_up: bool


def spec(gpus: int = 8, *, team: str = "a", **fields: Any) -> Spec:
    """A job's spec. level: a required level. saves: that it checkpoints each minute."""
    level = fields.pop("level", "")
    if level:
        fields["topology"] = Topology(kind=TopologyKind.REQUIRED, level=level)
    if fields.pop("saves", False):
        fields["checkpoint"] = CheckpointSpec(interval_ms=MINUTE)
    return Spec(team=team, gpus=gpus, **fields)


def submitted(job: str, gpus: int = 8, **fields: Any) -> f.JobSubmitted:
    """Somebody asks for a job."""
    return f.JobSubmitted(job=job, spec=spec(gpus, **fields))


def gang(
    name: str, *, on: str | Sequence[str], gpus: int = 8, ran_ms: int = HOUR, **fields: Any
) -> Gang:
    """A gang that runs already, its GPUs split evenly over its nodes."""
    nodes = (on,) if isinstance(on, str) else tuple(on)
    return Gang(name=name, on=nodes, ran_ms=ran_ms, spec=spec(gpus, **fields))


def crowd(gangs: Sequence[Any], *, nodes: int, gpus: int) -> World:
    """A cell with those of the gangs that find room on their one node.

    Of each: its GPUs, its node, its class, the minutes that it has run, whether it saves, and
    perhaps whether it may be preempted.
    """
    room, running = [gpus] * nodes, []
    for index, (wanted, node, job_class, minutes, saves, *preemptible) in enumerate(gangs):
        if room[node] >= wanted:
            room[node] -= wanted
            running.append(
                gang(
                    f"v{index}",
                    on=f"n{node}",
                    gpus=wanted,
                    ran_ms=minutes * MINUTE,
                    job_class=job_class,
                    saves=saves,
                    preemptible=all(preemptible),
                )
            )
    return world(nodes=nodes, gpus=gpus, running=running, min_runtime=0)


def team(name: str = "a", guaranteed: int | None = None, **fields: Any) -> f.TeamSet:
    """A team as an operator sets it."""
    return f.TeamSet(team=name, guaranteed=guaranteed, **fields)


def admitted(node: str, path: str = "s0/b0", gpus: int = 8, **labels: str) -> f.NodeAdmitted:
    """A node enters the fleet."""
    return f.NodeAdmitted(
        node=node, path=tuple(path.split("/")), levels=("spine", "block"), gpus=gpus, labels=labels
    )


def silent(node: str, at_ms: int) -> Edge:
    """A node is not heard any more."""
    return Edge(kind="silent", node=node, at_ms=at_ms)


def heard(node: str, at_ms: int) -> Edge:
    """A node is heard again."""
    return Edge(kind="heard", node=node, at_ms=at_ms)


def kinds(decisions: Sequence[object]) -> list[str]:
    """The decisions' names, without those that only tell what was found out and moved nothing."""
    names = [type(one).__name__ for one in decisions]
    return [name for name in names if name not in {"WaitCauseChanged", "QueueConsidered"}]


def only(decisions: Sequence[Any], kind: type) -> Any:
    """The one decision of a kind."""
    (found,) = [one for one in decisions if type(one) is kind]
    return found


def of_kind(decisions: Sequence[Any], kind: type) -> list[Any]:
    """All decisions of a kind."""
    return [one for one in decisions if type(one) is kind]


@dataclass(kw_only=True)
class World:
    """A cell, its time, and everything that was decided in it."""

    now_ms: int = START
    state: core.State = field(default_factory=core.new_state)
    folded: core.State = field(default_factory=core.new_state)
    inputs: list[Inputs] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)

    # --- what happens -----------------------------------------------------------------------------

    def fact(self, body: Any, *, actor: str = "") -> Fact:
        """A body as it would stand in its topic."""
        topic = TOPICS[type(body)]
        self.offsets[topic] = offset = self.offsets.get(topic, -1) + 1
        said_by = {"jobs": "user:ann", "control": "operator:ops"}.get(topic)
        envelope = codec.envelope_for(
            body, id=f"{topic}-{offset}", actor=actor or said_by or f"node:{body.node}"
        )
        return Fact(topic, 0, offset, self.now_ms, Event(envelope=envelope, body=body))

    def step(self, *bodies: Any, edges: Sequence[Edge] = (), caught_up: bool = True) -> list[Any]:
        """One step, now."""
        facts = [body if isinstance(body, Fact) else self.fact(body) for body in bodies]
        return self.take(Inputs(tuple(facts), tuple(edges), self.now_ms, caught_up))

    def take(self, given: Inputs) -> list[Any]:
        """One step of recorded inputs; what it decided is folded too, and must come to the same."""
        self.now_ms = given.now_ms
        decisions = core.step(
            self.state,
            given.facts,
            edges=given.edges,
            now_ms=given.now_ms,
            caught_up=given.caught_up,
        )
        self.inputs.append(given)
        self._fold(decisions)
        return decisions

    def _fold(self, decisions: Sequence[Any]) -> None:
        self.packed += [codec.pack(one).body for one in decisions]
        core.fold(self.folded, list(decisions), now_ms=self.now_ms)
        assert core.state_digest(self.folded) == core.state_digest(self.state)

    def force(self, *decisions: Any) -> None:
        """Let recorded decisions be so, whatever the core would have decided."""
        core.fold(self.state, list(decisions), now_ms=self.now_ms)
        self._fold(decisions)

    def wait(self, ms: int) -> list[Any]:
        """Let time pass, with a step whenever the core wants one, and one at the end."""
        until_ms, decisions = self.now_ms + ms, []
        for _ in range(_MOST_WAKES):
            wake = core.next_wake(self.state)
            if wake is None or wake > until_ms:
                break
            self.now_ms = max(self.now_ms, wake)
            decisions += self.step()
        else:
            raise AssertionError("the core wants to be woken without end")
        self.now_ms = until_ms
        return decisions + self.step()

    def later(self, ms: int) -> World:
        """The same world, later, without a step."""
        self.now_ms += ms
        return self

    def run(self, gang_: Gang) -> None:
        """Let a gang run already, on the lowest free GPUs of its nodes."""
        each = gang_.spec.gpus // len(gang_.on)
        seats = tuple(
            Seat(node=name, gpus=bits(self.node(name).avail)[:each], first_rank=each * index)
            for index, name in enumerate(gang_.on)
        )
        number = self.state.cell.next_number
        self.force(
            d.JobQueued(
                job=gang_.name,
                number=number,
                spec=gang_.spec,
                submitted_ms=self.now_ms,
                submitted_at="",
            ),
            d.GangPlaced(
                job=gang_.name, attempt=1, seats=seats, level="", crossed=len(seats), borrowed=0
            ),
            d.MembersReady(job=gang_.name, attempt=1, nodes=gang_.on),
            d.GangStarted(job=gang_.name, attempt=1, resumed_ms=0),
        )

    # --- what agents say --------------------------------------------------------------------------

    def ready(self, job: str, *nodes: str) -> list[Any]:
        """Members are ready: all of them, or those on these nodes."""
        attempt = self.job(job).attempt
        return self.step(
            *(
                f.MemberReady(node=node, job=job, attempt=attempt, address=node, port=7)
                for node in nodes or self.members(job)
            )
        )

    def exits(self, job: str, *nodes: str, **said: Any) -> list[Any]:
        """Members are out: all that still live, or those on these nodes."""
        ended = {end.node for end in self.job(job).ended}
        live = nodes or [node for node in self.members(job) if node not in ended]
        return self.step(*(self.exited(job, node, **said) for node in live))

    def exited(self, job: str, node: str, **said: Any) -> f.MemberExited:
        """The fact that a member of the present attempt is out."""
        said = {"code": 0, "attempt": self.job(job).attempt, **said}
        return f.MemberExited(node=node, job=job, **said)

    def saved(self, job: str, productive_ms: int, **said: Any) -> f.CheckpointSaved:
        """The fact that rank 0's member has saved."""
        said = {"node": self.members(job)[0], "step": productive_ms, "path": "/c", **said}
        attempt = self.job(job).attempt
        return f.CheckpointSaved(job=job, attempt=attempt, productive_ms=productive_ms, **said)

    # --- how things stand -------------------------------------------------------------------------

    def job(self, name: str) -> Job:
        """A live job."""
        return self.state.jobs[name]

    def node(self, name: str) -> Node:
        """A node."""
        return self.state.nodes[name]

    def team(self, name: str) -> Team:
        """A team."""
        return self.state.teams[name]

    def state_of(self, job: str) -> str:
        """A live job's state, or how an ended one ended; empty when there is none such."""
        done = self.state.done.get(job)
        return core.job_state(self.state, job) or (done.outcome if done is not None else "")

    def members(self, job: str) -> list[str]:
        """The nodes of a gang in rank order."""
        return [seat.node for seat in self.job(job).seats]

    def nodes_of(self, job: str) -> set[str]:
        """The nodes of a gang."""
        return set(self.members(job))

    def cause(self, job: str) -> WaitCause:
        """Why a job waits."""
        return core.explain(self.state, job, now_ms=self.now_ms)[0]

    def refusals(self, *bodies: Any) -> list[str]:
        """The reasons for which these facts are refused."""
        return [one.reason for one in of_kind(self.step(*bodies), d.InputRejected)]


def world(
    *,
    nodes: int | Mapping[str, int] = 2,
    gpus: int = 8,
    teams: Sequence[f.TeamSet] = (),
    running: Sequence[Gang] = (),
    **policy: int,
) -> World:
    """A cell with nodes n0, n1 … (so many of each path), teams, and gangs that run already.

    Without teams there is `a`, to which the whole fleet is guaranteed.
    """
    paths = {"s0/b0": nodes} if isinstance(nodes, int) else nodes
    where = [path for path, count in paths.items() for _ in range(count)]
    begun_ms = max((one.ran_ms for one in running), default=0)
    made = World(now_ms=START - begun_ms)
    made.step(*(admitted(f"n{i}", path, gpus) for i, path in enumerate(where)))
    made.step(*(teams or [team("a", gpus * len(where))]))
    if policy:
        made.step(f.PolicySet(values=policy))
    for one in sorted(running, key=lambda gang_: -gang_.ran_ms):
        made.now_ms = START - one.ran_ms
        made.run(one)
    made.now_ms = START
    return made


URGENT, HIGH, NORMAL, LOW = JobClass.URGENT, JobClass.HIGH, JobClass.NORMAL, JobClass.LOW


def two_members(**fields: Any) -> World:
    """A gang on two of three nodes that runs already."""
    return world(nodes=3, running=[gang("j", on=["n0", "n1"], gpus=16, **fields)])
