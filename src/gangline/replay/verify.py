"""Running the core again over the recorded inputs: every batch must come out byte for byte.

What this proves: that these decisions follow from these facts, these edges and these times by this
core, and that nothing between the first and the last batch was altered, left out, repeated or put
elsewhere. What it cannot: that the log's owner did not write another history whole (a signed
checkpoint kept elsewhere does, `checkpoints.py`), nor that records after the last batch are all
there.
"""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass, field
from itertools import chain
from pprint import pformat
from typing import TYPE_CHECKING, Final

from gangline.events import codec
from gangline.events.decisions import LogicUpgraded
from gangline.replay.checkpoints import check_against, missing
from gangline.replay.history import History, Moment, steps
from gangline.scheduler.batches import BatchRecord, Link, LogDifferenceError, StepHeader, build
from gangline.scheduler.follower import Follower, unpack_all
from gangline.scheduler.intake import heartbeat_of, in_order, registration_of, to_fact
from gangline.scheduler.logic import is_upgrade, upgrade
from gangline.scheduler.reducer import LED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gangline.events.batch import Edge, PackedDecision
    from gangline.events.decisions import Decision
    from gangline.events.log import Record, TopicPartition
    from gangline.replay.checkpoints import SignedCheckpoint
    from gangline.replay.history import Source
    from gangline.scheduler.batches import RecordedStep
    from gangline.scheduler.core.inputs import Fact
    from gangline.scheduler.ports import Core

PROGRESS_EVERY: Final = 500


@dataclass(slots=True, kw_only=True)
class Report:
    """What was verified.

    first_seq, last_seq: 0 for nothing. unchecked_edges: steps whose heartbeats are gone.
    digest: of the last record, the chain's end.
    """

    first_seq: int = 0
    last_seq: int = 0
    steps: int = 0
    facts: int = 0
    heartbeats: int = 0
    decisions: int = 0
    unconsumed_facts: int = 0
    unchecked_edges: int = 0
    seconds: float = 0.0
    digest: str = ""
    difference: LogDifferenceError | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything was as it must be."""
        return self.difference is None

    @property
    def events(self) -> int:
        """Everything that was read and made again."""
        return self.facts + self.heartbeats + self.decisions

    @property
    def events_per_s(self) -> float:
        """How fast."""
        return self.events / self.seconds if self.seconds else 0.0


def verify(
    source: Source,
    core: Core,
    *,
    from_seq: int | None = None,
    to_seq: int | None = None,
    checkpoint: SignedCheckpoint | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Verify a history from one batch to another (inclusive); what is before is only folded.

    checkpoint: one whose signature was right; its batch must be in the history, and without a
    `from_seq` what comes after it is verified. The first difference ends it and stands in the
    report. progress: told the seq now and then.
    """
    report = Report()
    started = time.perf_counter()
    after_signed = 1 if checkpoint is None else checkpoint.seq + 1
    span = _Span(after_signed if from_seq is None else from_seq, to_seq)
    try:
        _verify(source, core, report, span, signed=_Signed(checkpoint, report), progress=progress)
    except LogDifferenceError as difference:
        report.difference = difference
    report.seconds = time.perf_counter() - started
    return report


@dataclass(frozen=True, slots=True)
class _Span:
    """Which batches to verify."""

    from_seq: int
    to_seq: int | None

    def before(self, step: RecordedStep) -> bool:
        """Whether a step ends before the span."""
        return step.link.seq < self.from_seq

    def after(self, step: RecordedStep) -> bool:
        """Whether a step begins after the span."""
        return self.to_seq is not None and step.batch.seq > self.to_seq


def _verify(
    source: Source,
    core: Core,
    report: Report,
    span: _Span,
    *,
    signed: _Signed,
    progress: Callable[[int], None] | None,
) -> None:
    recorded = signed.watching(steps(source))
    follower = Follower(core)
    first = _fold_until(recorded, follower, span)
    cursors: dict[TopicPartition, int] = {p: r.last + 1 for p, r in follower.inputs.items()}
    if first is None:
        report.notes.append("no batch was recomputed")
        return
    verifier = Verifier(core, follower, report)
    history = History(
        source,
        steps_from=chain([first], recorded),
        cursors=cursors,
        heartbeat=verifier.hear,
    )
    for moment in history:
        if span.after(moment.step):
            return
        verifier.check(moment)
        if progress is not None and report.steps % PROGRESS_EVERY == 0:
            progress(report.last_seq)
    report.unconsumed_facts = history.unconsumed()


class _Signed:
    """Looks for the batch that was signed."""

    def __init__(self, checkpoint: SignedCheckpoint | None, report: Report) -> None:
        self._checkpoint = checkpoint
        self._report = report

    def watching(self, recorded: Iterable[RecordedStep]) -> Iterator[RecordedStep]:
        """The same steps; LogDifferenceError when the signed one is another or is not there."""
        checkpoint = self._checkpoint
        for step in recorded:
            if checkpoint is not None and step.link.seq >= checkpoint.seq:
                check_against(checkpoint, step)
                self._report.notes.append(
                    f"batches 1 to {checkpoint.seq} are the ones that were signed"
                )
                checkpoint = None
            yield step
        if checkpoint is not None:
            raise missing(checkpoint)


