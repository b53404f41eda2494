"""A small cell to which hypothesis does whatever it likes, in the words of scenario files.

Each rule says one line of a scenario and plays it; the nine invariants are checked after every
step of the core. In between come facts that no agent may state: of attempts that are over or to
come, of nodes that are no part of the gang, of jobs that nobody knows. At the end everything is
healed, time passes, what can run must have run, the log is read again, and a checker that shares
nothing with the core judges every decision. A failure prints the whole story, which is a scenario
file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gangline.events import decisions as d
from gangline.events import facts as f
from gangline.replay.scenario import ScenarioRun
from gangline.replay.scenario_grammar import Reading
from tests.support.played import judged, stuck

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gangline.replay.core_port import Step

QUIETLY: Final = (d.InputRejected, d.WaitCauseChanged, d.QueueConsidered)
"""What may be decided though nothing has happened: what is refused, and causes that were due."""

NUMBERS: Final = st.integers(0, 11)
FLEETS: Final = st.sampled_from([(1, 1, 2), (1, 2, 2), (2, 1, 2), (2, 2, 1), (1, 1, 3)])
PAUSES: Final = st.sampled_from(["1s", "10s", "40s", "1m", "5m", "10m", "30m", "2h"])
SOON: Final = st.sampled_from(["0s", "10s", "1m", "3m", "10m", "15m"])
AWAY: Final = st.sampled_from(["10s", "1m", "5m", "30m"])
CLASSES: Final = st.sampled_from(["low", "normal", "normal", "high", "urgent"])


def maybe(name: str, *values: object) -> st.SearchStrategy[str]:
    """One of some `name=value`, or nothing, which is the simplest."""
    return st.sampled_from(["", *(f" {name}={value}" for value in values)])


def options(*choices: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Several of them, one after another."""
    return st.tuples(*choices).map("".join)


POLICY: Final = options(
    st.sampled_from([" min_runtime=0s", " min_runtime=0s", " min_runtime=1m", ""]),
    maybe("start_timeout", "30s"),
    maybe("hold_after", 2),
    maybe("quarantine_after", 2, 100),
    maybe("preemption_grace", "0s", "5m"),
    maybe("large_gang_wait_bound", "30m"),
    maybe("large_gang_gpus", 8),
)
TEAM: Final = options(maybe("borrow", "none", 2), maybe("lend", "none", 2), maybe("weight", 3))
SPEC: Final = options(
    maybe("limit", "5m", "30m", "3h"),
    st.sampled_from([" checkpoint=1m", " checkpoint=1m", " checkpoint=10m", ""]),
    maybe("grace", "0s", "10s", "5m"),
    maybe("topology", "required:block", "required:node", "preferred:block"),
    maybe("gpus_per_node", 1, 2),
    maybe("retries", 0, 1),
    maybe("preemptible", "no"),
    st.sampled_from(["", "", " exits=1 exits_after=4m", " exits=0 exits_after=20m"]),
)


class Wish(NamedTuple):
    """A job that somebody wants. size: which of the sizes that the fleet makes sensible."""

    team: str
    size: int
    minutes: int
    job_class: str
    spec: str
    model: str


class Guarantees(NamedTuple):
    """What two teams are guaranteed of two models, in quarters of what they are in all."""

    a: tuple[int, int]
    b: tuple[int, int]


QUARTERS: Final = st.sampled_from([(4, 0), (0, 0), (2, 2), (0, 4), (3, 1)])
MODELS: Final = st.one_of(st.none(), st.builds(Guarantees, a=QUARTERS, b=QUARTERS))
"""None: the fleet is of one kind of GPU."""


JOBS: Final = st.builds(
    Wish,
    team=st.sampled_from("aabbp"),
    size=NUMBERS,
    minutes=st.sampled_from([180, 60, 10, 1]),
    job_class=CLASSES,
    spec=SPEC,
    model=st.sampled_from(["", "x", "y"]),
)


