"""The daemon of a node: cues in, `step`, journal, actions out.

One thread does everything that matters, in this order for each cue: the core decides, facts go to
the spool, the journal holds the new state, the executor acts. A fact that is there twice is known
as one; one that the journal remembers as stated, and the spool never had, would be lost. Others
only wait for what may be slow: the log (listener and sender), health readings, people who read
logs. Whatever dies, the members run on: on a clean stop too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import random
import signal
import threading
import time
from collections import Counter
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Final

import structlog

from gangline.agents import core, gpus, procfs
from gangline.agents.attempts import folder_name
from gangline.agents.dcgm import JobMapping
from gangline.agents.health import Health
from gangline.agents.journal import Journal
from gangline.agents.listener import Listener
from gangline.agents.log_server import LogServer, kept_token
from gangline.agents.metrics import AgentCollector, Reading
from gangline.agents.node_key import Voice, kept_key
from gangline.agents.pace import paces, slow
from gangline.agents.process import ProcessExecutor
from gangline.agents.sender import Sender
from gangline.agents.spool import Spool
from gangline.agents.threads import guarded
from gangline.events import codec, signing
from gangline.events.bus import open_log
from gangline.events.facts import CheckpointSaved, CheckpointStarted
from gangline.events.log import Topic
from gangline.events.sealing import KeyStore
from gangline.telemetry import registry_of, serve_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gangline.agents.private import Unseal
    from gangline.agents.settings import AgentSettings
    from gangline.events.batch import NodeAssignment
    from gangline.events.log import Log

_IDLE_S: Final = 1.0
_RESERVE_BYTES: Final = 4 * 1024 * 1024
_PRUNE_S: Final = 3600.0
_LAST_DELIVERY_S: Final = 3.0

_log = structlog.get_logger(__name__)


class AgentError(Exception):
    """The agent cannot come up; its message is one line saying what to do."""


class Agent:
    """One node's agent. `run` returns when `stop` was called; the members run on."""

    def __init__(
        self,
        settings: AgentSettings,
        log: Log,
        *,
        unseal: Unseal | None = None,
    ) -> None:
        settings = settings.anchored()
        settings.folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        self._lock = _lock(settings)
        self._settings = settings
        self._cues: queue.SimpleQueue[core.Cue] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._journal = Journal(settings.folder / "journal.json")
        self._state = self._journal.load(settings.node) or core.NodeState(node=settings.node)
        self._state.lease_ms = int(settings.lease_s * 1000)
        self._state.lease_grace_ms = int(settings.lease_grace_s * 1000)
        self._boot_id = procfs.boot_id()
        self._voice = Voice(
            node=settings.node, boot_id=self._boot_id, key=kept_key(settings.folder)
        )
        self._executor = ProcessExecutor(settings, unseal=unseal)
        self._spool = Spool(settings.folder / "spool", about=_about)
        self._log_server = _log_server(settings)
        self._gpus = gpus.count(settings.gpus)
        self._mapping = _mapping(settings, self._gpus)
        self._stated: Counter[str] = Counter()
        self._heard_s = time.monotonic()
        self._health = Health(settings)
        self._next_prune_s = 0.0
        self._reserve = settings.folder / "reserve"
        _fill(self._reserve)
        self._sender = Sender(
            log,
            self._spool,
            voice=self._voice,
            interval_s=settings.heartbeat_interval_s,
            delivered=self._delivered,
            failed=self._fail,
        )
        self._listener = Listener(log, settings.node, told=self._told, failed=self._fail)

    @property
    def log_port(self) -> int:
        """Where the logs are served, 0 for not at all."""
        return self._log_server.port if self._log_server else 0

    def reading(self) -> Reading:
        """How it stands, for metrics; from any thread."""
        members = list(self._state.members.values())
        return Reading(
            gpus=self._gpus,
            stages=Counter(str(member.stage) for member in members),
            faults=len(self._state.faults),
            undelivered=len(self._spool),
            heard_s=time.monotonic() - self._heard_s,
            stated=dict(self._stated),
            slow_ranks=sum(len(self._slow(member)) for member in members if member.live),
        )

    def _slow(self, member: core.Member) -> list[int]:
        return slow(paces(self._settings.folder / "attempts" / folder_name(member.key)))

    def stop(self) -> None:
        """End `run` soon, from any thread or a signal's handler."""
        self._stopping.set()
        self._executor.wake()

    def run(self) -> None:
        """Take up what was left, then do as told until `stop`."""
        _log.info("node_key", public_key=signing.public_bytes(self._voice.key).hex())
        self._take(self._recovered())
        self._sender.start()
        self._listener.start()
        watch = guarded(self._watch_health, self._fail)
        threading.Thread(target=watch, name="health", daemon=True).start()
        try:
            while not self._stopping.is_set():
                self._turn()
        finally:
            self._close()
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: BaseException) -> None:
        """A thread of ours has died: the agent ends, and whoever watches it starts it again."""
        self._failure = error
        self.stop()

    # --- one turn --------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._executor.wait(self._patience_s())
        for cue in self._executor.poll():
            self._take(cue)
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._cues.get_nowait())
        now_s = time.monotonic()
        if now_s >= self._next_prune_s:
            self._next_prune_s = now_s + _PRUNE_S
            self._executor.prune(older_than_s=self._settings.keep_s)
        wake_ms = core.next_wake(self._state)
        if wake_ms is not None and procfs.boot_ms() >= wake_ms:
            self._take(core.Tick())

    def _patience_s(self) -> float:
        """How long nothing may happen before we look by ourselves."""
        patience_s = _IDLE_S
        if any(member.live for member in self._state.members.values()):
            patience_s = min(patience_s, self._settings.watch_interval_s)
        wake_ms = core.next_wake(self._state)
        if wake_ms is None:
            return patience_s
        return min(patience_s, max(0, wake_ms - procfs.boot_ms()) / 1000)

    def _take(self, cue: core.Cue) -> None:
        """Decide, remember, state, act: in this order."""
        actions = core.step(self._state, cue, now_ms=procfs.boot_ms())
        if not actions and isinstance(cue, core.Progressed | core.Tick | core.Heard):
            return
        facts = [self._encoded(action) for action in actions if isinstance(action, core.State)]
        self._surely(lambda: self._spool.put(facts))
        self._surely(lambda: self._journal.keep(self._state))
        if facts:
            self._sender.notify()
        for action in actions:
            self._surely(partial(self._act, action))
        if self._mapping is not None:
            held = self._state.members.values()
            self._mapping.show((m.order.job, m.order.gpus) for m in held if m.live)

    def _surely(self, work: Callable[[], None]) -> None:
        """Do it, and where the disk refuses, again and again: nothing is done out of order.

        Members run on and heartbeats go out meanwhile. The reserve makes room for the facts that
        say what is wrong.
        """
        while True:
            try:
                return work()
            except OSError as error:
                if error.errno not in procfs.DISK_FULL or self._stopping.is_set():
                    raise
                _log.error("disk_refuses", error=str(error), folder=str(self._settings.folder))
                self._reserve.unlink(missing_ok=True)
                self._stopping.wait(_IDLE_S)

    def _act(self, action: core.Action) -> None:
        match action:
            case core.Check():
                self._executor.check(action)
            case core.Start():
                self._executor.start(action)
            case core.Lease():
                self._executor.lease(action)
            case core.Stop():
                self._executor.stop(action)
            case core.Kill():
                self._executor.kill(action)
            case core.State():
                self._stated[type(action.fact).__name__] += 1
                _log.info("stated", fact=type(action.fact).__name__, id=action.id)
            case core.Note():
                _log.warning("note", text=action.text)
            case core.Forget():
                self._executor.forget(action.key)

    def _encoded(self, action: core.State) -> bytes:
        return self._voice.say(action.fact, id=action.id, topic=Topic.NODES)

    # --- what reaches it -------------------------------------------------------------------------

    def _tell(self, cue: core.Cue) -> None:
        self._cues.put(cue)
        self._executor.wake()

    def _told(self, assignment: NodeAssignment) -> None:
        self._tell(core.Told(assignment))

    def _delivered(self, facts: Sequence[bytes], sent_ms: int) -> None:
        """The log took these facts, and perhaps a heartbeat, that were sent at this time."""
        self._heard_s = time.monotonic()
        for value in facts:
            fact = codec.decode(value).body
            if isinstance(fact, CheckpointSaved):
                self._executor.recorded(fact)
        self._tell(core.Heard(at_ms=sent_ms))

    def _unended(self) -> set[core.Key]:
        """The members whose end was not stated yet."""
        members = self._state.members.items()
        return {key for key, member in members if member.stage is not core.Stage.GONE}

    def _recovered(self) -> core.Recovered:
        settings = self._settings
        address = settings.reachable_address()
        return core.Recovered(
            boot_id=self._boot_id,
            found=self._executor.find(self._unended()),
            gpus=gpus.count(settings.gpus),
            address=f"{address}:{self.log_port}" if self.log_port else address,
            agent_version=metadata.version("gangline"),
            path=settings.path,
            levels=settings.levels,
            labels=tuple(sorted({"node": settings.node, **settings.labels}.items())),
        )

    def _watch_health(self) -> None:
        while not self._stopping.is_set():
            self._tell(self._health.look())
            self._stopping.wait(self._settings.health_interval_s)

    # --- the end ---------------------------------------------------------------------------------

    def _close(self) -> None:
        self._listener.close(within_s=_LAST_DELIVERY_S)
        self._sender.close(within_s=_LAST_DELIVERY_S)
        if self._log_server:
            self._log_server.close()
        self._executor.close()
        self._spool.close()
        os.close(self._lock)


