"""How one becomes the leader, whatever happened before.

There is one order: open the writer, which settles what the old one left and fences it; read
`decisions` to the end; publish the assignments of the last step again, as a torn commit may have
lost them; beat, and read the log's time from that beat; go on from the inputs of the last batch. A
leader that is in doubt about a commit does the same.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from gangline.events.log import Position, Reader, Topic
from gangline.scheduler.beats import LEADER, Beater
from gangline.scheduler.clock import TermClock
from gangline.scheduler.leader import (
    DoubtError,
    Leader,
    Outside,
    Who,
    assignment_messages,
    committing,
)
from gangline.scheduler.ports import Point

if TYPE_CHECKING:
    from gangline.events.log import Log, Writer
    from gangline.scheduler.follower import Follower
    from gangline.scheduler.standby import Standby

WRITER_ROLE: Final = "scheduler"
VISIBLE_TRIES: Final = 100
"""Of a twentieth of a second each, until an own beat must have become visible."""


def take_over(outside: Outside, who: Who, standby: Standby, *, why: str) -> Leader:
    """Become the leader; LostLeadError when another one was faster, DoubtError when nobody knows.

    standby: where this scheduler has followed the log, with a reader that is warm; closed by the
    caller. why: `takeover` or `hand_over`; the first leader of a cell says `start`.
    """
    follower = standby.follower
    probe = outside.probe
    probe(Point.TAKEOVER_BEGUN)
    with ExitStack() as undo:
        writer = outside.log.writer(WRITER_ROLE)
        undo.callback(writer.close)
        probe(Point.WRITER_OPENED)
        standby.read_decisions()
        probe(Point.DECISIONS_READ)
        _republish(outside, follower, writer, actor=who.actor)
        probe(Point.ASSIGNMENTS_REPUBLISHED)
        beater = Beater(outside.log, outside.machine, name=who.name, term=_term(follower))
        undo.callback(beater.close)
        beaten_ms = _first_beat(outside.log, beater, seq=follower.link.seq if follower.link else 0)
        probe(Point.BEATS_OPENED)
        beater.probe = probe
        leader = Leader(
            outside,
            who,
            follower,
            writer=writer,
            beater=beater,
            clock=_clock(outside, follower, beaten_ms),
            why="start" if follower.link is None else why,
        )
        undo.pop_all()
        undo.callback(leader.close)
        probe(Point.INPUTS_OPENED)
        undo.pop_all()
    return leader


def _term(follower: Follower) -> int:
    return 1 if follower.link is None else follower.link.term + 1


def _clock(outside: Outside, follower: Follower, beaten_ms: int) -> TermClock:
    return TermClock(
        outside.machine,
        last_batch_ms=0 if follower.link is None else follower.link.now_ms,
        newest_append_ms=max(beaten_ms, follower.newest_append_ms),
    )


def _republish(outside: Outside, follower: Follower, writer: Writer, *, actor: str) -> None:
    if follower.link is None or not follower.touched:
        return
    messages = assignment_messages(
        outside.core, follower.state, follower.touched, link=follower.link, actor=actor
    )
    with committing():
        writer.commit(messages)


def _first_beat(log: Log, beater: Beater, *, seq: int) -> int:
    """Beat, and read when the log says that this was."""
    reader = log.reader({LEADER: log.ends([Topic.LEADER])[LEADER]})
    try:
        beater.progress(seq)
        with committing():
            position = beater.beat()
        return _append_time(reader, position)
    finally:
        reader.close()


def _append_time(reader: Reader, position: Position) -> int:
    for _ in range(VISIBLE_TRIES):
        for record in reader.poll(0.05):
            if record.offset >= position.offset:
                return record.appended_ms
    raise DoubtError(f"{position} was written and cannot be read")