def _fold_until(
    recorded: Iterator[RecordedStep], follower: Follower, span: _Span
) -> RecordedStep | None:
    """Fold what is before the span; the first step in it."""
    for step in recorded:
        if not span.before(step):
            return step
        follower.fold(step)
    return None


class Verifier:
    """Makes one step after another again. follower: where the history stands before the first."""

    def __init__(self, core: Core, follower: Follower, report: Report) -> None:
        self._core = core
        self._follower = follower
        self._report = report
        self._knows_heard = follower.link is None
        self._just_led = follower.just_led
        self._odd_heartbeats: list[tuple[Fact, Record]] = []

    def check(self, moment: Moment) -> None:
        """Make the step again; LogDifferenceError where it comes out otherwise."""
        step = moment.step
        if is_upgrade(step.batch):
            self._check_upgrade(moment)
            return
        facts = self._facts(moment.facts)
        self._check_term(step)
        self._check_edges(moment)
        batch = step.batch
        self._settle(moment, self._step(step, in_order(facts, caught_up=batch.caught_up)))

    def _settle(self, moment: Moment, decisions: Sequence[Decision]) -> None:
        """Compare what was made, and go on behind it."""
        step = moment.step
        self._compare(step, decisions)
        self._just_led = step.led_by is not None
        self._follower.leader = step.led_by or self._follower.leader
        self._follower.advance(
            step.link,
            step.batch,
            decisions,
            next_offset=step.next_offset,
            touched=self._core.take_touched(self._follower.state),
        )
        self._count(moment, decisions)

    def _check_upgrade(self, moment: Moment) -> None:
        """Only the second batch of a term may upgrade, without inputs, to a version known here."""
        step, follower = moment.step, self._follower
        (recorded,) = unpack_all(step, logic_version=self._core.LOGIC_VERSION)
        told = (step.batch.inputs, step.batch.edges, step.batch.caught_up)
        new = recorded.new_version if isinstance(recorded, LogicUpgraded) else 0
        newer = new > follower.logic_version
        if not self._just_led or not newer or told != ((), (), False):
            raise LogDifferenceError(
                step.records[0].position,
                what="an upgrade",
                expected="to a newer version, as the second batch of a term, without inputs",
                got=recorded,
            )
        versions = (follower.logic_version, new)
        follower.state, decision = upgrade(
            self._core, follower.state, versions=versions, now_ms=step.batch.now_ms
        )
        self._settle(moment, [decision])

    def _step(self, step: RecordedStep, facts: Sequence[Fact]) -> list[Decision]:
        batch = step.batch
        try:
            return self._core.step(
                self._follower.state,
                facts,
                edges=batch.edges,
                now_ms=batch.now_ms,
                caught_up=batch.caught_up,
            )
        except Exception as error:
            raise LogDifferenceError(
                step.records[0].position,
                what=f"batch {batch.seq}",
                expected="inputs that the core can answer",
                got=repr(error),
            ) from error

    def hear(self, record: Record) -> None:
        """A heartbeat of the next step; what is none is one of its facts."""
        fact = to_fact(record)
        node = heartbeat_of(self._follower.reducer.keyring.judged(fact, record))
        if node is None:
            self._odd_heartbeats.append((fact, record))
        else:
            self._follower.reducer.observe(node, record.appended_ms)

    def _facts(self, records: Sequence[Record]) -> list[Fact]:
        """The facts of a step; registrations are heard on the way."""
        taken, self._odd_heartbeats = self._odd_heartbeats, []
        reducer = self._follower.reducer
        for record in records:
            fact = to_fact(record)
            taken.append((fact, record))
            node = registration_of(reducer.keyring.judged(fact, record))
            if node is not None:
                reducer.observe(node, record.appended_ms)
        return reducer.keyring.judged_all(taken, fleet=reducer.fleet)

    def _check_term(self, step: RecordedStep) -> None:
        """A term begins with its edge, and only there."""
        before = self._follower.link.term if self._follower.link else 0
        begins = step.led_by is not None
        if begins != (step.batch.term > before):
            expected = "an edge `led`" if not begins else f"a term above {before}"
            raise LogDifferenceError(
                step.records[0].position,
                what="the beginning of a term",
                expected=expected,
                got=step.batch.edges if not begins else step.batch.term,
            )

    def _check_edges(self, moment: Moment) -> None:
        """The recorded edges are what the heartbeats say, where those are still kept."""
        batch = moment.step.batch
        led = [edge for edge in batch.edges if edge.kind == LED]
        if led:
            self._knows_heard = True
        elif moment.lost_heartbeats:
            self._knows_heard = False
        if not self._knows_heard:
            self._report.unchecked_edges += 1
            return
        expected = tuple(led) if led else self._edges(moment)
        if expected != batch.edges or any(edge.at_ms != batch.now_ms for edge in led):
            raise LogDifferenceError(
                moment.step.records[0].position, what="edges", expected=expected, got=batch.edges
            )

    def _edges(self, moment: Moment) -> tuple[Edge, ...]:
        batch = moment.step.batch
        if not batch.caught_up:
            return ()
        suspect_after_ms = self._core.policy_value(self._follower.state, "suspect_after")
        return self._follower.reducer.edges(batch.now_ms, suspect_after_ms=suspect_after_ms)

    def _compare(self, step: RecordedStep, decisions: Sequence[Decision]) -> None:
        """The recorded step against one built from these decisions."""
        packed = [codec.pack(decision) for decision in decisions]
        self._compare_decisions(step, packed)
        batch = step.batch
        header = StepHeader(
            link=self._before(step),
            leader=step.led_by or self._follower.leader,
            term=batch.term,
            now_ms=batch.now_ms,
            caught_up=batch.caught_up,
            logic_version=self._follower.logic_version,
            inputs=batch.inputs,
            edges=batch.edges,
            state_digest=self._core.state_digest(self._follower.state),
        )
        compare_records(step.records, build(header, packed))

    def _before(self, step: RecordedStep) -> Link:
        return self._follower.link or Link(step.batch.genesis, 0, 0, b"", 0)

    def _compare_decisions(self, step: RecordedStep, made: Sequence[PackedDecision]) -> None:
        recorded = step.batch.decisions
        for index in range(max(len(recorded), len(made))):
            expected = made[index] if index < len(made) else None
            got = recorded[index] if index < len(recorded) else None
            if expected != got:
                raise _decision_difference(step, index, expected, got)

    def _count(self, moment: Moment, decisions: Sequence[Decision]) -> None:
        report = self._report
        report.first_seq = report.first_seq or moment.step.batch.seq
        report.last_seq = moment.step.link.seq
        report.digest = moment.step.link.digest.hex()
        report.steps += 1
        report.heartbeats += moment.heartbeats
        report.facts += len(moment.facts)
        report.decisions += len(decisions)


