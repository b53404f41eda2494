"""`gangline bench end-to-end`: from a submission's append to its assignment seen by an agent.

A scheduler runs as its own process on a real log. Here a thousand agents beat every ten seconds
and answer what they are told; jobs are submitted one after the other at a steady rate, and end as
soon as they have started. The time of a job is from the call that appends it, and from its answer,
to the moment at which the agents' reader has its assignment.

Between two submissions a floor is taken, where the bus has one: a record produced, committed and
consumed with nothing else around it. So both are measured in the same minute under the same load.
Before that, while nobody submits anything, what a thousand heartbeats cost the scheduler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.events import codec
from gangline.events import facts as f
from gangline.events.batch import AssignedMember, MemberPhase, NodeAssignment
from gangline.events.log import Message, Topic
from gangline.events.spec import Spec
from gangline.replay.measures.result import spread
from gangline.replay.workload import pod_fleet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangline.events.log import Log, Reader
    from gangline.replay.fleet_file import FleetNode

HEARTBEAT_S: Final = 10.0
BEATS_A_ROUND: Final = 100
TEAM: Final = "bench"
READY_WITHIN_S: Final = 120.0
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEndSettings:
    """agents: nodes that beat. jobs: so many, `rate` of them a second, of 1 to 8 GPUs.

    quiet_s: how long only heartbeats come, before the first job. The rate is 200 times that of the
    fleet which we plan for; a higher one would measure how long batches wait for each other.
    """

    agents: int = 1000
    jobs: int = 200
    rate: float = 5.0
    quiet_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What is measured beside the jobs, where it can be.

    cpu_s: CPU time that the scheduler has used so far. floor_s: time of one bare round on the bus.
    """

    cpu_s: Callable[[], float] | None = None
    floor_s: Callable[[], float] | None = None


class EndToEndError(Exception):
    """The bench did not come to its end; the message says what was waited for."""


def bench_end_to_end(
    log: Log,
    settings: EndToEndSettings,
    *,
    progress: Progress | None = None,
    gauges: Gauges | None = None,
) -> dict[str, Any]:
    """The JSON object of `gangline bench end-to-end`; a scheduler of the cell must run."""
    fleet = pod_fleet(settings.agents)
    log.append([_control(node) for node in fleet.admissions()])
    log.append([_control(f.TeamSet(team=TEAM, guaranteed=fleet.gpus))])
    agents = Agents(log, fleet.nodes)
    agents.start()
    try:
        agents.wait_for_first(log)
        quiet = _quiet(settings, gauges or Gauges())
        sent, floors = _submit_all(log, settings, progress, (gauges or Gauges()).floor_s)
        agents.wait_for(set(sent))
    finally:
        agents.stop()
    seen = agents.seen
    acknowledged = _spread(seen[job] - at.answered for job, at in sent.items())
    return {
        "agents": settings.agents,
        "jobs": settings.jobs,
        "jobs_per_s": settings.rate,
        "heartbeats_per_s": round(settings.agents / HEARTBEAT_S, 1),
        "heartbeats": agents.beats,
        **quiet,
        "submit_to_assignment_ms": _spread(seen[job] - at.called for job, at in sent.items()),
        "acknowledged_to_assignment_ms": acknowledged,
        **_against(floors, acknowledged),
    }


class _Sent(NamedTuple):
    """When a submission's append was called, and when it answered."""

    called: float
    answered: float


def _submit_all(
    log: Log,
    settings: EndToEndSettings,
    progress: Progress | None,
    floor_s: Callable[[], float] | None,
) -> tuple[dict[str, _Sent], list[float]]:
    """Submit at the rate, and take the floor half-way between; when, and the floors."""
    sent: dict[str, _Sent] = {}
    floors: list[float] = []
    began = time.monotonic()
    for number in range(settings.jobs):
        _sleep_until(began + number / settings.rate)
        job = f"bench-{number}"
        called = time.monotonic()
        log.append([_submission(job, gpus=1 + number % 8)])
        sent[job] = _Sent(called, time.monotonic())
        if floor_s is not None:
            _sleep_until(began + (number + 0.5) / settings.rate)
            floors.append(floor_s())
        if progress is not None:
            progress(number + 1)
    return sent, floors


def _sleep_until(due: float) -> None:
    time.sleep(max(0.0, due - time.monotonic()))


def _quiet(settings: EndToEndSettings, gauges: Gauges) -> dict[str, float]:
    """The part of a core that the scheduler takes while only heartbeats come."""
    if gauges.cpu_s is None:
        return {}
    used, began = gauges.cpu_s(), time.monotonic()
    time.sleep(settings.quiet_s)
    return {"heartbeat_cores": round((gauges.cpu_s() - used) / (time.monotonic() - began), 3)}


def _spread(seconds: Iterable[float]) -> dict[str, float]:
    """p50, p99 and the largest, in milliseconds."""
    times = sorted(round(each * 1e6) for each in seconds)
    result = spread(times, lambda microseconds: microseconds / 1000)
    return {name: result[name] for name in ("p50", "p99", "max")}