def _about(value: bytes) -> str:
    """Of which attempt a fact tells the newest checkpoint; empty for all other facts."""
    fact = codec.decode(value).body
    if isinstance(fact, CheckpointSaved | CheckpointStarted):
        return f"{type(fact).__name__}/{fact.attempt}/{fact.job}"
    return ""


def _fill(reserve: Path) -> None:
    """Put some room by for a full disk; not when it is full already."""
    with contextlib.suppress(OSError), reserve.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)


def _lock(settings: AgentSettings) -> int:
    """The folder's lock: one agent a folder."""
    handle = os.open(settings.folder / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise AgentError(f"another agent runs with {settings.folder}") from None
    return handle


def _mapping(settings: AgentSettings, count: int) -> JobMapping | None:
    return None if settings.job_mapping is None else JobMapping(settings.job_mapping, gpus=count)


def _log_server(settings: AgentSettings) -> LogServer | None:
    if settings.log_port is None:
        return None
    token = settings.log_token or kept_token(settings.folder / "log-token")
    return LogServer(
        settings.folder / "attempts",
        address=settings.log_address,
        port=settings.log_port,
        token=token,
    )


def wait_for_turn(settings: AgentSettings) -> None:
    """Come up some time within `start_spread_s`, so that a fleet does not all at once."""
    time.sleep(random.uniform(0, settings.start_spread_s))  # noqa: S311 - no secret


def run_agent(settings: AgentSettings) -> None:
    """Run a node's agent until TERM or INT; the main thread's verb of `gangline agent`.

    AgentError, NodeKeyError, JournalError or LogError when it cannot come up.
    """
    wait_for_turn(settings)
    unseal = KeyStore(settings.seal_keys).unseal if settings.seal_keys else None
    log = open_log(settings.bus, settings.cell, environ=os.environ)
    try:
        agent = Agent(settings, log, unseal=unseal)
        registry = registry_of("agent")
        registry.register(AgentCollector(agent.reading))
        serve_metrics(registry, settings.metrics_port)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.stop())
        agent.run()
    finally:
        log.close()