def _decision_difference(
    step: RecordedStep, index: int, expected: PackedDecision | None, got: PackedDecision | None
) -> LogDifferenceError:
    """Both decisions in words, and as a diff."""
    words = [_in_words(packed) for packed in (expected, got)]
    if words[0] == words[1]:
        words = [_in_bytes(packed) for packed in (expected, got)]
    error = LogDifferenceError(
        step.records[0].position,
        what=f"decision {index + 1} of batch {step.batch.seq}",
        expected=words[0],
        got=words[1],
    )
    wanted, found = (pformat(word, width=100).splitlines() for word in words)
    error.diff = "\n".join(difflib.unified_diff(wanted, found, "expected", "got", lineterm=""))
    return error


def _in_words(packed: PackedDecision | None) -> object:
    if packed is None:
        return "no decision"
    try:
        return codec.unpack(packed) or packed
    except codec.UndecodableError as error:
        return f"{packed.kind}: {error}"


def _in_bytes(packed: PackedDecision | None) -> str:
    """What differs where the words do not: the version of the schema, or the encoding."""
    return f"{packed.kind} v{packed.version} {packed.body.hex()}" if packed else "no decision"


def compare_records(recorded: Sequence[Record], built: Sequence[BatchRecord]) -> None:
    """LogDifferenceError unless both are the same records, byte for byte."""
    if len(recorded) != len(built):
        raise LogDifferenceError(
            recorded[0].position,
            what="number of records of the step",
            expected=len(built),
            got=len(recorded),
        )
    for record, made in zip(recorded, built, strict=True):
        if codec.avro_bytes(record.value) != codec.avro_bytes(made.value):
            raise _record_difference(record, made)


def _record_difference(record: Record, made: BatchRecord) -> LogDifferenceError:
    """Which field differs."""
    event = codec.decode(record.value)
    expected = codec.decode(made.value)
    pairs = [(f"batch's {name}", expected.body, event.body) for name in _FIELDS]
    pairs += [(f"envelope's {name}", expected.envelope, event.envelope) for name in _ENVELOPE]
    for what, wanted, found in pairs:
        name = what.split()[1]
        if getattr(wanted, name) != getattr(found, name):
            values = [_shown(getattr(each, name)) for each in (wanted, found)]
            return LogDifferenceError(record.position, what=what, expected=values[0], got=values[1])
    values = [codec.avro_bytes(each).hex() for each in (made.value, record.value)]
    return LogDifferenceError(record.position, what="bytes", expected=values[0], got=values[1])


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


_ENVELOPE: Final = ("id", "kind", "version", "actor", "key_id", "signature")
_FIELDS: Final = (
    "genesis",
    "term",
    "seq",
    "more",
    "now_ms",
    "caught_up",
    "logic_version",
    "inputs",
    "edges",
    "decisions",
    "state_digest",
    "previous_digest",
)
