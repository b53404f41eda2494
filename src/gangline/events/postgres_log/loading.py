"""Records put into a log as they stand elsewhere: with their own offsets and times.

For histories that were made on simulated time, or kept in a file. Only for a cell that nobody else
appends to in the same partitions: offsets are given, not taken.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from gangline.events.log import Record, Topic, TopicPartition, TopicsMissingError
from gangline.events.named_sql import load_sql
from gangline.events.postgres_log.wire import NOTIFY, connect

if TYPE_CHECKING:
    from collections.abc import Sequence

_SQL = load_sql("gangline.events.postgres_log", "loading.sql")


class Loader:
    """Writes records to a cell's partitions over a connection of its own."""

    def __init__(self, url: str, cell: str) -> None:
        self._connection: Any = connect(url)
        rows = self._connection.execute(_SQL["partitions"], {"cell": cell}).fetchall()
        if len({row[1] for row in rows}) < len(Topic):
            raise TopicsMissingError(f"cell {cell} has no topics: `gangline init` makes them")
        self._ids = {TopicPartition(row[1], row[2]): row[0] for row in rows}

    def load(self, records: Sequence[Record]) -> None:
        """Put them all in, or none; each partition's in the order of their offsets."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            with cursor.copy(_SQL["copy"]) as copy:
                for record in records:
                    copy.write_row(self._row(record))
            ordered = sorted(records, key=_partition)
            for partition, group in groupby(ordered, key=_partition):
                last = max(record.offset for record in group)
                cursor.execute(_SQL["move"], {"partition_id": self._ids[partition], "last": last})
        self._connection.execute(NOTIFY)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def _row(self, record: Record) -> tuple[Any, ...]:
        names = [header[0] for header in record.headers]
        values = [header[1] for header in record.headers]
        head = (self._ids[_partition(record)], record.offset, record.appended_ms)
        return (*head, record.key, record.value, names, values)


def _partition(record: Record) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
