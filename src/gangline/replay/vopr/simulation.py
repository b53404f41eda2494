"""One seed from its first event to its verdict.

First the safety phase: everything that the plan allows goes wrong, and the auditor looks at every
record. Then the faults stop, a random core is healed (at least one scheduler, some of the nodes;
the rest is gone for good), and the cell must come to rest in bounded time: every job that could
start has ended, nothing is held by the dead, every node runs what it is told, and all that was
acknowledged is answered. At last the whole log is verified, and the newest snapshot restored.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from gangline.events.facts import NodeUncordoned
from gangline.events.terms import Service
from gangline.projections.steps import Chain
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.replay.vopr import fit
from gangline.replay.vopr.auditor import Auditor
from gangline.replay.vopr.bus import Bus, Line
from gangline.replay.vopr.clock import Clocks, Timeline
from gangline.replay.vopr.crew import Post
from gangline.replay.vopr.host import Host
from gangline.replay.vopr.people import People
from gangline.replay.vopr.plan import plan_of
from gangline.replay.vopr.programs import Programs
from gangline.replay.vopr.troubles import FaultInjector
from gangline.replay.vopr.versions import newer_than
from gangline.replay.vopr.wrong import WrongError
from gangline.scheduler import core as real_core
from gangline.scheduler.follower import DECISIONS
from gangline.scheduler.ports import Point
from gangline.scheduler.snapshots import newest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.replay.vopr.ports import Core

REST_MS: Final = 20 * 60_000
"""In so much time after the faults a cell must have come to rest."""

LOOK_MS: Final = 1_000
OPERATORS_MS: Final = 30_000
"""So often operators look at an idle cell, and open nodes that the scheduler has closed."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    """How a seed went. wrong: what the auditor saw, empty for nothing.

    digest: of the last batch; the same seed gives the same one.
    """

    seed: int
    wrong: str = ""
    digest: str = ""
    events: int = 0
    batches: int = 0
    virtual_s: int = 0
    rest_s: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    crew: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.wrong


def run_seed(seed: int, *, core: Core = real_core) -> Verdict:
    """Simulate a seed."""
    return Simulation(seed, core=core).run()


class Simulation:
    """A cell and everything around it."""

    def __init__(self, seed: int, *, core: Core = real_core) -> None:
        self.plan = plan_of(seed)
        self._old_core = core
        self.core = newer_than(core) if self.plan.installations.mixed else core
        self.timeline = Timeline()
        self.verdict = Verdict(seed=seed)
        self.bus = Bus(self.timeline, self.plan.chance, self.plan.weather)
        self.programs = Programs(self.timeline, self.plan.chance)
        self.hosts = [self._host(node.name, node.gpus) for node in self.plan.nodes]
        self.posts = [self._post(index) for index in range(self.plan.schedulers)]
        people_line = Line(self.bus, "people")
        self.people = People(self.plan, line=people_line, programs=self.programs)
        self.faults = FaultInjector(
            self.plan, bus=self.bus, posts=self.posts, hosts=self.hosts, people=self.people
        )
        hosts = {host.name: host for host in self.hosts}
        self.auditor = Auditor(self.bus, self.core, programs=self.programs, hosts=hosts)
        self.bus.watch = self.auditor.look
        self._submitting = True

    def _host(self, name: str, gpus: int) -> Host:
        line = Line(self.bus, name)
        host = Host(name, gpus, line=line, programs=self.programs, chance=self.plan.chance)
        host.beat_ms, host.deadly = self.plan.beat_ms, self.plan.deadly
        return host

    def _post(self, index: int) -> Post:
        post = Post(
            index,
            self.plan,
            core=self._old_core,
            line=Line(self.bus, f"s{index}"),
            clocks=Clocks(self.timeline, drift=self.plan.drifts[index]),
            seen=self.verdict.crew,
        )
        post.passed = self._passed
        post.log_version = lambda: self.auditor.follower.logic_version
        return post

    def _passed(self, post: Post, point: Point) -> None:
        if point is Point.FACTS_TAKEN:
            self.auditor.taken_ms[f"scheduler:s{post.index}"] = self.timeline.now_ms

    # --- running ---------------------------------------------------------------------------------

    def run(self) -> Verdict:
        """All phases; the first alarm ends it."""
        try:
            self._begin()
            self.timeline.run(self.plan.turbulent_ms)
            self._heal()
            self._come_to_rest()
            self._judge()
        except WrongError as alarm:
            self.verdict.wrong = str(alarm)
        except Exception as error:  # noqa: BLE001 - whatever dies of a bug has met one
            self.verdict.wrong = f"{type(error).__name__}: {error}"
        return self._summed_up()

    def _begin(self) -> None:
        chance = self.plan.chance
        self.people.found_cell()
        for post in self.posts:
            self.timeline.after(chance.randrange(500), post.start)
            self._often(chance.choice((50, 100, 200)), post.turn)
        for at_ms, post_index, newer in self.plan.installations.later:
            self.timeline.after(at_ms, partial(self.posts[post_index].install, newer=newer))
        for host in self.hosts:
            self.timeline.after(chance.randrange(3_000), host.start_agent)
            self._often(chance.choice((100, 300)), host.turn)
        self._often(self.plan.job_every_ms, self._submit)
        self._often(self.plan.trouble_every_ms, self.faults.strike)

    def _often(self, pace_ms: int, action: Callable[[], None]) -> None:
        """Do something again and again, never quite regularly."""

        def turn() -> None:
            action()
            self.timeline.after(self.plan.chance.randrange(pace_ms // 2, pace_ms * 3 // 2), turn)

        self.timeline.after(self.plan.chance.randrange(pace_ms), turn)

    def _submit(self) -> None:
        if self._submitting:
            self.people.submit()

    def _heal(self) -> None:
        """Faults stop, and a core of the cell works."""
        chance = self.plan.chance
        self._submitting = False
        posts = chance.sample(self.posts, chance.randrange(1, len(self.posts) + 1))
        least = (len(self.hosts) + 1) // 2
        hosts = chance.sample(self.hosts, chance.randrange(least, len(self.hosts) + 1))
        self.faults.heal(posts=posts, hosts=hosts)
        if self.plan.installations.mixed:
            for post in posts:
                post.install(newer=True)
        self.people.open_all()
        self.people.release_all()
        self._core_hosts = hosts

    # --- coming to rest --------------------------------------------------------------------------

    def _come_to_rest(self) -> None:
        """Wait until nothing is left to do; what is left after long is wrong."""
        began_ms = self.timeline.now_ms
        while (left := self._left()) and self.timeline.now_ms - began_ms < REST_MS:
            self.timeline.run(self.timeline.now_ms + LOOK_MS)
            if (self.timeline.now_ms - began_ms) % OPERATORS_MS < LOOK_MS:
                self._open_closed()
        self.verdict.rest_s = (self.timeline.now_ms - began_ms) // 1_000
        if left:
            raise WrongError(f"after {self.verdict.rest_s} s of quiet, {left}")

    def _open_closed(self) -> None:
        for node in self.auditor.model.nodes.values():
            if node.service is not Service.OPEN and not self.people.unanswered:
                self.people.control(NodeUncordoned(node=node.node))

    def _left(self) -> str:
        """What has still to happen before the cell is at rest; empty for nothing."""
        model = self.auditor.model
        if self.people.unanswered or not self.auditor.batches:
            return "somebody still asks"
        if model.holding:
            return f"{', '.join(sorted(model.holding))} still hold GPUs"
        for job in model.waiting.values():
            if not self._may_wait(job.job):
                return f"{job.job} waits for {job.cause or 'nobody knows what'}"
        return self._loose_end()

    def _may_wait(self, name: str) -> bool:
        """Whether a job is right to wait though the cell is idle."""
        model = self.auditor.model
        job = model.jobs[name]
        if job.held_by or model.unfinished(job):
            return True
        if fit.lends_are_limited(model) or not fit.within_limits(model, job.spec):
            return True
        if job.spec.gpus > sum(node.gpus for node in model.nodes.values()):
            return False
        whole = {host.name: host.gpus - len(host.bad) for host in self._core_hosts}
        return not fit.fits(model, job.spec, whole)

    def _core_names(self) -> list[str]:
        return [host.name for host in self._core_hosts]

    def _loose_end(self) -> str:
        """Something that an idle cell may not leave lying about; empty for nothing."""
        auditor = self.auditor
        if auditor.model.claims or auditor.model.reservations:
            kept = sorted({*auditor.model.claims, *auditor.model.reservations})
            return self._kept_in_vain(kept)
        for host in self._core_hosts:
            loose = self._loose_on(host)
            if loose:
                return f"{host.name} {loose}"
        lingering = {node for node, _ in auditor.model.lingering} & set(self._core_names())
        if lingering:
            return f"old attempts linger on {', '.join(sorted(lingering))}"
        if auditor.follower.logic_version != self.core.LOGIC_VERSION:
            return f"version {auditor.follower.logic_version} still decides"
        unread = auditor.book.unread()
        return f"{', '.join(unread)} hold facts that nobody has answered" if unread else ""

    def _loose_on(self, host: Host) -> str:
        """Something that lies about on one machine; empty for nothing."""
        if host.agent is None or host.disk.spool:
            return "still has something to say"
        if host.live():
            return f"runs {host.live()[0].key}"
        # No record lists anything any more: who fences nobody remembers it for ever.
        for key in sorted(host.disk.journal.members):
            return f"still remembers {key}"
        node = self.auditor.model.nodes.get(host.name)
        if node is None or set(host.bad) != node.bad:
            return "has other broken GPUs than anybody knows of"
        return ""

    def _kept_in_vain(self, kept: list[str]) -> str:
        """Room may be kept for jobs that wait, and for nobody else."""
        gone = [job for job in kept if job not in self.auditor.model.waiting]
        return f"room is kept for {', '.join(gone)}" if gone else ""

    # --- the verdict -----------------------------------------------------------------------------

    def _judge(self) -> None:
        """Everything that was promised was answered, and the log proves itself."""
        missing = [job for job in self.people.acknowledged if not self._is_answered(job)]
        if missing:
            raise WrongError(f"{', '.join(sorted(missing))}: acknowledged and never answered")
        self.auditor.finish()
        self._read_as_views_do()
        report = verify(LogSource(self.bus.log), self.core)
        if report.difference is not None:
            raise WrongError(f"verify: {report.difference}")
        digest = self.core.state_digest(self.auditor.follower.state)
        restored = newest(self.bus.log, self.core, warn=lambda _text: None)
        if restored is None and self.auditor.batches > 20 * self.plan.snapshot_every + 100:
            raise WrongError(f"no good snapshot after {self.auditor.batches} batches")
        if restored is not None:
            restored.read_to_end(self.bus.log)
            if self.core.state_digest(restored.state) != digest:
                raise WrongError("the restored snapshot leads to another state")

    def _read_as_views_do(self) -> None:
        """The projector's own reader takes all steps, and finds the chain whole."""
        reader = self.bus.log.reader({DECISIONS: 0})
        steps = list(Chain().steps(reader.poll(0, limit=1_000_000)))
        if len(steps) != self.auditor.batches:
            raise WrongError(f"views read {len(steps)} steps of {self.auditor.batches}")

    def _is_answered(self, job: str) -> bool:
        return job in self.auditor.answered or f"{job}.1" in self.auditor.answered

    def _summed_up(self) -> Verdict:
        verdict, auditor = self.verdict, self.auditor
        link = auditor.follower.link
        verdict.digest = "" if link is None else link.digest.hex()[:16]
        verdict.events = self.timeline.events
        verdict.batches = auditor.batches
        verdict.virtual_s = self.timeline.now_ms // 1_000
        verdict.decisions, verdict.causes = auditor.decided, auditor.causes
        verdict.refusals, verdict.troubles = auditor.refusals, self.faults.done
        return verdict
