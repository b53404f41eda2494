"""Where a scheduler begins: at a snapshot, at the first batch, or in a cell that is truly new.

A log whose beginning is gone looks much like a new one. Whoever took it for new would decide with
an empty state while programs run, so it is refused, with what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events import codec
from gangline.events.batch import NodeAssignment
from gangline.events.log import LogError, OffsetOutOfRangeError, Topic
from gangline.events.reading import from_the_start, read_to_ends
from gangline.scheduler import snapshots
from gangline.scheduler.follower import DECISIONS, Follower

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.events.log import Log
    from gangline.scheduler.ports import Core


class MissingHistoryError(LogError):
    """Batches that nobody can do without are gone; the message says which, and what to do."""


def start_follower(log: Log, core: Core, *, warn: Callable[[str], None]) -> Follower:
    """Where the log stands: the newest good snapshot and the batches after it, or all batches.

    MissingHistoryError when neither is there though the cell is not new.
    """
    follower = snapshots.newest(log, core, warn=warn) or Follower(core)
    try:
        _check_beginning(log, follower)
        follower.read_to_end(log)
    except OffsetOutOfRangeError as error:
        seq = 0 if follower.link is None else follower.link.seq
        raise MissingHistoryError(
            f"the batches after {seq}, where the newest good snapshot ends, are gone: {error}; "
            "bring them back, or a snapshot that reaches the log"
        ) from error
    if follower.link is None:
        _check_new(log, follower)
    return follower


def _check_beginning(log: Log, follower: Follower) -> None:
    """MissingHistoryError where all batches are needed and the first ones are gone."""
    if follower.link is not None:
        return
    reader = log.reader({DECISIONS: 0})
    try:
        begins = reader.positions()[DECISIONS]
    finally:
        reader.close()
    if begins > 0:
        raise MissingHistoryError(
            f"decisions begin at offset {begins}: the batches before it are gone, and no good "
            "snapshot stands in for them; bring back one of both (this cell is not new)"
        )


def _check_new(log: Log, follower: Follower) -> None:
    """MissingHistoryError where nothing was decided, and something follows from decisions."""
    left = _left_of_decisions(log)
    if not left:
        return
    follower.read_to_end(log)  # the first leader may have begun meanwhile
    if follower.link is None:
        raise MissingHistoryError(
            f"the topic decisions is empty, and {left}; bring back the decisions, or delete all "
            "topics of the cell to begin anew (this cell is not new)"
        )


def _left_of_decisions(log: Log) -> str:
    """What there is that only decisions can have led to; empty for nothing."""
    seq = snapshots.newest_seq(log)
    if seq:
        return f"there is a snapshot of batch {seq}"
    for record in read_to_ends(log, from_the_start([Topic.ASSIGNMENTS])):
        try:
            body = codec.decode(record.value).body
        except codec.UndecodableError:
            continue
        if isinstance(body, NodeAssignment):
            return f"{record.position} tells {body.node} what follows from batch {body.seq}"
    return ""
