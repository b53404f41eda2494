"""The process behind `gangline scheduler`: settings, signals, metrics and logs."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gangline.events.bus import open_log
from gangline.scheduler import core as real_core
from gangline.scheduler.checkpoints import CheckpointWriter, load_private_key
from gangline.scheduler.clock import WallWatch
from gangline.scheduler.collecting import IdleCollector, only_short_passes
from gangline.scheduler.decision_metrics import DecisionMetrics
from gangline.scheduler.leader import Outside, Turn, Who
from gangline.scheduler.ports import SystemMachine
from gangline.scheduler.process import Habits, Scheduler
from gangline.telemetry import registry_of, serve_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from gangline.events.log import Log
    from gangline.scheduler.follower import Follower
    from gangline.scheduler.ports import Core, State

TURN_S: Final = 0.25
_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """How to run one scheduler.

    bus: the log's URL. index: its place among the cell's schedulers, from 0; the lower takes over
    first. metrics_port: where to serve metrics, None for nowhere. checkpoint_dir, checkpoint_key:
    where signed checkpoints go, best on another machine, and the Ed25519 key (PEM) that signs them.
    environ: where drivers find their own settings.
    """

    bus: str
    cell: str
    name: str
    index: int = 0
    metrics_port: int | None = None
    snapshot_every: int = 2_000
    checkpoint_dir: Path | None = None
    checkpoint_key: Path | None = None
    environ: Mapping[str, str] | None = None


class Reporter:
    """Metrics and one JSON line for each change of role and each warning."""

    def __init__(
        self,
        settings: SchedulerSettings,
        registry: CollectorRegistry,
        *,
        checkpoints: CheckpointWriter | None = None,
        state_digest: Callable[[State], bytes] = real_core.state_digest,
    ) -> None:
        self._checkpoints = checkpoints
        self._state_digest = state_digest
        self._log = structlog.get_logger("gangline.scheduler").bind(
            cell=settings.cell, scheduler=settings.name
        )
        name = "gangline_scheduler"
        self._leads = Gauge(f"{name}_leads", "1 while leading", registry=registry)
        self._term = Gauge(f"{name}_term", "the present term", registry=registry)
        self._seq = Gauge(f"{name}_seq", "the last batch's number", registry=registry)
        self._caught_up = Gauge(f"{name}_caught_up", "1 if all was read", registry=registry)
        self._facts = Counter(f"{name}_facts", "facts given to steps", registry=registry)
        self._decided = DecisionMetrics(registry)
        self._step_s = Histogram(
            f"{name}_step_seconds", "time of a step", buckets=_BUCKETS, registry=registry
        )
        self._commit_s = Histogram(
            f"{name}_commit_seconds", "time of a commit", buckets=_BUCKETS, registry=registry
        )
        self._warnings = Counter(f"{name}_warnings", "warnings logged", registry=registry)
        self._wall_steps = Counter(
            f"{name}_wall_clock_steps", "steps of the wall clock", registry=registry
        )

    def role(self, role: str, *, term: int, why: str) -> None:
        """The scheduler is now `standby` or `leader`."""
        self._leads.set(role == "leader")
        self._term.set(term)
        self._log.info("role", role=role, term=term, why=why)

    def turn(self, turn: Turn) -> None:
        """A leader stepped."""
        self._seq.set(turn.seq)
        self._caught_up.set(turn.caught_up)
        self._facts.inc(turn.facts)
        self._step_s.observe(turn.step_ms / 1000)
        if turn.decisions:
            self._commit_s.observe(turn.commit_ms / 1000)
        self._decided.count(turn.decisions)

    def warn(self, text: str) -> None:
        """Something is not as it should be, and was dealt with."""
        self._warnings.inc()
        self._log.warning("warning", text=text)

    def snapshot(self, seq: int) -> None:
        """A snapshot was written."""
        self._log.info("snapshot", seq=seq)

    def led(self, follower: Follower) -> None:
        """Sign where the log stands, if it is time. A folder that is full stops nobody."""
        if self._checkpoints is None:
            return
        try:
            path = self._checkpoints.write_if_due(
                follower, state_digest=lambda: self._state_digest(follower.state)
            )
        except OSError as error:
            self.warn(f"no signed checkpoint was written: {error}")
        else:
            if path is not None:
                self._log.info("checkpoint", path=str(path))

    def wall_clock_stepped(self, step_ms: int) -> None:
        """The alarm of the machine's wall clock; nothing else comes of it."""
        self._wall_steps.inc()
        self._log.warning("wall_clock_stepped", step_ms=step_ms)


class StopFlag:
    """Set by SIGTERM or SIGINT."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Stop after the present turn."""
        self.is_set = True


@contextmanager
def _signals(stop: StopFlag) -> Iterator[None]:
    before = {name: signal.signal(name, stop.set) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def run_scheduler(settings: SchedulerSettings, *, core: Core | None = None) -> None:
    """Run until SIGTERM or SIGINT, then hand over and return.

    LogUnreachableError or TopicsMissingError when the log is not there at the start.
    """
    registry = registry_of("scheduler")
    chosen: Core = real_core if core is None else core
    reporter = Reporter(
        settings,
        registry,
        checkpoints=_checkpoints(settings),
        state_digest=chosen.state_digest,
    )
    stop = StopFlag()
    log = open_log(settings.bus, settings.cell, environ=settings.environ)
    with _signals(stop), only_short_passes():
        serve_metrics(registry, settings.metrics_port)
        try:
            serve(log, settings, reporter=reporter, stop=stop, core=chosen)
        finally:
            log.close()


def _checkpoints(settings: SchedulerSettings) -> CheckpointWriter | None:
    """The writer that the settings ask for; CheckpointError when its key cannot be used."""
    if settings.checkpoint_dir is None or settings.checkpoint_key is None:
        return None
    key = load_private_key(settings.checkpoint_key)
    return CheckpointWriter(settings.checkpoint_dir, key, cell=settings.cell)


def serve(
    log: Log, settings: SchedulerSettings, *, reporter: Reporter, stop: StopFlag, core: Core
) -> None:
    """Take turns until told to stop."""
    machine = SystemMachine()
    scheduler = Scheduler(
        Outside(log=log, core=core, machine=machine),
        Who(name=settings.name, genesis=str(uuid.uuid4())),
        Habits(index=settings.index, snapshot_every=settings.snapshot_every),
        observer=reporter,
    )
    watch = WallWatch(machine)
    collector = IdleCollector(machine)
    try:
        while not stop.is_set:
            turn = scheduler.turn(TURN_S)
            if turn is None or not turn.facts:
                collector.idle()
            step_ms = watch.step_ms()
            if step_ms:
                reporter.wall_clock_stepped(step_ms)
        scheduler.hand_over()
    finally:
        scheduler.close()
