"""The input topics of a simulated cell, and the order in which a driver reads them.

Facts of one batch are read in the order control, jobs, nodes; a reader that is behind reads by
append time. A hostile log may hold everything twice, and may show its partitions in any order:
within a partition the order always stays.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.events.envelope import Envelope, Event
from gangline.events.log import TOPIC_SETTINGS, Topic
from gangline.events.murmur2 import partition_of_key
from gangline.scheduler.core.inputs import Fact

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_FACTS: Final = 500
"""A reader that is behind takes so many facts at a time."""

_TOPIC_ORDER: Final = {Topic.CONTROL: 0, Topic.JOBS: 1, Topic.NODES: 2}
_NODE_PARTITIONS: Final = TOPIC_SETTINGS[Topic.NODES].partitions


class Batch(NamedTuple):
    """Facts that are read together. last: nothing is left to read after them."""

    facts: tuple[Fact, ...]
    last: bool


@cache
def node_partition(node: str) -> int:
    """The partition of the topic `nodes` that a node's facts stand in."""
    return partition_of_key(node.encode(), _NODE_PARTITIONS)


class InputLog:
    """The topics control, jobs and nodes, with what has not been read yet.

    doubled: everything that is appended from now on is appended twice. shuffled: partitions are
    shown in another order from now on.
    """

    def __init__(self) -> None:
        self.doubled = False
        self.shuffled = False
        self._ends: dict[tuple[str, int], int] = {}
        self._unread: deque[Fact] = deque()
        self._appended = 0
        self._shuffles = 0

    def append_control(self, body: Any, *, now_ms: int) -> None:  # noqa: ANN401
        """An operator states a fact."""
        self._append(Topic.CONTROL, 0, _event(body, self._next_id(), "operator:sim"), now_ms)

    def append_job(self, body: Any, *, now_ms: int) -> None:  # noqa: ANN401
        """A user states a fact; a submission's id is the job's."""
        name = body.job if type(body).__name__ == "JobSubmitted" else self._next_id()
        self._append(Topic.JOBS, 0, _event(body, name, "user:sim"), now_ms)

    def append_node(self, node: str, body: Any, *, now_ms: int) -> None:  # noqa: ANN401
        """A node's agent states a fact."""
        event = _event(body, self._next_id(), f"node:{node}")
        self._append(Topic.NODES, node_partition(node), event, now_ms)

    def append_garbage(self, topic: str, *, now_ms: int) -> None:
        """Bytes arrive that nobody can decode."""
        self._append(topic, 0, None, now_ms)

    def is_read(self) -> bool:
        """Whether nothing is left to read."""
        return not self._unread

    def take(self) -> list[Batch]:
        """Everything unread, as the batches in which it is read now."""
        facts = list(self._unread)
        self._unread.clear()
        if not facts:
            return []
        if len(facts) == 1:
            return [Batch((facts[0],), last=True)]
        if self.shuffled:
            return _as_batches(self._by_partition(facts))
        if facts[0].appended_ms == facts[-1].appended_ms and len(facts) <= BATCH_FACTS:
            facts.sort(key=_by_topic)
            return [Batch(tuple(facts), last=True)]
        facts.sort(key=_by_time)
        return _as_batches(
            [facts[at : at + BATCH_FACTS] for at in range(0, len(facts), BATCH_FACTS)]
        )

    def _next_id(self) -> str:
        self._appended += 1
        return f"fact-{self._appended}"

    def _append(self, topic: str, partition: int, event: Event | None, now_ms: int) -> None:
        problem = "" if event is not None else "no single-object header"
        for _ in range(2 if self.doubled else 1):
            offset = self._ends.get((topic, partition), 0)
            self._ends[topic, partition] = offset + 1
            self._unread.append(Fact(topic, partition, offset, now_ms, event, problem))

    def _by_partition(self, facts: list[Fact]) -> list[list[Fact]]:
        """The facts of each partition together, in an order that is another one each time."""
        parts: dict[tuple[str, int], list[Fact]] = {}
        for fact in facts:
            parts.setdefault((fact.topic, fact.partition), []).append(fact)
        self._shuffles += 1
        keys = sorted(parts, key=lambda key: (_TOPIC_ORDER[Topic(key[0])], key[1]), reverse=True)
        turn = (self._shuffles - 1) // 2 % len(keys)
        keys = keys[turn:] + keys[:turn]
        return [parts[key] for key in keys]


def _event(body: Any, name: str, actor: str) -> Event:  # noqa: ANN401
    return Event(
        envelope=Envelope(id=name, kind=type(body).__name__, version=1, actor=actor), body=body
    )


def _as_batches(groups: Sequence[Sequence[Fact]]) -> list[Batch]:
    last = len(groups) - 1
    return [Batch(tuple(group), last=at == last) for at, group in enumerate(groups)]


def _by_topic(fact: Fact) -> tuple[int, int, int]:
    return _TOPIC_ORDER[Topic(fact.topic)], fact.partition, fact.offset


def _by_time(fact: Fact) -> tuple[int, int, int, int]:
    return (fact.appended_ms, *_by_topic(fact))
