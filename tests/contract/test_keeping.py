"""What a log may forget: old keys of compacted topics, and records past their retention.

Kafka does this by itself, some time; the other two when `maintain` is called.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from gangline.events.log import (
    TOPIC_SETTINGS,
    Message,
    OffsetOutOfRangeError,
    Topic,
    TopicPartition,
)
from gangline.events.memory import MemoryLog, wall_clock_ms
from gangline.events.postgres_log import PostgresLog
from gangline.events.reading import behind, from_the_start
from tests.contract.conftest import JOBS, job, read_all, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.log import Record

KEPT_MS = TOPIC_SETTINGS[Topic.HEARTBEATS].retention_ms
BEATS = TopicPartition(Topic.HEARTBEATS, 0)
ASSIGNMENTS = from_the_start([Topic.ASSIGNMENTS])


class Clock:
    """The time that the log in memory is told."""

    def __init__(self) -> None:
        self.now_ms = wall_clock_ms()

    def __call__(self) -> int:
        """Now, in milliseconds since the epoch."""
        return self.now_ms


class Aging:
    """A log whose records can be made older than they are."""

    def __init__(self, log: MemoryLog | PostgresLog, clock: Clock, url: str = "") -> None:
        self.log = log
        self._clock = clock
        self._url = url

    def age(self, by_ms: int) -> None:
        """Let time pass."""
        self._clock.now_ms += by_ms
        if self._url:
            with psycopg.connect(self._url) as connection:
                statement = "UPDATE gangline_log.records SET appended_ms = appended_ms - %s"
                connection.execute(statement, (by_ms,))


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres)])
def aging(request: pytest.FixtureRequest) -> Iterator[Aging]:
    """Give a log of each kind that is maintained on demand."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        aging = Aging(PostgresLog(url, "main"), Clock(), url)
    else:
        clock = Clock()
        aging = Aging(MemoryLog(clock=clock), clock)
    aging.log.create_topics()
    yield aging
    aging.log.close()


def beat(value: bytes) -> Message:
    """A heartbeat."""
    return Message(topic=Topic.HEARTBEATS, value=value, partition=0)


def want(key: bytes, value: bytes) -> Message:
    """What a node should run."""
    return Message(topic=Topic.ASSIGNMENTS, key=key, value=value)


def test_the_newest_record_of_a_key_is_kept(aging: Aging) -> None:
    """Older ones go; offsets keep their places, so holes are left."""
    log = aging.log
    log.append([want(b"n%d" % (number % 3), b"%d" % number) for number in range(9)])
    before = {record.position: record.value for record in read_all(log, ASSIGNMENTS)}
    ends = log.ends([Topic.ASSIGNMENTS])
    log.maintain()
    after = {record.position: record.value for record in read_all(log, ASSIGNMENTS)}
    assert sorted(after.values()) == [b"6", b"7", b"8"]
    assert after.items() <= before.items()
    assert log.ends([Topic.ASSIGNMENTS]) == ends
    aging.age(10 * KEPT_MS)
    log.maintain()
    assert len(read_all(log, ASSIGNMENTS)) == 3


def test_a_reader_comes_to_the_end_across_holes(aging: Aging) -> None:
    """Positions reach the ends though fewer records come than the offsets would say."""
    log = aging.log
    log.append([want(b"same", b"%d" % number) for number in range(20)])
    log.maintain()
    reader, ends = log.reader(ASSIGNMENTS), log.ends([Topic.ASSIGNMENTS])
    found: list[Record] = []
    deadline = time.monotonic() + 5
    while behind(reader.positions(), ends) and time.monotonic() < deadline:
        found += reader.poll(0.1)
    assert values(found) == [b"19"]
    assert reader.positions() == ends
    reader.close()


def test_records_past_their_retention_go(aging: Aging) -> None:
    """Heartbeats are kept for days; reading from 0 means from the oldest that is kept."""
    log = aging.log
    log.append([beat(b"old"), beat(b"old too")])
    aging.age(KEPT_MS + 1)
    log.append([beat(b"new")])
    log.maintain()
    assert values(read_all(log, {BEATS: 0})) == [b"new"]
    assert log.ends([Topic.HEARTBEATS])[BEATS] == 3
    with pytest.raises(OffsetOutOfRangeError, match="holds offsets 2 to 3, not 1"):
        log.reader({BEATS: 1})


def test_everything_may_have_gone(aging: Aging) -> None:
    """An emptied partition goes on from its end."""
    log = aging.log
    log.append([beat(b"old")])
    aging.age(KEPT_MS + 1)
    log.maintain()
    assert read_all(log, {BEATS: 0}) == []
    assert log.append([beat(b"new")])[0].offset == 1
    assert values(read_all(log, {BEATS: 0})) == [b"new"]


def test_a_slow_reader_learns_what_it_missed(aging: Aging) -> None:
    """One that retention has overtaken gets an error; it never skips without a word."""
    log = aging.log
    log.append([beat(b"1"), beat(b"2"), beat(b"3")])
    reader = log.reader({BEATS: 1})
    aging.age(KEPT_MS + 1)
    log.append([beat(b"4")])
    log.maintain()
    with pytest.raises(OffsetOutOfRangeError):
        reader.poll(1)
    reader.close()


def test_what_is_kept_for_ever_is_kept(aging: Aging) -> None:
    """Jobs, control, nodes and decisions neither age nor are they compacted."""
    log = aging.log
    log.append([job(b"1"), job(b"2")])
    aging.age(100 * KEPT_MS)
    log.maintain()
    assert values(read_all(log, {JOBS: 0})) == [b"1", b"2"]
