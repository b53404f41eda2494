"""What a fork of a history needs of the real one: the state then, and what happened afterwards.

What came from outside happens again at the same times: submissions, requests, operators' facts, and
what became of machines. What programs do is known from how they ended: a job's productive work, and
its exit code where it failed by itself. Of a job that never ended in this history, plans'
assumptions hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gangline.agents.simulated_gang import Program
from gangline.events import decisions as d
from gangline.events.log import Topic, TopicPartition
from gangline.replay.history import steps
from gangline.scheduler import core
from gangline.scheduler.follower import Follower, unpack_all
from gangline.scheduler.intake import to_fact

if TYPE_CHECKING:
    from gangline.replay.history import Source
    from gangline.replay.timetravel import When
    from gangline.scheduler.batches import RecordedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that happened to a machine. gpu: -1 for all of it; for_ms: None for good."""

    at_ms: int
    node: str
    gpu: int = -1
    kind: str = ""
    mended: bool = False
    for_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A fact that a service or an operator stated."""

    at_ms: int
    topic: str
    body: Any


@dataclass(slots=True, kw_only=True)
class Past:
    """A history from a moment on. chunks: the state then. after: decisions with their times.

    asked: what services and operators stated afterwards. work_ms, codes: of programs that ended by
    themselves. suspect_after_ms: then, as nodes were dead for so long before they were called so.
    """

    at_ms: int
    seq: int
    until_ms: int
    chunks: list[bytes]
    suspect_after_ms: int
    after: list[tuple[int, d.Decision]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    work_ms: dict[str, int] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)

    def program(self, job: str, assumed_ms: int) -> Program:
        """What a job really does, as far as its end tells."""
        return Program(runtime_ms=self.work_ms.get(job, assumed_ms), code=self.codes.get(job, 0))


def read_past(source: Source, when: When, *, until_ms: int | None = None) -> Past:
    """Fold up to a moment, and gather what happened from there on, to the end of the history."""
    follower = Follower(core)
    recorded = steps(source)
    rest: list[RecordedStep] = []
    for step in recorded:
        if not when.is_after(step):
            rest.append(step)
            break
        follower.fold(step)
    rest.extend(recorded)
    decided_ms = 0 if follower.link is None else follower.link.now_ms
    at_ms = max(decided_ms, when.at_ms or 0)
    end_ms = max(at_ms, rest[-1].batch.now_ms if rest else at_ms)
    past = Past(
        at_ms=at_ms,
        seq=0 if follower.link is None else follower.link.seq,
        until_ms=end_ms if until_ms is None else until_ms,
        chunks=list(core.dump(follower.state)),
        suspect_after_ms=core.policy_value(follower.state, "suspect_after"),
    )
    _gather(past, rest)
    cursors = {p: consumed.last + 1 for p, consumed in follower.inputs.items()}
    _asked(past, source, cursors)
    return past


def _gather(past: Past, rest: list[RecordedStep]) -> None:
    """How jobs ended, and what became of machines."""
    silent: dict[str, int] = {}
    for step in rest:
        now_ms = step.batch.now_ms
        for decision in unpack_all(step, logic_version=core.LOGIC_VERSION):
            past.after.append((now_ms, decision))
            if isinstance(decision, d.GangReleased):
                past.work_ms[decision.job] = decision.productive_ms
            elif isinstance(decision, d.JobFinished):
                _ended(past, decision)
            elif isinstance(decision, d.NodeHealthChanged):
                _silence(past, decision, now_ms, silent)
            elif isinstance(decision, d.GpuWithdrawn | d.GpuReturned):
                past.troubles.append(_gpu(decision, now_ms))
    past.troubles += [Trouble(at_ms=at_ms, node=node) for node, at_ms in silent.items()]


def _ended(past: Past, decision: d.JobFinished) -> None:
    """Only who ended by itself has told how much work it had."""
    by_itself = decision.outcome is d.Outcome.SUCCEEDED or decision.reason.startswith("exit code")
    if not by_itself:
        past.work_ms.pop(decision.job, None)
    if decision.code:
        past.codes[decision.job] = decision.code


def _silence(
    past: Past, decision: d.NodeHealthChanged, now_ms: int, silent: dict[str, int]
) -> None:
    if decision.cause == "silent":
        silent[decision.node] = max(past.at_ms, now_ms - past.suspect_after_ms)
    elif decision.cause == "heard" and decision.node in silent:
        at_ms = silent.pop(decision.node)
        past.troubles.append(Trouble(at_ms=at_ms, node=decision.node, for_ms=now_ms - at_ms))


def _gpu(decision: d.GpuWithdrawn | d.GpuReturned, now_ms: int) -> Trouble:
    mended = isinstance(decision, d.GpuReturned)
    kind = "" if isinstance(decision, d.GpuReturned) else decision.fault
    return Trouble(
        at_ms=now_ms, node=decision.node, gpu=max(0, decision.gpu), kind=kind, mended=mended
    )


def _asked(past: Past, source: Source, cursors: dict[TopicPartition, int]) -> None:
    """What people and services stated that no batch up to the moment had consumed."""
    for record in source.inputs(cursors):
        place = TopicPartition(record.topic, record.partition)
        new = record.offset >= cursors.get(place, 0)
        if record.topic in (Topic.JOBS, Topic.CONTROL) and new:
            fact = to_fact(record)
            if fact.event is not None:
                at_ms = max(record.appended_ms, past.at_ms)
                past.asked.append(Asked(at_ms=at_ms, topic=record.topic, body=fact.event.body))
    past.asked.sort(key=lambda asked: asked.at_ms)
