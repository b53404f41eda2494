"""The bus behind faulty lines: one log in memory, and for each process a way to it that may fail.

Everything here stays within what the `Log` protocol allows, and uses all of it: an append that
failed may have landed, or part of it, or lands later; a commit whose answer is lost is visible or
not, or torn, or becomes so later unless a newer writer of its role settles it first; a reader may
be given the partitions at different moments, each in its own order. A line may be cut for what goes
out, for what comes in, or both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gangline.events.log import (
    CommitUnknownError,
    FencedError,
    LogError,
    LogUnreachableError,
    Topic,
    TopicPartition,
)
from gangline.events.memory import MemoryLog
from gangline.replay.vopr.clock import START_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from gangline.events.log import Message, Position, Record
    from gangline.events.memory import MemoryReader, MemoryWriter
    from gangline.replay.vopr.clock import Timeline

CELL: Final = "sim"
LATEST_MS: Final = 4_000
"""So late may something land that its sender has given up; a machine takes longer to boot."""

STALLS: Final = (1, 2, 5, 30, 60)
"""For so many polls a partition may give nothing though there is something."""


@dataclass(slots=True)
class Weather:
    """How often lines fail, each from 0 to 1: a request, an append twice, a partition's news."""

    failing: float = 0.0
    doubling: float = 0.0
    stalling: float = 0.0


