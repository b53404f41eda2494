"""What readers of all drivers share: fair shares between partitions, and reading to the end."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from gangline.events.layout import partitions_of
from gangline.events.log import Log, LogUnreachableError, Record, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class FairQueue:
    """Records that were fetched and not yet given out, a queue for each partition.

    `take` gives every partition that has records an equal share, so that a long backlog of one
    keeps nobody else waiting. When the limit is smaller than the number of waiting partitions, the
    next call goes on with the partition after the last one served.
    """

    def __init__(self, cursors: Mapping[TopicPartition, int]) -> None:
        self._queues: dict[TopicPartition, deque[Record]] = {}
        self._fetched: dict[TopicPartition, int] = {}
        self._last_served: TopicPartition | None = None
        self.size_bytes = 0
        self.seek(cursors)

    def __len__(self) -> int:
        """How many records wait."""
        return sum(map(len, self._queues.values()))

    def seek(self, cursors: Mapping[TopicPartition, int]) -> None:
        """Forget what waits of these partitions; fetching goes on from these offsets."""
        for partition, offset in cursors.items():
            self.size_bytes -= sum(len(each.value) for each in self._queues.get(partition, ()))
            self._queues[partition] = deque()
            self._fetched[partition] = offset
        self._queues = dict(sorted(self._queues.items()))

    def add(self, record: Record) -> None:
        """Put a fetched record in; one that was there before (a fetch repeated) is left out."""
        partition = TopicPartition(record.topic, record.partition)
        if record.offset >= self._fetched[partition]:
            self._queues[partition].append(record)
            self.size_bytes += len(record.value)
            self._fetched[partition] = record.offset + 1

    def skip_to(self, partition: TopicPartition, offset: int) -> None:
        """Note that no record stands between the last one fetched and this offset."""
        self._fetched[partition] = max(self._fetched[partition], offset)

    def fetched(self) -> dict[TopicPartition, int]:
        """For each partition, the offset to fetch next."""
        return dict(self._fetched)

    def positions(self) -> dict[TopicPartition, int]:
        """For each partition, the offset before which everything was given out."""
        return {
            partition: queue[0].offset if queue else self._fetched[partition]
            for partition, queue in self._queues.items()
        }

    def take(self, limit: int) -> Sequence[Record]:
        """At most so many records, grouped by partition in order of topic and partition."""
        taken: dict[TopicPartition, list[Record]] = {partition: [] for partition in self._queues}
        left = limit
        while left > 0 and (waiting := self._waiting()):
            share = max(1, left // len(waiting))
            for partition in waiting[:left]:
                queue = self._queues[partition]
                count = min(share, len(queue))
                taken[partition].extend(queue.popleft() for _ in range(count))
                left -= count
                self._last_served = partition
        records = [record for group in taken.values() for record in group]
        self.size_bytes -= sum(len(record.value) for record in records)
        return records

    def _waiting(self) -> list[TopicPartition]:
        """The partitions with records, beginning after the last one served."""
        waiting = [partition for partition, queue in self._queues.items() if queue]
        last = self._last_served
        if last is None:
            return waiting
        later = [partition for partition in waiting if partition > last]
        return later + [partition for partition in waiting if partition <= last]


def read_to_ends(
    log: Log, cursors: Mapping[TopicPartition, int], *, timeout_s: float = 30.0
) -> Iterator[Record]:
    """Every record from the cursors to the ends seen at the call.

    timeout_s: how long to wait for the next record (not for all), before LogUnreachableError.
    """
    ends = log.ends(sorted({partition.topic for partition in cursors}))
    reader = log.reader(cursors)
    try:
        deadline = time.monotonic() + timeout_s
        while behind(reader.positions(), ends):
            for record in reader.poll(0.2):
                if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    yield record
                deadline = time.monotonic() + timeout_s
            if time.monotonic() > deadline:
                raise LogUnreachableError(
                    f"no record came for {timeout_s:g} s, though the log goes on to {dict(ends)}"
                )
    finally:
        reader.close()


def behind(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """The partitions of which a reader has not yet given out everything before these ends."""
    return [partition for partition, at in positions.items() if at < ends[partition]]


def from_the_start(topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Cursors that read these topics from the start of what is kept."""
    return dict.fromkeys(partitions_of(topics), 0)