def _against(floors: list[float], ours: dict[str, float]) -> dict[str, dict[str, float]]:
    """The floor, and how many times it ours is; nothing where there was none."""
    if not floors:
        return {}
    floor = _spread(floors)
    over = {name: round(ours[name] / floor[name], 2) for name in ("p50", "p99")}
    return {"floor_ms": floor, "over_floor": over}


class Agents:
    """All agents of the fleet in two threads: one beats, one reads assignments and answers.

    seen: when each job's first assignment was read. beats: heartbeats so far.
    """

    def __init__(self, log: Log, nodes: Sequence[FleetNode]) -> None:
        self._log = log
        self._nodes = nodes
        self._reader: Reader = log.reader(dict(log.ends([Topic.ASSIGNMENTS])))
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._answered: set[tuple[str, str, str]] = set()
        self._threads = [
            threading.Thread(target=self._beat, name="beats", daemon=True),
            threading.Thread(target=self._listen, name="agents", daemon=True),
        ]
        self.seen: dict[str, float] = {}
        self.beats = 0

    def start(self) -> None:
        """Register all nodes, and begin to beat and to listen."""
        registered = [
            f.NodeRegistered(node=node.name, boot_id="bench", gpus=node.gpus)
            for node in self._nodes
        ]
        self._log.append([_node_fact(Topic.NODES, body.node, body) for body in registered])
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._reader.close()

    def wait_for_first(self, log: Log) -> None:
        """Submit one job and wait until it runs: then the scheduler leads and knows the fleet."""
        log.append([_submission("bench-first", gpus=1)])
        self.wait_for({"bench-first"})

    def wait_for(self, jobs: set[str]) -> None:
        """Wait until all these have been assigned; EndToEndError when that takes too long."""
        with self._changed:
            if not self._changed.wait_for(lambda: jobs <= self.seen.keys(), READY_WITHIN_S):
                missing = sorted(jobs - self.seen.keys())
                raise EndToEndError(
                    f"{len(missing)} of {len(jobs)} jobs were not assigned within "
                    f"{READY_WITHIN_S:.0f} s, {missing[0]} among them"
                )

    def _beat(self) -> None:
        """Beat for one node after the other, so that all have in ten seconds."""
        size = max(1, len(self._nodes) // BEATS_A_ROUND)
        rounds = -(-len(self._nodes) // size)
        count = 0
        while not self._stop.wait(HEARTBEAT_S / rounds):
            first = count % rounds * size
            count += 1
            self._log.append(
                [
                    _node_fact(
                        Topic.HEARTBEATS,
                        node.name,
                        f.NodeHeartbeat(node=node.name, boot_id="bench", sequence=count),
                    )
                    for node in self._nodes[first : first + size]
                ]
            )
            self.beats += size

    def _listen(self) -> None:
        while not self._stop.is_set():
            records = self._reader.poll(0.05)
            now = time.monotonic()
            answers: list[Message] = []
            for record in records:
                body = codec.decode(record.value).body
                if isinstance(body, NodeAssignment):
                    answers += self._answer(body, now)
            if answers:
                self._log.append(answers)

    def _answer(self, assignment: NodeAssignment, now: float) -> list[Message]:
        """Note whose members are there, and say what an agent would."""
        answers = []
        for member in assignment.members:
            with self._changed:
                self.seen.setdefault(member.job, now)
                self._changed.notify_all()
            key = (member.job, assignment.node, member.phase.value)
            if key not in self._answered:
                self._answered.add(key)
                answers += [
                    _node_fact(Topic.NODES, assignment.node, body)
                    for body in _answers(assignment.node, member)
                ]
        return answers


def _answers(node: str, member: AssignedMember) -> list[Any]:
    """What an agent says of a member in this phase; its program ends at once."""
    job, attempt = member.job, member.attempt
    if member.phase is MemberPhase.PREPARE:
        return [f.MemberReady(node=node, job=job, attempt=attempt)]
    if member.phase is MemberPhase.RUN:
        started = f.MemberStarted(node=node, job=job, attempt=attempt)
        return [started, f.MemberExited(node=node, job=job, attempt=attempt, code=0)]
    return []


_IDS = iter(range(1 << 62))


def _message(topic: str, key: str, body: Any, *, name: str, actor: str) -> Message:  # noqa: ANN401
    value = codec.stated(body, id=name, actor=actor)
    return Message(topic=topic, key=key.encode(), value=value)


def _control(body: Any) -> Message:  # noqa: ANN401 - any fact of operators
    name = f"control-{next(_IDS)}"
    return _message(Topic.CONTROL, name, body, name=name, actor="operator:bench")


def _submission(job: str, *, gpus: int) -> Message:
    body = f.JobSubmitted(job=job, spec=Spec(team=TEAM, gpus=gpus))
    return _message(Topic.JOBS, job, body, name=job, actor="user:bench")


def _node_fact(topic: str, node: str, body: Any) -> Message:  # noqa: ANN401 - any fact of agents
    return _message(topic, node, body, name=f"{node}-{next(_IDS)}", actor=f"node:{node}")
