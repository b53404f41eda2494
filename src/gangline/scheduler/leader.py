"""The leading scheduler: read, step, commit.

One turn reads what there is, gives it to the core, and writes what the core answers, with the
assignments that follow, in one commit. A commit that does anything but succeed ends the term: the
state may then be ahead of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from gangline.events import codec
from gangline.events.batch import Edge, NodeAssignment
from gangline.events.decisions import Decision
from gangline.events.facts import HandOverRequested
from gangline.events.log import FencedError, Log, LogError, Message, Topic
from gangline.events.trace import of_jobs, traceparent
from gangline.scheduler.batches import BatchRecord, Link, StepHeader, build
from gangline.scheduler.gather import Gatherer, start_cursors
from gangline.scheduler.intake import Intake
from gangline.scheduler.logic import upgrade
from gangline.scheduler.ports import Core, Machine, Point, Probe, no_probe
from gangline.scheduler.reducer import LED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gangline.events.log import Position, TopicPartition, Writer
    from gangline.scheduler.beats import Beater
    from gangline.scheduler.clock import TermClock
    from gangline.scheduler.core.inputs import Fact
    from gangline.scheduler.follower import Follower
    from gangline.scheduler.ports import State

GAP_MS: Final = 5_000
"""So long not caught up is a gap in reading: deadlines that wait for facts start again."""

CHECK_MS: Final = 1_000
"""How often an idle leader asks the log for its ends, so that it knows of a gap."""

REST_MS: Final = 50
"""After a step that was due by time alone and decided nothing."""

MOST_UNANSWERED: Final = 10_000
"""Facts without a decision go to every step until a batch takes them; so many get an empty one."""


class LostLeadError(Exception):
    """This scheduler leads no more, and its state may be ahead of the log."""


class DoubtError(Exception):
    """Nobody knows whether a commit is visible: take over again from the log."""


@contextmanager
def committing() -> Iterator[None]:
    """What a writer's errors mean for the one who leads."""
    try:
        yield
    except FencedError as error:
        raise LostLeadError(str(error)) from error
    except LogError as error:
        raise DoubtError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """One scheduler process. genesis: the birth id of a cell that this one is the first to lead."""

    name: str
    genesis: str
    limit: int = 500

    @property
    def actor(self) -> str:
        """As envelopes say it."""
        return f"scheduler:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Everything that a scheduler touches."""

    log: Log
    core: Core
    machine: Machine
    probe: Probe = no_probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one step did, for metrics. facts: how many it got. seq: of the last record after it."""

    facts: int
    decisions: Sequence[Decision]
    now_ms: int
    caught_up: bool
    seq: int
    step_ms: int
    commit_ms: int


def assignment_messages(
    core: Core, state: State, nodes: Iterable[str], *, link: Link, actor: str
) -> list[Message]:
    """What these nodes should run, as of the batch at the end of the chain."""
    messages = []
    for node in nodes:
        members = core.assigned_members(state, node)
        body = NodeAssignment(
            genesis=link.genesis, term=link.term, seq=link.seq, node=node, members=members
        )
        value = codec.stated(body, id=f"{link.genesis}-{link.seq}-{node}", actor=actor)
        headers = tuple(
            traceparent(member.job, f"assigned-{member.attempt}-{member.phase.name.lower()}-{node}")
            for member in members
        )
        messages.append(
            Message(topic=Topic.ASSIGNMENTS, key=node.encode(), value=value, headers=headers)
        )
    return messages


class Leader:
    """One term of one scheduler; `takeover.take_over` makes it.

    follower: where the log stands; its state is the one that the core steps.
    """

    def __init__(
        self,
        outside: Outside,
        who: Who,
        follower: Follower,
        *,
        writer: Writer,
        beater: Beater,
        clock: TermClock,
        why: str,
    ) -> None:
        self._core = outside.core
        self._machine = outside.machine
        self._probe = outside.probe
        self._who = who
        self._writer = writer
        self._clock = clock
        self.follower = follower
        self.beater = beater
        self._led: str | None = why
        self._fresh = True
        self._link = follower.link or Link(who.genesis, 0, 0, b"", 0)
        self._intake = Intake(follower.reducer, limit=who.limit)
        cursors = start_cursors(outside.log, follower.inputs)
        self._gatherer = Gatherer(outside.log, self._intake, cursors)
        self._caught_up_ms = self._checked_ms = clock.now_ms()
        self._core_wake_ms: int | None = None
        self._rest_until_ms = 0
        self.wants_hand_over = False
        self.is_ahead = False
        """Whether the state may hold decisions that the log does not."""

    @property
    def is_starting(self) -> bool:
        """Whether it has not written its first batch yet."""
        return self._fresh

    @property
    def seq(self) -> int:
        """Of the last record written."""
        return self._link.seq

    def now_ms(self) -> int:
        """The time of this term."""
        return self._clock.now_ms()

    # --- when ---------------------------------------------------------------------------------

    def turn(self, wait_s: float) -> Turn | None:
        """Read, waiting at most so long, and step if there is something to do; None if not."""
        if self.beater.fenced:
            raise LostLeadError("another scheduler beats")
        if self.beater.doubtful:
            raise DoubtError("a beat's outcome is unknown")
        self.beater.progress(self.seq)
        self._gatherer.poll(self._patience_s(wait_s))
        if self._has_news() or self._time_is_due():
            return self._step()
        if self.now_ms() - self._checked_ms >= CHECK_MS:
            self._check()
        return None

    def _has_news(self) -> bool:
        return self._led is not None or self._intake.news

    def _patience_s(self, wait_s: float) -> float:
        if self._has_news():
            return 0.0
        due = self._due_ms()
        return wait_s if due is None else min(wait_s, max(0, due - self.now_ms()) / 1000)

    def _time_is_due(self) -> bool:
        due = self._due_ms()
        return due is not None and self.now_ms() >= due

    def _due_ms(self) -> int | None:
        """When time alone would matter: to the core, or because a node may have fallen silent."""
        silent_ms = self.follower.reducer.due_ms(suspect_after_ms=self._suspect_after_ms())
        known = [at for at in (self._core_wake_ms, silent_ms) if at is not None]
        return max(min(known), self._rest_until_ms) if known else None

    def _suspect_after_ms(self) -> int:
        return self._core.policy_value(self.follower.state, "suspect_after")

    def _check(self) -> Sequence[TopicPartition] | None:
        """Read to the ends; what is missing. Notes when all was read, and a gap in that.

        The time is taken before the ends are: whatever stands still after that, nobody is judged
        by a silence that was not listened to.
        """
        now = self._checked_ms = self.now_ms()
        unread = self._gatherer.unread()
        if unread is not None and not unread and self._intake.fits:
            if now - self._caught_up_ms > GAP_MS and self._led is None:
                self._led = "gap"
            self._caught_up_ms = now
        return unread

    # --- what ---------------------------------------------------------------------------------

    def _step(self) -> Turn | None:
        unread = self._check()
        if unread is None:
            self._rest_until_ms = self.now_ms() + REST_MS
            self._gatherer.poll(REST_MS / 1000)
            return None
        self._intake.take(unread)
        self._probe(Point.FACTS_TAKEN)
        caught_up = not unread and not self._intake.waiting
        now = self._checked_ms
        edges = self._edges(now, caught_up=caught_up)
        facts = self._intake.facts(caught_up=caught_up)
        started = self._machine.monotonic_ms()
        self.is_ahead = True
        decisions = self._core.step(
            self.follower.state, facts, edges=edges, now_ms=now, caught_up=caught_up
        )
        self._probe(Point.STEPPED)
        stepped = self._machine.monotonic_ms()
        self._note_hand_over(facts)
        if decisions or self._intake.taken >= MOST_UNANSWERED:
            self._commit(decisions, edges, now_ms=now, caught_up=caught_up)
            self._upgrade_logic(now)
        else:
            self.is_ahead = False
            self._rest_until_ms = now + REST_MS
        self._core_wake_ms = self._core.next_wake(self.follower.state)
        return Turn(
            facts=len(facts),
            decisions=decisions,
            now_ms=now,
            caught_up=caught_up,
            seq=self.seq,
            step_ms=stepped - started,
            commit_ms=self._machine.monotonic_ms() - stepped,
        )

    def _edges(self, now_ms: int, *, caught_up: bool) -> tuple[Edge, ...]:
        if self._led is not None:
            return (Edge(kind=LED, node=self._who.name, at_ms=now_ms, why=self._led),)
        if not caught_up:
            return ()
        return self.follower.reducer.edges(now_ms, suspect_after_ms=self._suspect_after_ms())

    def _note_hand_over(self, facts: Sequence[Fact]) -> None:
        """A request that the term's first step finds was answered by its coming about."""
        if not self._fresh:
            self.wants_hand_over |= any(
                fact.event is not None and isinstance(fact.event.body, HandOverRequested)
                for fact in facts
            )

    def _commit(
        self,
        decisions: Sequence[Decision],
        edges: tuple[Edge, ...],
        *,
        now_ms: int,
        caught_up: bool,
    ) -> None:
        header = StepHeader(
            link=self._link,
            leader=self._who.name,
            term=self.beater.term,
            now_ms=now_ms,
            caught_up=caught_up,
            logic_version=self.follower.logic_version,
            inputs=self._intake.ranges(),
            edges=edges,
            state_digest=self._core.state_digest(self.follower.state),
        )
        records = build(header, [codec.pack(decision) for decision in decisions])
        self._probe(Point.BATCH_BUILT)
        link = records[-1].link
        touched = self._core.take_touched(self.follower.state)
        messages = _decision_messages(records, decisions)
        messages += assignment_messages(
            self._core, self.follower.state, touched, link=link, actor=self._who.actor
        )
        self._probe(Point.BEFORE_COMMIT)
        with committing():
            positions = self._writer.commit(messages)
        self._probe(Point.AFTER_COMMIT)
        self._settle(records, positions, decisions, touched)

    def _upgrade_logic(self, now_ms: int) -> None:
        """A term begins by the version that the log names; then the program's own decides."""
        versions = (self.follower.logic_version, self._core.LOGIC_VERSION)
        if versions[0] >= versions[1]:
            return
        self.is_ahead = True
        self.follower.state, decision = upgrade(
            self._core, self.follower.state, versions=versions, now_ms=now_ms
        )
        self._commit([decision], (), now_ms=now_ms, caught_up=False)

    def _settle(
        self,
        records: Sequence[BatchRecord],
        positions: Sequence[Position],
        decisions: Sequence[Decision],
        touched: tuple[str, ...],
    ) -> None:
        self._link = records[-1].link
        self.follower.advance(
            self._link,
            replace(records[0].batch, more=False),
            decisions,
            next_offset=positions[len(records) - 1].offset + 1,
            touched=touched,
        )
        self._intake.settle()
        self._led = None
        self._fresh = False
        self.is_ahead = False
        self._probe(Point.SETTLED)

    # --- the end ------------------------------------------------------------------------------

    def hand_over(self) -> None:
        """Tell the standbys that one of them may lead at once; this leader writes nothing more."""
        self._probe(Point.HANDING_OVER)
        self._writer.close()
        with committing():
            self.beater.beat(handing_over=True)
        self._probe(Point.HANDED_OVER)

    def close(self) -> None:
        """Let go of connections; nothing is said to anybody."""
        self._gatherer.close()
        self._writer.close()
        self.beater.close()


def _decision_messages(
    records: Sequence[BatchRecord], decisions: Sequence[Decision]
) -> list[Message]:
    """The records of one step, each with the traces of the jobs that it decides about."""
    messages, rest = [], iter(decisions)
    for record in records:
        own = islice(rest, len(record.batch.decisions))
        jobs = [job for each in own if (job := getattr(each, "job", ""))]
        messages.append(
            Message(
                topic=Topic.DECISIONS,
                value=record.value,
                partition=0,
                headers=of_jobs(jobs, f"decided-{record.batch.seq}"),
            )
        )
    return messages