class Cell(RuleBasedStateMachine):
    """The cell, and the story so far. heal: what is said before the long quiet."""

    def __init__(self) -> None:
        super().__init__()
        self.run = ScenarioRun("story")
        self.reading = Reading("story")
        self.said: list[str] = []
        self.heal: dict[str, None] = {}
        self.jobs: list[str] = []
        self.nodes: list[str] = []
        self.gpus = 0
        self.spines = 0
        self.models = False

    def say(self, line: str) -> None:
        """Add a line to the story, and play it."""
        self.said.append(line)
        command = self.reading.take(line)
        assert command is not None
        self.run.do(command)

    @initialize(
        shape=FLEETS,
        gpus=st.sampled_from([2, 4]),
        policy=POLICY,
        team=TEAM,
        models=MODELS,
        jobs=st.lists(JOBS, min_size=5, max_size=9),
    )
    def begin(
        self,
        shape: tuple[int, int, int],
        gpus: int,
        policy: str,
        team: str,
        models: Guarantees | None,
        jobs: list[Wish],
    ) -> None:
        """A small fleet at work; three teams, of which one is the parent of another."""
        self.gpus = gpus
        self.models = models is not None
        self._grow("fleet", *shape, model="x")
        if models is not None:
            self._grow("fleet", 1, 1, 1, model="y")
        total = gpus * len(self.nodes)
        if policy:
            self.say(f"policy{policy}")
        self.say(f"team p guaranteed={total // 2}")
        self.say(f"team a guaranteed={total // 4} parent=p{team}")
        self.say(f"team b guaranteed={total // 2}")
        if models is not None:
            for name, (x, y) in models._asdict().items():
                part = total // (4 if name == "a" else 2)
                self.say(f"team {name} guaranteed.x={part * x // 4} guaranteed.y={part * y // 4}")
        self.submit_and_wait(jobs, "3m")

    def _grow(self, verb: str, spines: int, blocks: int, nodes: int, *, model: str) -> None:
        self.nodes += [
            f"s{self.spines + spine}-b{block}-n{node}"
            for spine in range(spines)
            for block in range(blocks)
            for node in range(nodes)
        ]
        self.spines += spines
        kind = f" model={model}" if self.models else ""
        self.say(f"{verb} spines={spines} blocks={blocks} nodes={nodes} gpus={self.gpus}{kind}")

    # --- users ------------------------------------------------------------------------------------

    @rule(jobs=st.lists(JOBS, min_size=1, max_size=3))
    def submit(self, jobs: list[Wish]) -> None:
        """Jobs of any size, most of which fit."""
        for wish in jobs:
            self._submit(wish)

    @rule(jobs=st.lists(JOBS, min_size=1, max_size=3), pause=SOON)
    def submit_and_wait(self, jobs: list[Wish], pause: str) -> None:
        """The same, and they run for a while."""
        self.submit(jobs)
        self.say(f"run {pause}")

    def _submit(self, wish: Wish) -> None:
        job = f"j{len(self.jobs)}"
        most = self.gpus * len(self.nodes)
        sizes = (self.gpus, 2 * self.gpus, most // 2, 1, 2, self.gpus, most // 2, most, most + 1)
        gpus = max(1, sizes[wish.size % len(sizes)])
        self.jobs.append(job)
        model = f" model={wish.model}" if wish.model and self.models else ""
        self.say(
            f"submit {job} team={wish.team} gpus={gpus} runtime={wish.minutes}m"
            f" priority={wish.job_class}{wish.spec}{model}"
        )

    @rule(team=st.sampled_from("ab"), job=NUMBERS)
    def submit_after(self, team: str, job: int) -> None:
        """A job that waits for another."""
        name = f"j{len(self.jobs)}"
        self.say(f"submit {name} team={team} gpus=1 runtime=1m after={self._job(job)}")
        self.jobs.append(name)

    @rule(verb=st.sampled_from(["cancel", "hold", "release"]), job=NUMBERS, pause=SOON)
    def ask(self, verb: str, job: int, pause: str) -> None:
        """A user wants something of a job, in whatever state it is."""
        self.say(f"run {pause}")
        self.say(f"{verb} {self._job(job)}")

    @rule(job=NUMBERS, job_class=CLASSES, pause=SOON)
    def change_priority(self, job: int, job_class: str, pause: str) -> None:
        """A job gets another class."""
        self.say(f"run {pause}")
        self.say(f"priority {self._job(job)} {job_class}")

    def _job(self, number: int) -> str:
        return self.jobs[number % len(self.jobs)] if self.jobs else "nobody"

    def _node(self, number: int) -> str:
        return self.nodes[number % len(self.nodes)]

    # --- time, operators, machines ----------------------------------------------------------------

    @rule(pause=PAUSES)
    def wait(self, pause: str) -> None:
        """Time passes."""
        self.say(f"run {pause}")

    @rule(verb=st.sampled_from(["cordon", "drain", "uncordon"]), node=NUMBERS, pause=SOON)
    def close(self, verb: str, node: int, pause: str) -> None:
        """A node is closed to new work, emptied, or opened again."""
        self.say(f"run {pause}")
        late = " deadline=1m" if verb == "drain" and node % 2 else ""
        self.say(f"{verb} {self._node(node)}{late}")
        self.heal[f"uncordon {self._node(node)}"] = None

    @rule(node=NUMBERS, at=st.sampled_from(["0s", "5m", "1h"]))
    def maintain(self, node: int, at: str) -> None:
        """A window is announced."""
        self.say(f"maintenance {self._node(node)} at={at} for=10m")

    @rule(team=st.sampled_from("abp"), guaranteed=NUMBERS, pause=SOON)
    def change_quota(self, team: str, guaranteed: int, pause: str) -> None:
        """A guarantee changes under use."""
        self.say(f"run {pause}")
        self.say(f"team {team} guaranteed={guaranteed}")

    @precondition(lambda self: self.models)
    @rule(team=st.sampled_from("abp"), model=st.sampled_from("xy"), guaranteed=NUMBERS, pause=SOON)
    def change_quota_of_a_model(self, team: str, model: str, guaranteed: int, pause: str) -> None:
        """A guarantee of a model changes under use, or is refused as more than there is in all."""
        self.say(f"run {pause}")
        self.say(f"team {team} guaranteed.{model}={guaranteed}")

    @precondition(lambda self: self.spines < 4)
    @rule(model=st.sampled_from("xy"))
    def grow(self, model: str) -> None:
        """A spine of one node joins."""
        self._grow("join", 1, 1, 1, model=model)

    @rule(verb=st.sampled_from(["fail", "partition"]), node=NUMBERS, away=AWAY, pause=SOON)
    def lose(self, verb: str, node: int, away: str, pause: str) -> None:
        """A machine dies, or cannot be reached."""
        self.say(f"run {pause}")
        self.say(f"{verb} {self._node(node)} for={away}")

    @rule(node=NUMBERS, gpu=NUMBERS, pause=SOON)
    def break_gpu(self, node: int, gpu: int, pause: str) -> None:
        """A GPU is out."""
        self.say(f"run {pause}")
        self.say(f"fault {self._node(node)} gpu={gpu % self.gpus} kind=xid")

    @rule(node=NUMBERS, ready=st.sampled_from(["10s", "1m", "never"]))
    def slow(self, node: int, ready: str) -> None:
        """A node is ready late."""
        self.say(f"slow {self._node(node)} ready={ready}")
        self.heal[f"slow {self._node(node)} ready=0s"] = None

    @rule(what=st.sampled_from(["crash", "crash", "stop for=10s", "stop for=10m"]), pause=SOON)
    def behead(self, what: str, pause: str) -> None:
        """A leader dies, or nobody leads for a while."""
        self.say(f"run {pause}")
        self.say(f"scheduler {what}")

    @rule(mode=st.sampled_from(["normal", "duplicate", "reorder"]))
    def deliver(self, mode: str) -> None:
        """Facts come twice, late across partitions, or as they should."""
        self.say(f"log {mode}")

    @rule(topic=st.sampled_from(["jobs", "nodes", "control"]))
    def garble(self, topic: str) -> None:
        """Bytes that nobody can read."""
        self.say(f"garbage topic={topic}")

    # --- facts that no agent may state ------------------------------------------------------------

    @rule(job=NUMBERS, node=NUMBERS, kind=NUMBERS)
    def lie_as_a_stranger(self, job: int, node: int, kind: int) -> None:
        """A fact of the present attempt from a node that has no part in it."""
        name, attempt, held = self._gang(job)
        strangers = [one for one in self.nodes if one not in held]
        if strangers:
            where = strangers[node % len(strangers)]
            self._forge(where, FORGED[kind % len(FORGED)](where, name, attempt))

    @rule(
        job=NUMBERS, node=NUMBERS, shift=st.sampled_from([-2, -1, 1, 7]), kind=NUMBERS, pause=SOON
    )
    def lie_of_another_time(self, job: int, node: int, shift: int, kind: int, pause: str) -> None:
        """A fact of an attempt that is over or to come, from a node that the gang has or had."""
        self.say(f"run {pause}")
        name, attempt, held = self._gang(job)
        able = held or self.nodes
        where = able[node % len(able)]
        lingering = {gpu[0] for gpu in self.run.rules.model.lingering}
        if where not in lingering:  # else it may be the last sign that is waited for
            self._forge(where, FORGED[kind % len(FORGED)](where, name, attempt + shift))

    def _gang(self, number: int) -> tuple[str, int, list[str]]:
        """A job, its last attempt, and the nodes of that; those that hold GPUs come first."""
        known = self.run.rules.model.jobs
        holding = [name for name in self.jobs if name in known and known[name].holds]
        name = holding[number % len(holding)] if holding and number % 4 else self._job(number)
        if name not in known:
            return name, 1, []
        return name, known[name].attempt, [seat.node for seat in known[name].seats]

    def _forge(self, node: str, body: Any) -> None:
        world = self.run.world
        world.flush()
        self.said.append(f"# {node} states {body}")
        before = len(world.steps)
        world.log.append_node(node, body, now_ms=world.now_ms)
        world.flush()
        if world.leader.up:
            _only_refused(world.steps[before:])

    # --- the end ----------------------------------------------------------------------------------

    def teardown(self) -> None:
        """All is healed and time passes: what can run has run, and the log reads the same."""
        try:
            if self.nodes:
                self._end()
        finally:
            note("\n".join(self.said))

    def _end(self) -> None:
        for line in ["log normal", "run 2h", *self.heal, "run 1s"]:
            self.say(line)
        for job in self.jobs:
            self.say(f"release {job}")
        self.say("run 30d")
        self.run.finish()
        assert stuck(self.run, self.jobs) == []
        assert judged(self.run) == []


def _only_refused(steps: Sequence[Step]) -> None:
    decided = [one for step in steps for one in step.decisions]
    assert [one for one in decided if not isinstance(one, QUIETLY)] == []
    assert any(isinstance(one, d.InputRejected) for one in decided)


FORGED: Final[Sequence[Callable[[str, str, int], Any]]] = (
    lambda node, job, attempt: f.MemberReady(node=node, job=job, attempt=attempt),
    lambda node, job, attempt: f.MemberStarted(node=node, job=job, attempt=attempt),
    lambda node, job, attempt: f.MemberExited(node=node, job=job, attempt=attempt, code=0),
    lambda node, job, attempt: f.MemberExited(
        node=node, job=job, attempt=attempt, code=1, reason="infrastructure"
    ),
    lambda node, job, attempt: f.CheckpointSaved(
        node=node, job=job, attempt=attempt, step=9, path="x", productive_ms=10**9
    ),
    lambda node, _job, _attempt: f.FaultDetected(node=node, gpu=99, fault="xid"),
)
