"""The auditor: reads every record the moment it lands, and sounds the alarm at the first wrong one.

It holds the log against itself (chain, inputs and their bytes, one writer a term, assignments that
follow from decisions), decisions against the nine rules of the design (`replay.invariants`) and
against what they must rest on (`rules`), and all of it against what machines really do.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from gangline.events import codec
from gangline.events import decisions as d
from gangline.events.batch import DecisionBatch, MemberPhase, NodeAssignment
from gangline.events.log import Position, Topic
from gangline.events.reading import from_the_start
from gangline.replay.broken_rule import BrokenRuleError
from gangline.replay.core_port import Step
from gangline.replay.invariants import Invariants
from gangline.replay.model import Model
from gangline.replay.vopr.answers import left_out, overdue, unanswered
from gangline.replay.vopr.clock import START_MS
from gangline.replay.vopr.fact_book import FactBook
from gangline.replay.vopr.rules import RULES
from gangline.replay.vopr.wrong import WrongError
from gangline.scheduler.batches import LogDifferenceError
from gangline.scheduler.follower import Follower

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gangline.agents.core import Exit
    from gangline.events.log import Record
    from gangline.replay.model import ModelJob
    from gangline.replay.vopr.bus import Bus
    from gangline.replay.vopr.host import Host
    from gangline.replay.vopr.ports import Core
    from gangline.replay.vopr.programs import Gang, Programs
    from gangline.replay.world import World

AHEAD_MS: Final = 7_000
"""A leader's time starts at most 5 s past the log's, whose clock wobbles and is followed by one
that drifts."""

_INPUTS: Final = (Topic.CONTROL, Topic.JOBS, Topic.NODES, Topic.HEARTBEATS)
Wanted = tuple[str, int, str, tuple[int, ...]]


class Auditor:
    """Looks at the log whenever something has landed.

    taken_ms: when each scheduler really took the facts of its newest step. submitted_at: the offset
    of each job's submission. reading: of the fact that is looked at. backed_off: until when a
    job that failed early is put off.
    """

    def __init__(self, bus: Bus, core: Core, *, programs: Programs, hosts: dict[str, Host]) -> None:
        self.bus = bus
        self.programs = programs
        self.hosts = hosts
        self.book = FactBook()
        self.model = Model()
        self.follower = Follower(core)
        self.decided: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.answered: set[str] = set()
        self.backed_off: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.placed_ms: dict[str, int] = {}
        self.resumed_ms: dict[str, int] = {}
        self.taken_ms: dict[str, int] = {}
        self.led_ms = 0
        self.submitted_at: dict[str, int] = {}
        self.reading = 0
        self.newest: dict[str, NodeAssignment] = {}
        self.batches = 0
        self._invariants = Invariants()
        self._core = core
        self._numbers = 0
        self._leader = ""
        self._step_ms = 0
        self.out: dict[str, set[str]] = {}
        self._records: list[Record] = []
        self._decisions: list[d.Decision] = []
        self._reader = bus.log.reader(from_the_start(_INPUTS))
        self.outputs = bus.log.reader(from_the_start([Topic.DECISIONS, Topic.ASSIGNMENTS]))

    # --- looking ---------------------------------------------------------------------------------

    def look(self) -> None:
        """Read what has landed."""
        now_ms = self.bus.timeline.now_ms
        for record in self._reader.poll(0, limit=100_000):
            self.book.take(record, now_ms)
        records = self.outputs.poll(0, limit=100_000)
        batches = [record for record in records if record.topic == Topic.DECISIONS]
        for record in batches:
            self._batch(record)
        for record in records:
            if record.topic == Topic.ASSIGNMENTS:
                self._assignment(record)
        if batches and not self.bus.torn:
            self._check_told(batches[-1])
        self._check_hosts()

    def wrong(self, record: Record | None, text: str) -> None:
        """Sound the alarm."""
        where = f"{record.position}: " if record is not None else ""
        raise WrongError(f"{where}{text}")

    def _batch(self, record: Record) -> None:
        event = codec.decode(record.value)
        batch: DecisionBatch = event.body
        self._check_header(record, batch, event.envelope.actor)
        for consumed in batch.inputs:
            problem = self.book.problem_of(consumed)
            if problem:
                self.wrong(record, problem)
        self._step_ms = self.taken_ms.get(event.envelope.actor, self.bus.timeline.now_ms)
        self._records.append(record)
        for packed in batch.decisions:
            decision = codec.unpack(packed)
            if decision is not None:
                self._decide(record, decision, batch.now_ms)
        if not batch.more:
            self._whole_step(batch)

    def _check_header(self, record: Record, batch: DecisionBatch, actor: str) -> None:
        """One leader a term, and a time that is neither wrong nor goes back."""
        link = self.follower.link
        if link is not None and batch.term == link.term and self._leader not in ("", actor):
            self.wrong(record, f"{actor} writes in the term of {self._leader}")
        if link is None or batch.term != link.term:
            self._check_begins(record, batch)
        if batch.logic_version != self.follower.logic_version:
            by = self.follower.logic_version
            self.wrong(record, f"decided by version {batch.logic_version}, the log names {by}")
        self._leader = actor
        ahead_ms = batch.now_ms - START_MS - self.bus.timeline.now_ms
        if ahead_ms > AHEAD_MS + self.bus.timeline.now_ms // 100:
            self.wrong(record, f"its time is {ahead_ms} ms ahead of the true one")
        if batch.now_ms < self.model.now_ms:
            self.wrong(record, f"its time goes back by {self.model.now_ms - batch.now_ms} ms")

    def _check_begins(self, record: Record, batch: DecisionBatch) -> None:
        """A term begins with one who says that it leads."""
        if [edge.kind for edge in batch.edges] != ["led"]:
            self.wrong(record, f"term {batch.term} begins without a leader")

    def _decide(self, record: Record, decision: d.Decision, now_ms: int) -> None:
        self.model.now_ms = now_ms
        rule = RULES.get(type(decision))
        problem = rule(self, decision) if rule is not None else ""
        if problem:
            name = getattr(decision, "job", "") or getattr(decision, "node", "")
            self.wrong(record, f"{type(decision).__name__} {name}: {problem}")
        self._remember(decision)
        self.model.fold(decision, now_ms)
        self.decided[type(decision).__name__] += 1
        self._decisions.append(decision)

    def _whole_step(self, batch: DecisionBatch) -> None:
        """A step is complete: fold it as a standby does, and check the nine rules."""
        records, self._records = self._records, []
        decisions, self._decisions = self._decisions, []
        self.batches += 1
        try:
            for record in records:
                self.follower.feed(record)
            step = Step((), (), batch.now_ms, batch.caught_up, tuple(decisions), b"")
            self._invariants.stepped(self._scene(batch.now_ms), step)
            problem = unanswered(self, batch)
            if batch.caught_up:
                problem = problem or overdue(self) or left_out(self, step_ms=self._step_ms)
            if problem:
                self.wrong(records[-1], problem)
        except (BrokenRuleError, LogDifferenceError) as error:
            raise WrongError(f"{records[-1].position}: {error}") from error

    def finish(self) -> None:
        """Nothing may be left undone at the end."""
        try:
            self._invariants.finish()
        except BrokenRuleError as error:
            raise WrongError(str(error)) from error

    def _scene(self, now_ms: int) -> World:
        """What the nine rules look at; processes they leave to us."""
        fleet = SimpleNamespace(gang=lambda _job, _attempt: None, gangs_on=lambda _node: ())
        scene = SimpleNamespace(
            core=self._core, state=self.follower.state, now_ms=now_ms, fleet=fleet, outages_ms=0
        )
        return cast("World", scene)

    # --- memory ----------------------------------------------------------------------------------

    def _remember(self, decision: d.Decision) -> None:
        """What the second memory does not keep."""
        remember = _MEMORY.get(type(decision))
        if remember is not None:
            remember(self, decision)

    def _note_led(self, _decision: d.LeadershipTaken) -> None:
        self.led_ms = self.model.now_ms

    def _note_queued(self, decision: d.JobQueued) -> None:
        self.submitted_at[decision.job] = Position.parse(decision.submitted_at).offset

    def _note_let_go(self, decision: d.JobReleased) -> None:
        self.backed_off.pop(decision.job, None)
        if decision.by != "scheduler":
            self.failures.pop(decision.job, None)

    def _note_requeued(self, decision: d.JobRequeued) -> None:
        if decision.not_before_ms:
            self.backed_off[decision.job] = decision.not_before_ms
        if decision.cause is d.StopCause.INFRASTRUCTURE:
            self.failures[decision.job] = self.failures.get(decision.job, 0) + 1

    def _note_placed(self, decision: d.GangPlaced) -> None:
        self.placed_ms[decision.job] = self.model.now_ms
        self.out[decision.job] = set()

    def _note_started(self, decision: d.GangStarted) -> None:
        self.resumed_ms[decision.job] = decision.resumed_ms

    def _note_ended(self, decision: d.MemberEnded) -> None:
        if self.model.jobs[decision.job].attempt == decision.attempt:
            self.out.setdefault(decision.job, set()).add(decision.node)

    def _note_cause(self, decision: d.WaitCauseChanged) -> None:
        self.causes[str(decision.cause)] += len(decision.jobs)

    def _note_refused(self, decision: d.InputRejected) -> None:
        self.refusals[decision.reason] += decision.count

    def policy(self, key: str) -> int:
        """A number of the policy, as the decisions say it."""
        return self.model.policy.get(key, _DEFAULTS[key])

    def allowed_retries(self, job: str) -> int:
        """How many failures of its own a job may have."""
        own = self.model.jobs[job].spec.retries
        return 3 if own is None else own

    # --- the truth -------------------------------------------------------------------------------

    def silence_ms(self, node: str) -> int:
        """How long a node had really been silent when the present step was made."""
        return self._step_ms - self.book.heard_ms(node, self._step_ms)

    def lives_on(self, node: str, gpus: Sequence[int]) -> str:
        """A process that really runs on some of these GPUs; empty for none."""
        host = self.hosts.get(node)
        for process in host.live() if host is not None else ():
            if set(process.order.gpus) & set(gpus):
                return f"{process.key.job}#{process.key.attempt}"
        return ""

    def processes_of(self, node: str, job: str, attempt: int) -> bool:
        """Whether an attempt really has processes on a node."""
        host = self.hosts.get(node)
        live = host.live() if host is not None else []
        return any((p.key.job, p.key.attempt) == (job, attempt) for p in live)

    def _gang(self, job: str) -> Gang | None:
        known = self.model.jobs[job]
        return next((g for k, g in self.programs.gangs.items() if k == (job, known.attempt)), None)

    def exits_of(self, job: str) -> list[Exit] | None:
        """How the members of a job's last attempt really ended."""
        gang = self._gang(job)
        return None if gang is None else list(gang.exits.values())

    def done_ms(self, job: str) -> int:
        """Productive work that a job has really done."""
        gang = self._gang(job)
        return 0 if gang is None else gang.done_ms(self.bus.timeline.now_ms)

    # --- assignments -----------------------------------------------------------------------------

    def _assignment(self, record: Record) -> None:
        body: NodeAssignment = codec.decode(record.value).body
        link = self.follower.end()
        if (body.genesis, body.term, body.seq) != (link.genesis, link.term, link.seq):
            self.wrong(record, f"an assignment of batch {body.seq} after batch {link.seq}")
        self.newest[body.node] = body
        wanted, said = self.wanted(body.node), _said(body)
        if wanted != said:
            self.wrong(record, f"{body.node} should run {wanted}, it is told {said}")

    def _check_told(self, record: Record) -> None:
        """Every node was told what it should run now."""
        for node in self.model.nodes:
            known = self.newest.get(node)
            said = _said(known) if known is not None else []
            if said != self.wanted(node):
                self.wrong(record, f"{node} should run {self.wanted(node)}, it knows of {said}")

    def wanted(self, node: str) -> list[Wanted]:
        """What a node should run by the decisions, in order."""
        found: list[Wanted] = []
        for job in self.model.holding.values():
            if node in self.out.get(job.job, ()):
                continue
            phase = _phase(job)
            found += [
                (job.job, job.attempt, phase, seat.gpus) for seat in job.seats if seat.node == node
            ]
        lingering: dict[tuple[str, int], list[int]] = {}
        for (name, gpu), attempt in self.model.lingering.items():
            if name == node:
                lingering.setdefault(attempt, []).append(gpu)
        found += [
            (job, attempt, str(MemberPhase.STOP), tuple(sorted(gpus)))
            for (job, attempt), gpus in lingering.items()
        ]
        return sorted(found)

    def _check_hosts(self) -> None:
        """Processes run only where, when and from what they should."""
        for text in self.programs.lost_stores:
            self.wrong(None, f"{text}, which holds nothing")
        for host in self.hosts.values():
            for text in host.clashes:
                self.wrong(None, text)
            for key in host.begun:
                job = self.model.jobs.get(key.job)
                if job is None or (job.attempt == key.attempt and job.started_ms is None):
                    self.wrong(None, f"{key.job} runs on {host.name} and was never started")
            host.begun.clear()


