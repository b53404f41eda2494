"""The three drivers, each with topics of its own, and what their tests say again and again."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest

from gangline.events.bus import open_log
from gangline.events.log import Message, Topic, TopicPartition
from gangline.events.memory import MemoryLog
from tests.support.buses import DRIVERS, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gangline.events.log import Log, Reader, Record

JOBS = TopicPartition(Topic.JOBS, 0)
DECISIONS = TopicPartition(Topic.DECISIONS, 0)


class Bus:
    """One cell on one driver. `open` gives another client of it, as another process would have."""

    def __init__(self, driver: str, url: str) -> None:
        self.driver = driver
        self.url = url
        self.cell = f"test-{uuid.uuid4().hex[:12]}"
        self._memory = MemoryLog(self.cell)
        self._opened: list[Log] = []

    def open(self) -> Log:
        """A client of the cell, closed when the test ends."""
        log = self._memory if self.driver == "memory" else open_log(self.url, self.cell)
        self._opened.append(log)
        return log

    def close(self) -> None:
        """Close every client."""
        for log in self._opened:
            log.close()


@pytest.fixture(params=DRIVERS)
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    """Give a cell without topics on each driver in turn."""
    bus = Bus(request.param, url_of(request))
    yield bus
    bus.close()


@pytest.fixture
def log(bus: Bus) -> Log:
    """Give a client of a cell that has its topics."""
    log = bus.open()
    log.create_topics()
    return log


def job(value: bytes) -> Message:
    """A message for the topic with one partition."""
    return Message(topic=Topic.JOBS, value=value)


def values(records: Sequence[Record]) -> list[bytes]:
    """What the records say."""
    return [record.value for record in records]


class Limited:
    """A reader that takes only so many records with each poll."""

    def __init__(self, reader: Reader, limit: int) -> None:
        self._reader = reader
        self._limit = limit

    def poll(self, timeout_s: float, *, limit: int = 0) -> Sequence[Record]:
        """As few as was said."""
        return self._reader.poll(timeout_s, limit=limit or self._limit)

    def seek(self, cursors: Mapping[TopicPartition, int]) -> None:
        """As the reader does."""
        self._reader.seek(cursors)

    def positions(self) -> Mapping[TopicPartition, int]:
        """As the reader does."""
        return self._reader.positions()

    def close(self) -> None:
        """As the reader does."""
        self._reader.close()


def read_all(log: Log, cursors: Mapping[TopicPartition, int]) -> list[Record]:
    """Everything there is at this moment, and what a commit just answered may still bring."""
    reader = log.reader(cursors)
    try:
        return read_until(reader, lambda _: False, timeout_s=0.5)
    finally:
        reader.close()


def read_until(
    reader: Reader, enough: Callable[[list[Record]], bool], *, timeout_s: float = 10.0
) -> list[Record]:
    """Poll until it is enough, or nothing has come for some time."""
    records: list[Record] = []
    quiet_since = time.monotonic()
    while not enough(records) and time.monotonic() < quiet_since + timeout_s:
        if found := reader.poll(0.1):
            records.extend(found)
            quiet_since = time.monotonic()
    return records


def read_count(log: Log, cursors: Mapping[TopicPartition, int], count: int) -> list[Record]:
    """So many records, which are known to be there or to be coming."""
    reader = log.reader(cursors)
    try:
        return read_until(reader, lambda records: len(records) >= count)
    finally:
        reader.close()
