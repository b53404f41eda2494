"""A cell on any bus, and how that bus loses the beginning of its partitions."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from gangline.events.bus import open_log
from gangline.events.log import Topic
from gangline.events.memory import MemoryLog
from tests.scheduler.cell import Cell
from tests.support.buses import DRIVERS, url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gangline.events.log import Log, TopicPartition

SETTLED_WITHIN_S = 20.0
_cells = itertools.count(1)


class Site:
    """A cell on a bus, and how that bus loses the beginning of its partitions."""

    def __init__(self, bus: str, url: str) -> None:
        self.bus = bus
        self.url = url
        self.name = f"archive-{next(_cells)}"
        log = MemoryLog(self.name) if bus == "memory" else open_log(url, self.name)
        self.cell = Cell(log)

    @property
    def log(self) -> Log:
        """Its log."""
        return self.cell.log

    def go_on(self, *jobs: str) -> None:
        """A leader answers some jobs while nodes beat, and is gone again."""
        scheduler = self.cell.scheduler(f"of-{jobs[0]}")
        self.cell.led_by(scheduler)
        self.cell.admit(f"node-{jobs[0]}")
        for job in jobs:
            self.cell.submit(job)
            self.cell.heartbeat(f"node-{jobs[0]}")
            self.cell.run(scheduler, ms=200)
        scheduler.close()
        self._settle()

    def _settle(self) -> None:
        """On Kafka what was committed is not seen before the brokers have marked it."""
        unsettled = getattr(self.log, "unsettled", None)
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while unsettled is not None and any(
            unsettled([Topic.DECISIONS, Topic.ASSIGNMENTS]).values()
        ):
            assert time.monotonic() < deadline, "a transaction is not marked as committed"
            time.sleep(0.02)

    def forget(self, ends: Mapping[TopicPartition, int]) -> None:
        """The log loses what is before these offsets."""
        forgets: dict[str, Callable[[Mapping[TopicPartition, int]], None]] = {
            "memory": self._forget_memory,
            "postgres": self._forget_postgres,
            "kafka": self._forget_kafka,
        }
        forgets[self.bus]({p: end for p, end in ends.items() if end})

    def _forget_memory(self, ends: Mapping[TopicPartition, int]) -> None:
        store: Any = self.log
        for partition, end in ends.items():
            kept = store._store.partitions[partition]
            kept.records = [record for record in kept.records if record.offset >= end]
            kept.start = end

    def _forget_postgres(self, ends: Mapping[TopicPartition, int]) -> None:
        with psycopg.connect(self.url) as connection:
            for partition, end in ends.items():
                row = {"c": self.name, "t": str(partition.topic), "p": partition.partition}
                connection.execute(
                    'DELETE FROM gangline_log.records WHERE "offset" < %(end)s AND partition_id = '
                    "(SELECT partition_id FROM gangline_log.partitions WHERE cell = %(c)s AND "
                    "topic = %(t)s AND partition = %(p)s)",
                    {**row, "end": end},
                )
                connection.execute(
                    "UPDATE gangline_log.partitions SET start_offset = %(end)s "
                    "WHERE cell = %(c)s AND topic = %(t)s AND partition = %(p)s",
                    {**row, "end": end},
                )

    def _forget_kafka(self, ends: Mapping[TopicPartition, int]) -> None:
        admin = AdminClient({"bootstrap.servers": self.url.removeprefix("kafka://")})
        gone = [
            KafkaPartition(f"gangline.{self.name}.{p.topic}", p.partition, end)
            for p, end in ends.items()
        ]
        for done in admin.delete_records(gone).values():
            done.result()


@pytest.fixture(params=DRIVERS)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """A cell of its own on each bus in turn."""
    made = Site(request.param, url_of(request))
    yield made
    made.log.close()


def memory_site(*jobs: str) -> Site:
    """A cell in memory that has answered some jobs."""
    made = Site("memory", "")
    made.go_on(*jobs)
    return made