class Bus:
    """The log itself, and what is still on its way to it.

    watch: called whenever something has landed. wobble_ms: how far the broker's clock is off.
    ends: after the last record of each partition that has any. torn: the newest batch is there
    without its assignments, until a new leader mends that.
    """

    def __init__(self, timeline: Timeline, chance: Random, weather: Weather) -> None:
        self.timeline = timeline
        self.chance = chance
        self.weather = weather
        self.wobble_ms = 0
        self.ends: dict[TopicPartition, int] = {}
        self.torn = False
        self.watch: Callable[[], None] = lambda: None
        self.log = MemoryLog(CELL, clock=self._broker_ms)
        self.log.create_topics()
        self._held: dict[str, list[tuple[MemoryWriter, Sequence[Message]]]] = {}

    def _broker_ms(self) -> int:
        return START_MS + self.timeline.now_ms + self.wobble_ms

    def land(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Messages have arrived."""
        return self._landed(self.log.append(messages))

    def commit(self, writer: MemoryWriter, messages: Sequence[Message]) -> Sequence[Position]:
        """A commit has arrived."""
        positions = writer.commit(messages)
        if any(message.topic == Topic.ASSIGNMENTS for message in messages):
            self.torn = False
        return self._landed(positions)

    def _landed(self, positions: Sequence[Position]) -> Sequence[Position]:
        for topic, partition, offset in positions:
            self.ends[TopicPartition(topic, partition)] = offset + 1
        self.watch()
        return positions

    def land_later(self, messages: Sequence[Message]) -> None:
        """Messages whose sender has given up are still on their way."""
        self.timeline.after(self._delay_ms(), lambda: void(self.land(messages)))

    def hold(self, role: str, writer: MemoryWriter, messages: Sequence[Message]) -> None:
        """A commit whose outcome nobody knows: it lands some time, unless it is settled before."""
        entry = (writer, messages)
        self._held.setdefault(role, []).append(entry)

        def land() -> None:
            if entry in self._held[role]:
                self._held[role].remove(entry)
                self._try(writer, messages)

        self.timeline.after(self._delay_ms(), land)

    def tear(self, writer: MemoryWriter, messages: Sequence[Message]) -> None:
        """Of a commit only the decisions are there, as when a broker ends it at the wrong place."""
        decisions = [message for message in messages if message.topic == Topic.DECISIONS]
        if decisions:
            self.torn = len(decisions) < len(messages)
            self.commit(writer, decisions)

    def open(self, role: str) -> MemoryWriter:
        """A new writer: what older ones left becomes visible now, or never."""
        for writer, messages in self._held.pop(role, []):
            if self.chance.random() < 0.5:
                self._try(writer, messages)
        self._held[role] = []
        return self.log.writer(role)

    def _try(self, writer: MemoryWriter, messages: Sequence[Message]) -> None:
        try:
            self.commit(writer, messages)
        except FencedError:
            return

    def _delay_ms(self) -> int:
        return self.chance.randrange(1, LATEST_MS)


def void(_value: object) -> None:
    """Nobody wants to know."""


class Line:
    """One process's way to the log: a `Log`. out, back: whether requests and answers get through.

    tears: the next commit that tells nodes something is torn.
    """

    def __init__(self, bus: Bus, name: str) -> None:
        self.bus = bus
        self.name = name
        self.out = True
        self.back = True
        self.tears = False

    @property
    def whole(self) -> bool:
        """Whether it can be read through: a question goes out and its answer comes back."""
        return self.out and self.back

    def fails(self) -> bool:
        """Whether the next request is one that fails."""
        return self.bus.chance.random() < self.bus.weather.failing

    def _ask(self) -> None:
        if not self.whole or self.fails():
            raise LogUnreachableError(f"{self.name} cannot reach the log")

    def create_topics(self) -> None:
        """They are there."""

    def append(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Append; LogUnreachableError may mean anything."""
        bus = self.bus
        if self.out and not self.back:
            bus.land(messages)
        if not self.whole:
            raise LogUnreachableError(f"{self.name} cannot reach the log")
        if self.fails():
            self._half_append(messages)
            raise LogUnreachableError(f"{self.name} got no answer")
        if bus.chance.random() < bus.weather.doubling:
            bus.land(messages)
        return bus.land(messages)

    def _half_append(self, messages: Sequence[Message]) -> None:
        """Some first ones have landed, or all; what has not may come later."""
        bus = self.bus
        landed = bus.chance.choice((0, 0, len(messages), bus.chance.randrange(len(messages) + 1)))
        if landed:
            bus.land(messages[:landed])
        if landed < len(messages) and bus.chance.random() < 0.5:
            bus.land_later(messages[landed:])

    def reader(self, cursors: Mapping[TopicPartition, int]) -> LineReader:
        """A reader of exactly these partitions."""
        self._ask()
        return LineReader(self, cursors)

    def ends(self, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
        """Where the partitions end."""
        self._ask()
        return self.bus.log.ends(topics)

    def writer(self, role: str) -> LineWriter:
        """A new writer; one that could not be told of it has been opened all the same."""
        if self.out and not self.back:
            self.bus.open(role)
        self._ask()
        return LineWriter(self, role, self.bus.open(role))

    def close(self) -> None:
        """Nothing is held."""


class LineReader:
    """A `Reader` that may be given the partitions at different moments."""

    def __init__(self, line: Line, cursors: Mapping[TopicPartition, int]) -> None:
        self._line = line
        self._readers: dict[TopicPartition, MemoryReader] = {}
        self._stalled: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        self.seek(cursors)

    def poll(self, timeout_s: float, *, limit: int = 1000) -> Sequence[Record]:
        """What there is; never waits, as nothing happens while somebody asks."""
        if not self._line.whole:
            return ()
        ends = self._line.bus.ends
        share = max(1, limit // len(self._readers))
        records: list[Record] = []
        for partition, reader in self._readers.items():
            if self._next[partition] < ends.get(partition, 0) and not self._stalls(partition):
                records += reader.poll(0, limit=share)
                self._next[partition] = reader.positions()[partition]
        return records

    def _stalls(self, partition: TopicPartition) -> bool:
        bus = self._line.bus
        left = self._stalled.get(partition, 0)
        if left:
            self._stalled[partition] = left - 1 if bus.weather.stalling else 0
            return True
        if bus.chance.random() >= bus.weather.stalling:
            return False
        self._stalled[partition] = bus.chance.choice(STALLS)
        return True

    def seek(self, cursors: Mapping[TopicPartition, int]) -> None:
        """Read on from there."""
        log = self._line.bus.log
        self._readers |= {each: log.reader({each: at}) for each, at in cursors.items()}
        self._readers = dict(sorted(self._readers.items()))
        self._next |= {each: self._readers[each].positions()[each] for each in cursors}

    def positions(self) -> Mapping[TopicPartition, int]:
        """What was given out."""
        return dict(self._next)

    def close(self) -> None:
        """Nothing is held."""


class LineWriter:
    """A `Writer` whose answers may be lost."""

    def __init__(self, line: Line, role: str, writer: MemoryWriter) -> None:
        self._line = line
        self._role = role
        self._writer = writer
        self._ended = ""

    def commit(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Commit; after an unknown outcome the writer is done."""
        if self._ended:
            raise LogError(f"this writer {self._ended}: open a new one")
        torn = self._line.tears and any(m.topic == Topic.ASSIGNMENTS for m in messages)
        if torn or not self._line.whole or self._line.fails():
            self._ended = "lost the answer to a commit"
            self._half_commit(messages, torn=torn)
            raise CommitUnknownError(f"{self._line.name} got no answer to a commit")
        return self._line.bus.commit(self._writer, messages)

    def _half_commit(self, messages: Sequence[Message], *, torn: bool) -> None:
        """It has landed, or will, or never does; torn: in part."""
        bus = self._line.bus
        if not self._line.out:
            return
        what = "torn" if torn else bus.chance.choice(("landed", "lost", "late", "torn"))
        self._line.tears = self._line.tears and not torn
        try:
            if what == "landed" or (not self._line.back and not torn):
                bus.commit(self._writer, messages)
            elif what == "torn":
                bus.tear(self._writer, messages)
            elif what == "late":
                bus.hold(self._role, self._writer, messages)
        except FencedError:
            return

    def close(self) -> None:
        """Further calls are errors."""
        self._ended = "is closed"
