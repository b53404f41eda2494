"""A broker that is stopped and comes back: nothing lost, nothing twice, everybody goes on."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from gangline.cli import local_kafka
from gangline.cli.local_process import Lifetime, LocalServerError
from gangline.events.kafka import KafkaLog
from gangline.events.log import (
    CommitUnknownError,
    LogUnreachableError,
    Message,
    Topic,
    TopicPartition,
)
from gangline.events.reading import read_to_ends
from tests.support.kafka import CACHE, no_broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gangline.events.log import Record

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
JOBS = TopicPartition(Topic.JOBS, 0)
DECISIONS = TopicPartition(Topic.DECISIONS, 0)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Give the folder of a broker that this test may stop and start."""
    try:
        start(tmp_path)
    except LocalServerError as error:
        no_broker(error)
    yield tmp_path
    local_kafka.stop(tmp_path)


def start(directory: Path) -> str:
    """Start the folder's broker; its address, which stays the same."""
    broker = local_kafka.start(directory, cache=CACHE, lifetime=Lifetime.WITH_STARTER)
    return broker.bootstrap


def test_a_broker_restarts(directory: Path) -> None:
    """Facts wait for it or are refused, a commit is unknown, readers find their way back."""
    log = KafkaLog(start(directory), "main")
    log.create_topics()
    reader, writer = log.reader({JOBS: 0}), log.writer("scheduler")
    writer.commit([Message(topic=Topic.DECISIONS, value=b"1")])
    acknowledged: list[bytes] = []
    stopped = threading.Event()

    def append() -> None:
        number = 0
        while not stopped.is_set():
            value = b"%d" % number
            try:
                log.append([Message(topic=Topic.JOBS, value=value)])
                acknowledged.append(value)
                number += 1
            except LogUnreachableError:
                continue  # with the same value: facts are repeated until they are acknowledged

    appender = threading.Thread(target=append)
    appender.start()
    time.sleep(1)
    local_kafka.stop(directory)
    while_away = len(acknowledged)
    with pytest.raises(LogUnreachableError):
        log.ends([Topic.JOBS])  # never an offset that is none
    start(directory)
    deadline = time.monotonic() + 30
    while len(acknowledged) < while_away + 20 and time.monotonic() < deadline:
        time.sleep(0.1)
    stopped.set()
    appender.join()
    assert len(acknowledged) >= while_away + 20

    with pytest.raises(CommitUnknownError):
        writer.commit([Message(topic=Topic.DECISIONS, value=b"2")])
    log.writer("scheduler").commit([Message(topic=Topic.DECISIONS, value=b"3")])

    found: list[Record] = []
    while not found or found[-1].value != acknowledged[-1]:
        records = reader.poll(10)
        assert records
        found += records
    # One that was refused may be there too, once more: facts carry ids of their own.
    assert list(dict.fromkeys(record.value for record in found)) == acknowledged
    assert found == list(read_to_ends(log, {JOBS: 0}))
    log.writer("scheduler").close()
    values = [record.value for record in read_to_ends(log, {DECISIONS: 0})]
    assert values in ([b"1", b"3"], [b"1", b"2", b"3"])
    reader.close()
    log.close()
