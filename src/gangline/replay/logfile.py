"""A log in a file: one Avro container with the records of all topics.

Each batch stands after the facts that it consumed, so that a reader of the file from front to back
has what it needs when it needs it; records of one partition are in the order of their offsets,
whatever else. Any Avro tool reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

import fastavro

from gangline.events.log import Record, Topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from gangline.events.log import Log

SCHEMA: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "LogRecord",
        "namespace": "gangline.file",
        "fields": [
            {"name": "topic", "type": "string"},
            {"name": "partition", "type": "int"},
            {"name": "offset", "type": "long"},
            {"name": "appended_ms", "type": "long"},
            {"name": "key", "type": "bytes"},
            {"name": "value", "type": "bytes"},
        ],
    }
)


class LogFileError(Exception):
    """A log file cannot be read; the message names the file and what is wrong."""


class LogFileWriter:
    """Writes records to a file as they come; a context manager."""

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._file: BinaryIO = path.open("wb")
        self._writer: Any = fastavro.write.Writer(self._file, SCHEMA, codec="deflate")

    def write(self, record: Record) -> None:
        """The next record; headers are not kept."""
        self.count += 1
        self._writer.write(
            {
                "topic": str(record.topic),
                "partition": record.partition,
                "offset": record.offset,
                "appended_ms": record.appended_ms,
                "key": record.key,
                "value": record.value,
            }
        )

    def close(self) -> None:
        """Write what is buffered."""
        self._writer.flush()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write a whole file; returns how many records."""
    with LogFileWriter(path) as writer:
        for record in records:
            writer.write(record)
        return writer.count


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, in its order; LogFileError when it is none or ends early."""
    count = 0
    try:
        with path.open("rb") as file:
            for plain in fastavro.reader(file):
                record = Record(**plain)  # type: ignore[arg-type]
                Topic(record.topic)  # of no other topic: such a record would be looked for in vain
                yield record
                count += 1
    except OSError as error:
        raise LogFileError(f"{path}: {error.strerror}") from error
    except Exception as error:
        raise LogFileError(f"{path}: after {count} records: no log file goes on here") from error


def export_log(log: Log, path: Path) -> int:
    """Write all that decided something, and all decisions, to a file; returns how many records."""
    from gangline.replay.history import History, LogSource  # noqa: PLC0415 - they read files too

    with LogFileWriter(path) as writer:
        history = History(LogSource(log), heartbeat=writer.write)
        for moment in history:
            for record in (*moment.facts, *moment.step.records):
                writer.write(record)
        for record in history.rest():
            writer.write(record)
        return writer.count
