"""Appending to partitions kept in tables, and reading them."""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

from gangline.events.layout import (
    check_cell,
    check_cursors,
    partitions_of,
    place,
    resolve_cursor,
)
from gangline.events.log import (
    TOPIC_SETTINGS,
    CommitUnknownError,
    FencedError,
    LogError,
    Message,
    Position,
    Record,
    Topic,
    TopicPartition,
    TopicsMissingError,
)
from gangline.events.named_sql import load_sql
from gangline.events.postgres_log.wire import (
    LISTEN,
    Bell,
    Connection,
    Pool,
    connect,
    explain,
    one_line,
)
from gangline.events.reading import FairQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_SQL = load_sql("gangline.events.postgres_log", "log.sql")
_Row: TypeAlias = tuple[Any, ...]

APPEND_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.25
"""A NOTIFY may be lost (it is never repeated), so readers look by themselves this often."""
RECONNECT_INTERVAL_S = 0.1
FETCH_BYTES = 8_000_000
ROWS_AT_ONCE = 500
_ROW = b"(%s, %s, %s, %s, %s, %s, %s)"


class PostgresLog:
    """A `Log` in the schema gangline_log of a database; contacts it only when that is needed."""

    def __init__(self, url: str, cell: str) -> None:
        self._url = url
        self._cell = check_cell(cell)
        self._ids: dict[TopicPartition, int] = {}
        self._bell = Bell(url)
        self._pool = Pool(url)

    def create_topics(self) -> None:
        """Make the schema and this cell's partitions where they are missing."""
        with self._explained(), connect(self._url) as connection, connection.transaction():
            connection.execute(_SQL["lock_schema"])
            for name, statement in _SQL.items():
                if name.startswith("create_") and name != "create_partition":
                    connection.execute(statement)
            for each in partitions_of(Topic):
                row = {"cell": self._cell, "topic": each.topic, "partition": each.partition}
                connection.execute(_SQL["create_partition"], row)
        self._select_partitions()

    def append(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Append facts; tried again when the connection is lost, and still not twice."""
        if not messages:
            return ()
        placed = self._place(messages)
        deadline = time.monotonic() + APPEND_TIMEOUT_S
        while True:
            attempt = _Insert()
            try:
                with self._pool.lend() as connection, connection.transaction():
                    attempt.run(connection, placed)
            except psycopg.Error as error:
                if not self._happened(attempt, error, deadline):
                    time.sleep(RECONNECT_INTERVAL_S)
                    continue
            self._bell.ring()
            return attempt.positions

    def reader(self, cursors: Mapping[TopicPartition, int]) -> PostgresReader:
        """A reader of exactly these partitions from these offsets on."""
        self._partition_ids()
        reader = PostgresReader(self._url, self._ids, self._resolve(cursors), self._resolve)
        with self._explained():
            reader.connect()
        return reader

    def ends(self, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
        """For each partition, the offset after the last committed record; all of one moment."""
        kept = self._select_partitions()
        return {partition: kept[partition][1] for partition in partitions_of(topics)}

    def writer(self, role: str) -> PostgresWriter:
        """A new writer of the role.

        Waits for a commit of the older one that has begun (it holds the row), then fences it. A
        lock that lives as long as its connection would not do: its holder may lose it and still
        write.
        """
        self._partition_ids()
        with self._explained():
            connection = connect(self._url)
            row = connection.execute(
                _SQL["open_writer"], {"cell": self._cell, "role": role}
            ).fetchone()
        return PostgresWriter(self, connection, role=role, term=row[0] if row else 0)

    def maintain(self) -> None:
        """What a broker does in the background: drop what is past retention, compact."""
        ids = self._partition_ids()
        compacted = [ids[each] for each in ids if TOPIC_SETTINGS[Topic(each.topic)].compacted]
        with self._explained(), self._pool.lend() as connection:
            connection.execute(_SQL["compact"], {"partition_ids": compacted})
            for each, partition_id in ids.items():
                retention_ms = TOPIC_SETTINGS[Topic(each.topic)].retention_ms
                if retention_ms >= 0:
                    row = {"partition_id": partition_id, "retention_ms": retention_ms}
                    with connection.transaction():
                        connection.execute(_SQL["lock_partition"], row)
                        connection.execute(_SQL["expire"], row)

    def close(self) -> None:
        """Let go of the pool and the bell; who opened a reader or a writer closes it."""
        self._bell.close()
        self._pool.close()

    def commit_for(
        self,
        connection: psycopg.Connection[Any],
        term: tuple[str, int],
        messages: Sequence[Message],
    ) -> Sequence[Position]:
        """A writer's commit; `term`: its role and number."""
        placed, insert = self._place(messages), _Insert()
        with connection.transaction():
            # Checked on the locked row in every commit: nothing rests on an isolation level or on
            # what this process believes about itself.
            row = connection.execute(
                _SQL["lock_writer"], {"cell": self._cell, "role": term[0]}
            ).fetchone()
            if row is None or row[0] != term[1]:
                raise FencedError(
                    f"a newer {term[0]} than term {term[1]} writes to cell {self._cell}"
                )
            insert.run(connection, placed)
        self._bell.ring()
        return insert.positions

    def _happened(self, attempt: _Insert, error: psycopg.Error, deadline: float) -> bool:
        """Whether an append that failed is in the log all the same: asked, not guessed.

        A connection lost in COMMIT says nothing about it; the server knows the transaction's fate.
        """
        while time.monotonic() < deadline:
            if isinstance(error, psycopg.ProgrammingError | psycopg.DataError):
                break
            try:
                status = self._status(attempt.transaction_id)
            except psycopg.Error as another:
                error = another
            else:
                if status != "in progress":
                    return status == "committed"
            time.sleep(RECONNECT_INTERVAL_S)
        raise explain(self._url, error) from error

    def _status(self, transaction_id: str) -> str:
        """What became of a transaction; one that never got a number was aborted."""
        if not transaction_id:
            return "aborted"
        with self._pool.lend() as connection:
            row = connection.execute(
                _SQL["transaction_status"], {"transaction_id": transaction_id}
            ).fetchone()
        return str(row[0]) if row else "aborted"

    def _place(self, messages: Sequence[Message]) -> list[tuple[int, TopicPartition, Message]]:
        """Each message with its partition and the partition's row."""
        ids = self._partition_ids()
        names = place(messages)
        return [(ids[name], name, each) for name, each in zip(names, messages, strict=True)]

    def _partition_ids(self) -> Mapping[TopicPartition, int]:
        """The rows of this cell's partitions, read once."""
        if not self._ids:
            self._select_partitions()
        return self._ids

    def _select_partitions(self) -> dict[TopicPartition, tuple[int, int]]:
        """For each partition the first offset kept and the next one given; checks their layout."""
        with self._explained(), self._pool.lend() as connection:
            rows = connection.execute(_SQL["select_partitions"], {"cell": self._cell}).fetchall()
        found = {TopicPartition(row[1], row[2]): row for row in rows}
        if list(found) != list(partitions_of(Topic)):
            raise TopicsMissingError(
                f"cell {self._cell} has no topics or other ones: `gangline init` makes them"
            )
        self._ids = {each: row[0] for each, row in found.items()}
        return {each: (row[3], row[4]) for each, row in found.items()}

    def _resolve(self, cursors: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where reading really begins."""
        kept = self._select_partitions()
        return {
            each: resolve_cursor(each, offset, start=kept[each][0], end=kept[each][1])
            for each, offset in check_cursors(cursors).items()
        }

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the database as errors of the log, one line each."""
        try:
            yield
        except psycopg.Error as error:
            raise explain(self._url, error) from error


class _Insert:
    """The rows of one append, and what is known about it so far."""

    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.transaction_id = ""

    def run(
        self,
        connection: psycopg.Connection[Any],
        placed: Sequence[tuple[int, TopicPartition, Message]],
    ) -> None:
        """Take offsets in order of the partitions' rows (so nobody deadlocks), then insert.

        Not by executemany: psycopg makes a pipeline of that, and after a pipeline the server does
        not notice that a transaction stands idle (seen with Postgres 18), so that a client that was
        stopped before its commit kept its locks for as long as it liked.
        """
        rows, nexts = [], self._reserve(connection, [each[0] for each in placed])
        for partition_id, name, message in placed:
            offset, appended_ms = nexts[partition_id]
            nexts[partition_id] = (offset + 1, appended_ms)
            names = [header[0] for header in message.headers]
            values = [header[1] for header in message.headers]
            head = (partition_id, offset, appended_ms, message.key, message.value)
            rows.append((*head, names, values))
            self.positions.append(Position(*name, offset))
        for first in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[first : first + ROWS_AT_ONCE]
            statement = _SQL["insert"] + b", ".join([_ROW] * len(some))
            connection.execute(statement, list(chain.from_iterable(some)))

    def _reserve(
        self, connection: psycopg.Connection[Any], partition_ids: Sequence[int]
    ) -> dict[int, tuple[int, int]]:
        """For each partition its first new offset and the time; their rows are locked from here."""
        nexts = {}
        for partition_id in sorted(set(partition_ids)):
            row = connection.execute(
                _SQL["reserve"],
                {"partition_id": partition_id, "count": partition_ids.count(partition_id)},
            ).fetchone()
            if row is None:
                raise TopicsMissingError(f"partition {partition_id} of the log is gone")
            nexts[partition_id] = (row[0], row[1])
            self.transaction_id = row[2]
        return nexts


class PostgresReader:
    """A `Reader` with a connection of its own, in autocommit.

    In autocommit because a listener inside a long transaction would keep the server from cleaning
    up notifications, until NOTIFY fails for everybody.
    """

    def __init__(
        self,
        url: str,
        ids: Mapping[TopicPartition, int],
        cursors: Mapping[TopicPartition, int],
        resolve: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]],
    ) -> None:
        self._url = url
        self._ids = ids
        self._resolve = resolve
        self._queue = FairQueue(cursors)
        self._connection: Connection | None = None
        self._closed = False

    def connect(self) -> Connection:
        """The connection; LISTEN comes first and reading after it, also after each reconnect.

        The other way round, what is appended between the two would be neither read nor announced.
        """
        if self._connection is None or self._connection.closed:
            connection = connect(self._url)
            connection.execute(LISTEN)
            self._connection = connection
        return self._connection

    def poll(self, timeout_s: float, *, limit: int = 1000) -> Sequence[Record]:
        """At most `limit` records; waits up to `timeout_s`, lost connections included."""
        self._check_open()
        deadline = time.monotonic() + timeout_s
        while not self._filled(limit):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return ()
            self._wait(left_s)
        return self._queue.take(limit)

    def seek(self, cursors: Mapping[TopicPartition, int]) -> None:
        """Read on from these offsets instead; partitions not named keep theirs."""
        self._check_open()
        self._queue.seek(self._resolve(cursors))

    def positions(self) -> Mapping[TopicPartition, int]:
        """For each partition, the offset before which everything was given out."""
        return self._queue.positions()

    def close(self) -> None:
        """Let go of the connection; further calls are errors."""
        self._closed = True
        self._disconnect()

    def _filled(self, limit: int) -> bool:
        """Whether records wait, after fetching what there is; a lost connection brings none."""
        try:
            return self._fill(limit)
        except psycopg.ProgrammingError as error:
            raise explain(self._url, error) from error
        except psycopg.Error:
            self._disconnect()
            return len(self._queue) > 0

    def _fill(self, limit: int) -> bool:
        """Fetch up to `limit` records of each partition; true when some wait."""
        if len(self._queue) < limit:
            wanted = self._queue.fetched()
            rows = self.connect().execute(
                _SQL["fetch"],
                {
                    "partition_ids": [self._ids[each] for each in wanted],
                    "offsets": list(wanted.values()),
                    "limit": limit,
                    "max_bytes": FETCH_BYTES,
                },
            )
            for _, group in groupby(rows, key=itemgetter(0, 1)):
                self._add(wanted, list(group), limit)
        return len(self._queue) > 0

    def _add(self, wanted: Mapping[TopicPartition, int], rows: list[_Row], limit: int) -> None:
        """Queue one partition's rows; what they leave out up to its end are holes."""
        name, start, end = TopicPartition(rows[0][0], rows[0][1]), rows[0][2], rows[0][3]
        resolve_cursor(name, wanted[name], start=start, end=end)
        records = [_record(row) for row in rows if row[4] is not None]
        for record in records:
            self._queue.add(record)
        if len(records) < limit and sum(len(each.value) for each in records) < FETCH_BYTES:
            self._queue.skip_to(name, end)

    def _wait(self, left_s: float) -> None:
        """Until the bell rings, or it is time to look or connect again; several rings are one."""
        if self._connection is None:
            time.sleep(min(left_s, RECONNECT_INTERVAL_S))
            return
        try:
            for _ in self._connection.notifies(timeout=min(left_s, POLL_INTERVAL_S), stop_after=1):
                pass
        except psycopg.Error:
            self._disconnect()

    def _disconnect(self) -> None:
        """Close the connection, whatever state it is in."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _check_open(self) -> None:
        if self._closed:
            raise LogError("this reader is closed")


def _record(row: _Row) -> Record:
    """A record from a row of `fetch`."""
    return Record(
        topic=row[0],
        partition=row[1],
        offset=row[4],
        appended_ms=row[5],
        key=row[6],
        value=row[7],
        headers=tuple(zip(row[8], row[9], strict=True)),
    )


class PostgresWriter:
    """The `Writer` of a role: a connection, and the term it was opened with."""

    def __init__(self, log: PostgresLog, connection: Connection, *, role: str, term: int) -> None:
        self._log = log
        self._connection = connection
        self._term = (role, term)

    def commit(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Make all of them visible, or none; after any trouble the writer is done."""
        if self._connection.closed:
            raise LogError("this writer is closed or has lost its connection: open a new one")
        try:
            return self._log.commit_for(self._connection, self._term, messages)
        except FencedError:
            self.close()
            raise
        except psycopg.Error as error:
            self.close()
            raise CommitUnknownError(
                f"a commit's outcome is not known: {one_line(error)}"
            ) from error

    def close(self) -> None:
        """Let go of the connection; further calls are errors."""
        self._connection.close()
