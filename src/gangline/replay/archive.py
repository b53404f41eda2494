"""A cold archive: what decided and was decided, as Avro files in a folder, and reading across.

`FOLDER/CELL/TOPIC-PARTITION/FIRST-LAST.avro` is a log file (`logfile.py`) with the records of one
partition from one offset to another; names are of equal length, so that they sort. A file is
written aside and renamed, so a folder never holds half a one, and it is never changed again: any
tool may copy it to any store. What is archived may be deleted from the log. Nothing in a file need
be trusted: batches are chained, and name the digests of what they consumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from heapq import merge
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gangline.events.log import Log, OffsetOutOfRangeError, Record, Topic, TopicPartition
from gangline.events.reading import from_the_start, read_to_ends
from gangline.replay.logfile import LogFileError, LogFileWriter, read_records
from gangline.replay.shelf import ArchiveError, shelf_at
from gangline.scheduler.follower import DECISIONS
from gangline.scheduler.intake import INPUT_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ARCHIVED: Final = (*INPUT_TOPICS, Topic.DECISIONS)
SEGMENT_RECORDS: Final = 50_000
_NAME: Final = re.compile(r"(\d{20})-(\d{20})\.avro")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A file of the archive; offsets inclusive. name: on the shelf. place: as people name it."""

    partition: TopicPartition
    first: int
    last: int
    name: str
    place: str


class Archive:
    """The archive of one cell. where: a folder, or the URL of a bucket."""

    def __init__(self, where: Path | str, *, cell: str) -> None:
        self._shelf = shelf_at(str(where))
        self._cell = cell

    @property
    def place(self) -> str:
        """Where it is."""
        return self._shelf.place_of(self._cell)

    def segments(self, partition: TopicPartition) -> list[Segment]:
        """The files of a partition in order; ArchiveError where they do not follow each other."""
        found: list[Segment] = []
        for name in self._shelf.names(self._folder_of(partition)):
            place = self._shelf.place_of(name)
            numbers = _NAME.fullmatch(name.rsplit("/", maxsplit=1)[-1])
            if numbers is None:
                raise ArchiveError(f"{place}: expected FIRST-LAST.avro, of 20 digits each")
            first, last = int(numbers.group(1)), int(numbers.group(2))
            if found and first <= found[-1].last:
                raise ArchiveError(f"{place}: expected an offset above {found[-1].last}")
            found.append(
                Segment(partition=partition, first=first, last=last, name=name, place=place)
            )
        return found

    def next_offset(self, partition: TopicPartition) -> int:
        """Where the archive of a partition ends."""
        segments = self.segments(partition)
        return segments[-1].last + 1 if segments else 0

    def records(self, partition: TopicPartition, *, first: int = 0) -> Iterator[Record]:
        """What is archived of a partition, from an offset on."""
        for segment in self.segments(partition):
            if segment.last >= first:
                yield from (r for r in self._read(segment) if r.offset >= first)

    def _read(self, segment: Segment) -> Iterator[Record]:
        """A whole file; LogFileError names its place, whatever copy of it was read."""
        with self._shelf.fetched(segment.name) as path:
            try:
                yield from read_records(path)
            except LogFileError as error:
                raise LogFileError(str(error).replace(str(path), segment.place)) from error

    def append(
        self, log: Log, *, before_ms: int | None = None, most: int = SEGMENT_RECORDS
    ) -> list[Segment]:
        """Copy what the log has and the archive has not; the new files.

        before_ms: only records that were appended earlier, and none behind the first later one.
        most: records of a file.
        """
        written = []
        for partition in from_the_start(ARCHIVED):
            records = _kept(log, partition, self.next_offset(partition))
            if before_ms is not None:
                records = _older(records, before_ms)
            written += list(self._write(partition, records, most))
        return written

    def _write(
        self, partition: TopicPartition, records: Iterator[Record], most: int
    ) -> Iterator[Segment]:
        """Files of at most so many records."""
        folder = self._folder_of(partition)
        for first in records:
            with self._shelf.being_made(folder) as partial:
                last = first.offset
                with LogFileWriter(partial) as writer:
                    writer.write(first)
                    while writer.count < most and (record := next(records, None)) is not None:
                        writer.write(record)
                        last = record.offset
                _check(partial, first.offset, last, count=writer.count)
                name = f"{folder}/{first.offset:020d}-{last:020d}.avro"
                self._shelf.put(partial, name)
            place = self._shelf.place_of(name)
            yield Segment(
                partition=partition, first=first.offset, last=last, name=name, place=place
            )

    def _folder_of(self, partition: TopicPartition) -> str:
        return f"{self._cell}/{partition.topic}-{partition.partition}"


def _check(path: Path, first: int, last: int, *, count: int) -> None:
    """Read a file again before it is given its name."""
    offsets = [record.offset for record in read_records(path)]
    if (offsets[0], offsets[-1], len(offsets)) != (first, last, count):
        raise LogFileError(f"{path}: was not written whole")


def _kept(log: Log, partition: TopicPartition, at: int) -> Iterator[Record]:
    """What a log has of a partition from an offset on.

    Heartbeats are kept for days only, so some may be gone; of all others that is an error.
    """
    if partition.topic != Topic.HEARTBEATS:
        return read_to_ends(log, {partition: at})
    return (record for record in read_to_ends(log, {partition: 0}) if record.offset >= at)


def _older(records: Iterator[Record], before_ms: int) -> Iterator[Record]:
    for record in records:
        if record.appended_ms >= before_ms:
            return
        yield record


class ArchivedSource:
    """A history that begins in an archive and goes on in a log."""

    def __init__(self, archive: Archive, log: Log) -> None:
        self._archive = archive
        self._log = log

    def decisions(self) -> Iterator[Record]:
        """The records of `decisions`; ArchiveError where records between both are gone."""
        return self._across(DECISIONS, 0)

    def inputs(self, cursors: Mapping[TopicPartition, int]) -> Iterator[Record]:
        """Input records: the archived ones by time, then those of the log."""
        partitions = list(from_the_start(INPUT_TOPICS))
        archived = [self._archive.records(p, first=cursors.get(p, 0)) for p in partitions]
        return chain(merge(*archived, key=_appended), self._from_log(partitions, cursors))

    def _from_log(
        self, partitions: list[TopicPartition], cursors: Mapping[TopicPartition, int]
    ) -> Iterator[Record]:
        ends = {p: max(self._archive.next_offset(p), cursors.get(p, 0)) for p in partitions}
        wanted = {p: 0 if p.topic == Topic.HEARTBEATS else at for p, at in ends.items()}
        for record in self._read(wanted):
            if record.offset >= ends[TopicPartition(record.topic, record.partition)]:
                yield record

    def _across(self, partition: TopicPartition, first: int) -> Iterator[Record]:
        yield from self._archive.records(partition, first=first)
        at = max(first, self._archive.next_offset(partition))
        yield from self._read({partition: at})

    def _read(self, cursors: Mapping[TopicPartition, int]) -> Iterator[Record]:
        try:
            yield from read_to_ends(self._log, cursors)
        except OffsetOutOfRangeError as error:
            raise ArchiveError(
                f"{self._archive.place}: the log begins after the archive's end: {error}"
            ) from error


def _appended(record: Record) -> int:
    return record.appended_ms
