"""Re-derives from the decisions alone what must hold, sharing nothing with the core.

Theory of operation. `gangline replay verify` runs the core again, so a core that is wrong verifies.
This checker knows only the vocabulary: it keeps a second, simple-minded memory of who holds what
(`replay.model`), the views' own ledger, and the rules. For each decision it says what is wrong with
it, where it stands and which rule it breaks; after each batch it looks at what must hold between
batches. It needs no facts, so it runs where only `decisions` is kept.

It cannot know what a fact said (verify does), nor whether a machine really did it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.log import Position
from gangline.projections.books import BooksError
from gangline.replay.broken_rule import BrokenRuleError, Rule
from gangline.replay.check.decisions import Memory, problems_of
from gangline.replay.history import steps
from gangline.replay.rules_of_ledger import LedgerCheck
from gangline.scheduler.batches import LogDifferenceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gangline.replay.history import Source
    from gangline.scheduler.batches import RecordedStep

CAUSE_INTERVAL_MS: Final = 1_000
PROGRESS_EVERY: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A whole step as the checker gets it. position: of its last record."""

    seq: int
    position: Position
    now_ms: int
    caught_up: bool
    decisions: Sequence[d.Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that must not be. decision: its place in the batch, from 1; 0 for the whole."""

    position: Position
    seq: int
    decision: int
    kind: str
    rule: Rule
    text: str

    def __str__(self) -> str:
        """In one line: where, what, and which rule it breaks."""
        where = f"decision {self.decision} of batch {self.seq} ({self.kind})"
        place = where if self.decision else f"batch {self.seq}"
        return f"{self.position}: {place}: expected {self.rule}, got {self.text}"


@dataclass(slots=True, kw_only=True)
class Report:
    """What was checked. last_seq: 0 for nothing."""

    batches: int = 0
    decisions: int = 0
    last_seq: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


class Checker:
    """Takes the batches of a history in order; `finish` at its end."""

    def __init__(self) -> None:
        self.memory = Memory()
        self._ledger = LedgerCheck()
        self._balances = True
        self._unsaid: set[str] = set()
        self._last: Told | None = None

    def batch(self, told: Told) -> Iterator[Finding]:
        """Everything that is wrong with a batch."""
        self._last = told
        self.memory.caused.clear()
        self.memory.model.now_ms = told.now_ms
        for index, decision in enumerate(told.decisions, start=1):
            for rule, text in self._decision(decision, told.now_ms):
                kind = type(decision).__name__
                yield _finding(told, rule, text, decision=index, kind=kind)
        yield from (_finding(told, rule, text) for rule, text in self._after(told))

    def finish(self) -> Iterator[Finding]:
        """What was left undone, if the history ends with everything read."""
        if self._last is None or not self._last.caught_up:
            return
        for text in self.memory.evictions.in_vain():
            yield _finding(self._last, Rule.NOT_IN_VAIN, text)

    def _decision(self, decision: d.Decision, now_ms: int) -> Iterator[tuple[Rule, str]]:
        """What is wrong with it; then it is remembered."""
        try:
            yield from problems_of(self.memory, decision)
            self._remember(decision)
            self.memory.model.fold(decision, now_ms)
        except (KeyError, ValueError) as error:
            yield Rule.SUMS, f"it names something that never was: {error}"
        if self._balances:
            yield from self._enter(decision, now_ms)

    def _enter(self, decision: d.Decision, now_ms: int) -> Iterator[tuple[Rule, str]]:
        """Into the books; they are closed at the first entry that they cannot take."""
        try:
            self._ledger.enter(decision, now_ms)
        except (BooksError, KeyError, ValueError) as error:
            self._balances = False
            yield Rule.SUMS, f"the ledger cannot take it: {error}"

    def _remember(self, decision: d.Decision) -> None:
        if isinstance(decision, d.TeamChanged | d.PolicyChanged):
            self.memory.policy_version += 1
        elif isinstance(decision, d.WaitCauseChanged):
            self.memory.caused.update(dict.fromkeys(decision.jobs, str(decision.cause)))

    def _after(self, told: Told) -> Iterator[tuple[Rule, str]]:
        """What is wrong between batches: the books, and jobs of which nobody says why they wait."""
        if self._balances:
            try:
                self._ledger.balance(self.memory.model, told.now_ms)
            except BrokenRuleError as error:
                self._balances = False
                yield error.rule, error.found
        if not told.caught_up:
            return
        late_ms = self.memory.model.policy.get("cause_interval", CAUSE_INTERVAL_MS)
        for job in self.memory.model.unexplained.values():
            if told.now_ms > job.waits_ms + late_ms and job.job not in self._unsaid:
                self._unsaid.add(job.job)
                yield Rule.ONE_CAUSE, f"nobody says why {job.job} waits since {job.waits_ms}"


def _finding(told: Told, rule: Rule, text: str, *, decision: int = 0, kind: str = "") -> Finding:
    return Finding(
        position=told.position, seq=told.seq, decision=decision, kind=kind, rule=rule, text=text
    )


def check(
    source: Source, *, most: int = 20, progress: Callable[[int], None] | None = None
) -> Report:
    """Check a whole history; stops after so many findings, or where the chain is broken."""
    report = Report()
    try:
        for finding in _findings(source, report, progress):
            report.findings.append(finding)
            if len(report.findings) >= most:
                break
    except LogDifferenceError as error:
        text = str(error).partition(": ")[2]
        report.findings.append(
            Finding(
                position=error.position,
                seq=report.last_seq + 1,
                decision=0,
                kind="",
                rule=Rule.CHAIN,
                text=text,
            )
        )
    return report


def _findings(
    source: Source, report: Report, progress: Callable[[int], None] | None
) -> Iterator[Finding]:
    checker = Checker()
    for step in steps(source):
        told = _told(step)
        yield from checker.batch(told)
        report.batches += 1
        report.decisions += len(told.decisions)
        report.last_seq = told.seq
        if progress is not None and report.batches % PROGRESS_EVERY == 0:
            progress(told.seq)
    yield from checker.finish()


def _told(step: RecordedStep) -> Told:
    """A step of the log; LogDifferenceError for a decision that cannot be read."""
    position = step.records[-1].position
    found = []
    for index, packed in enumerate(step.batch.decisions, start=1):
        what = f"decision {index} of batch {step.link.seq}"
        try:
            decision = codec.unpack(packed)
        except codec.UndecodableError as error:
            raise LogDifferenceError(
                position, what=what, expected=f"a {packed.kind}", got=error
            ) from error
        if decision is None:
            got = f"{packed.kind} version {packed.version}"
            raise LogDifferenceError(position, what=what, expected="a kind known here", got=got)
        found.append(decision)
    return Told(
        seq=step.link.seq,
        position=position,
        now_ms=step.batch.now_ms,
        caught_up=step.batch.caught_up,
        decisions=found,
    )