def _phase(job: ModelJob) -> str:
    """What the members of a job are to do."""
    if job.leaving:
        return str(MemberPhase.STOP)
    return str(MemberPhase.PREPARE if job.started_ms is None else MemberPhase.RUN)


def _said(assignment: NodeAssignment) -> list[Wanted]:
    """The members of an assignment."""
    return sorted((m.job, m.attempt, str(m.phase), m.gpus) for m in assignment.members)


_DEFAULTS: Final = {
    "hold_after": 5,
    "start_timeout": 120_000,
    "suspect_after": 30_000,
    "lost_after": 120_000,
    "preemption_grace": 60_000,
}

_MEMORY: Final[Mapping[type, Callable[[Auditor, Any], None]]] = {
    d.LeadershipTaken: Auditor._note_led,  # noqa: SLF001 - the table of this class
    d.JobQueued: Auditor._note_queued,  # noqa: SLF001
    d.JobReleased: Auditor._note_let_go,  # noqa: SLF001
    d.JobRequeued: Auditor._note_requeued,  # noqa: SLF001
    d.GangPlaced: Auditor._note_placed,  # noqa: SLF001
    d.GangStarted: Auditor._note_started,  # noqa: SLF001
    d.MemberEnded: Auditor._note_ended,  # noqa: SLF001
    d.WaitCauseChanged: Auditor._note_cause,  # noqa: SLF001
    d.InputRejected: Auditor._note_refused,  # noqa: SLF001
}
