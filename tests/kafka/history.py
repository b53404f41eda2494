"""Clients that remember what they were told, and what a log must hold by their memory.

A service appends facts, each again and again until it is acknowledged. A leader commits batches of
a decision and an assignment, and recovers as leaders do: after an unknown outcome it opens a new
writer and reads what there is. The judge is their history, nothing that the log says of itself.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from gangline.events.log import LogError, Message, Topic, TopicPartition
from gangline.events.reading import read_to_ends

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from gangline.events.kafka import KafkaLog
    from gangline.events.log import Writer

JOBS = TopicPartition(Topic.JOBS, 0)
DECISIONS = TopicPartition(Topic.DECISIONS, 0)
ASSIGNMENTS = TopicPartition(Topic.ASSIGNMENTS, 0)
PATIENCE_S = 60.0


class Clients:
    """A service and a leader at work, each in a thread, until the block ends.

    facts, batches: what was acknowledged, in order. complaints: what they were told instead.
    """

    def __init__(self, log: KafkaLog) -> None:
        self._log = log
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=work.__name__, daemon=True)
            for work in (self._serve, self._lead)
        ]
        self.facts: list[bytes] = []
        self.batches: list[bytes] = []
        self.complaints: list[str] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def progress(self, count: int = 10) -> None:
        """Wait until both got so many more acknowledged."""
        facts, batches = len(self.facts) + count, len(self.batches) + count
        self._until(
            lambda: len(self.facts) >= facts and len(self.batches) >= batches,
            f"no progress beyond {len(self.facts)} facts and {len(self.batches)} batches",
        )

    def complaint(self) -> str:
        """Wait for the next refusal of a fact; what it says."""
        count = len(self.complaints)
        self._until(lambda: len(self.complaints) > count, "nobody complains")
        return self.complaints[count]

    def _until(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"{what}; last complaints: {self.complaints[-3:]}"
            time.sleep(0.05)

    def _serve(self) -> None:
        """Append numbers; each until it is acknowledged."""
        while not self._stop.is_set():
            value = b"%d" % len(self.facts)
            try:
                self._log.append([Message(topic=Topic.JOBS, value=value)])
                self.facts.append(value)
            except LogError as error:
                self.complaints.append(str(error))

    def _lead(self) -> None:
        """Commit numbers; after trouble, go on from what a new writer's log holds."""
        writer: Writer | None = None
        number = 0
        while not self._stop.is_set():
            try:
                if writer is None:
                    writer = self._log.writer("scheduler")
                    number = len(list(read_to_ends(self._log, {DECISIONS: 0})))
                value = b"%d" % number
                writer.commit(
                    [
                        Message(topic=Topic.DECISIONS, value=value),
                        Message(topic=Topic.ASSIGNMENTS, value=value, key=value, partition=0),
                    ]
                )
                self.batches.append(value)
                number += 1
            except LogError:
                writer = None
            self._stop.wait(0.02)
        if writer is not None:
            writer.close()


def judge(log: KafkaLog, clients: Clients) -> None:
    """All that was acknowledged is there once and in order, nothing is torn, nothing is missing."""
    log.writer("scheduler").close()  # settles what may be open
    facts = [record.value for record in read_to_ends(log, {JOBS: 0})]
    # One that was refused may be there too, once more: facts carry ids of their own.
    assert list(dict.fromkeys(facts))[: len(clients.facts)] == clients.facts
    batches = [record.value for record in read_to_ends(log, {DECISIONS: 0})]
    assert batches == [b"%d" % number for number in range(len(batches))]
    assert set(clients.batches) <= set(batches)
    assert len(set(clients.batches)) == len(clients.batches)
    # Unless compacted, assignments stand beside their decisions, each once.
    assert [record.value for record in read_to_ends(log, {ASSIGNMENTS: 0})] == batches
