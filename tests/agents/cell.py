"""A cell in miniature for agents: a log, who writes assignments, and the facts that come back."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from gangline.agents.runner import Agent
from gangline.agents.settings import AgentSettings
from gangline.events import codec
from gangline.events.batch import MemberPhase
from gangline.events.envelope import Event
from gangline.events.facts import MemberExited, MemberReady, MemberStarted
from gangline.events.log import Message, Topic
from gangline.events.memory import MemoryLog
from gangline.events.reading import from_the_start
from tests.agents import make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gangline.events.batch import AssignedMember
    from gangline.events.log import Log

PATIENCE_S = 60.0
"""A new process takes its time on a busy machine."""

F = TypeVar("F")


def wait_for(
    condition: Callable[[], Any], *, what: str = "it", within_s: float = PATIENCE_S
) -> Any:
    """The first true answer of the condition; a test that waits in vain says for what."""
    deadline = time.monotonic() + within_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {within_s:g} s in vain for {what}"
        time.sleep(0.01)
    return answer


class Cell:
    """What a scheduler would write, and what it would read."""

    def __init__(self, folder: Path, log: Log | None = None) -> None:
        self.folder = folder
        self.log = log or MemoryLog("test")
        self.log.create_topics()
        self.facts: list[Any] = []
        self.ids: list[str] = []
        self._writer = self.log.writer("scheduler")
        self._reader = self.log.reader(from_the_start([Topic.NODES]))
        self._seq = 0

    def close(self) -> None:
        """Let go of the log."""
        self._reader.close()
        self._writer.close()
        self.log.close()

    def settings(self, node: str = make.NODE, **more: Any) -> AgentSettings:
        """An agent's settings, quick ones."""
        chosen = {
            "gpus": 8,
            "address": "127.0.0.1",
            "heartbeat_interval_s": 0.2,
            "watch_interval_s": 0.1,
            "log_address": "127.0.0.1",
            "min_free_bytes": 0,
            "checkpoints": self.folder / "checkpoints",
            **more,
        }
        return AgentSettings(node=node, folder=self.folder / node, **chosen)

    @contextmanager
    def agent(
        self, node: str = make.NODE, *, log: Log | None = None, **more: Any
    ) -> Iterator[Agent]:
        """An agent in a thread of this process."""
        with self.running(Agent(self.settings(node, **more), log or self.log)) as agent:
            yield agent

    @contextmanager
    def running(self, agent: Agent) -> Iterator[Agent]:
        """This agent, at work."""
        thread = threading.Thread(target=agent.run, name="agent")
        thread.start()
        try:
            yield agent
        finally:
            agent.stop()
            thread.join()

    def assign(self, *members: AssignedMember, node: str = make.NODE) -> None:
        """The next record of a node."""
        self._seq += 1
        body = make.assignment(*members, seq=self._seq, node=node)
        envelope = codec.envelope_for(body, id=str(self._seq), actor="scheduler:test")
        value = codec.encode(Event(envelope=envelope, body=body))
        self._writer.commit([Message(topic=Topic.ASSIGNMENTS, key=node.encode(), value=value)])

    def read(self) -> None:
        """Take in the facts that have come."""
        for record in self._reader.poll(0.02):
            event = codec.decode(record.value)
            if event.envelope.id not in self.ids:
                self.facts.append(event.body)
            self.ids.append(event.envelope.id)

    def wait(self, kind: type[F], job: str = "job", *, node: str = "") -> F:
        """The first fact of this kind about a job, from one node or any."""

        def there() -> F | None:
            self.read()
            return next(
                (
                    fact
                    for fact in self.facts
                    if isinstance(fact, kind)
                    and getattr(fact, "job", job) == job
                    and (not node or getattr(fact, "node", "") == node)
                ),
                None,
            )

        found: F = wait_for(there, what=f"{kind.__name__} of {job}")
        return found

    def kinds(self) -> list[str]:
        """All facts so far by name, each once."""
        self.read()
        return [type(fact).__name__ for fact in self.facts]

    def start(self, order: AssignedMember, *, node: str = make.NODE) -> AssignedMember:
        """Bring a single member through both phases; the order it runs by."""
        self.assign(order, node=node)
        ready = self.wait(MemberReady, order.job)
        run = replace(order, phase=MemberPhase.RUN, address=ready.address, port=ready.port)
        self.assign(run, node=node)
        self.wait(MemberStarted, order.job)
        return run

    def stop(self, run: AssignedMember, *, grace_ms: int, cause: str = "preempted") -> None:
        """Tell a running member to stop."""
        self.assign(replace(run, phase=MemberPhase.STOP, grace_ms=grace_ms, stop_cause=cause))

    def ended(self, job: str = "job") -> MemberExited:
        """How a member ended."""
        return self.wait(MemberExited, job)

    def output(self, order: AssignedMember, rank: int = 0, *, node: str = make.NODE) -> str:
        """What a rank printed."""
        folder = self.folder / node / "attempts" / f"{order.job}.{order.attempt}"
        return (folder / f"rank-{rank}.out").read_text() + (folder / f"rank-{rank}.err").read_text()
