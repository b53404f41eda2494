"""The leader's sign of life: a beat twice a second, through a fenced writer of its own.

A beat says that the leader *works*: it is not sent when the loop that decides has not come round
for `hang_after_ms`, so that a hung leader falls silent. A long step is not a hang, so beats have a
thread of their own (`runner.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gangline.events import codec
from gangline.events.batch import LeaderBeat
from gangline.events.log import FencedError, LogError, Message, Topic, TopicPartition
from gangline.scheduler.ports import Point, Probe, no_probe

if TYPE_CHECKING:
    from gangline.events.log import Log, Position, Record
    from gangline.scheduler.ports import Machine

BEAT_MS: Final = 500
HANG_AFTER_MS: Final = 15_000
BEATS_ROLE: Final = "scheduler-beats"
LEADER = TopicPartition(Topic.LEADER, 0)


def beat_of(record: Record) -> LeaderBeat | None:
    """The beat in a record of `leader`; None for anything else."""
    try:
        body = codec.decode(record.value).body
    except codec.UndecodableError:
        return None
    return body if isinstance(body, LeaderBeat) else None


class Beater:
    """Beats for one term."""

    def __init__(
        self, log: Log, machine: Machine, *, name: str, term: int, probe: Probe = no_probe
    ) -> None:
        self._log = log
        self._machine = machine
        self._name = name
        self.term = term
        self.probe = probe
        self._writer = log.writer(BEATS_ROLE)
        self._beats = 0
        self._last_ms = machine.monotonic_ms() - BEAT_MS
        self._progress_ms = machine.monotonic_ms()
        self.seq = 0
        self.last_offset: int | None = None
        self.fenced = False
        self.doubtful = False

    def progress(self, seq: int) -> None:
        """The deciding loop came round; seq: of its last batch."""
        self.seq = seq
        self._progress_ms = self._machine.monotonic_ms()

    def wait_ms(self) -> int:
        """How long until the next beat is due."""
        return max(0, self._last_ms + BEAT_MS - self._machine.monotonic_ms())

    def beat_if_due(self) -> None:
        """Beat, unless it is too early, the loop hangs, or another scheduler leads.

        After a beat of unknown outcome there is none: the leader then recovers as from any unknown
        commit.
        """
        now = self._machine.monotonic_ms()
        hangs = now - self._progress_ms > HANG_AFTER_MS
        if self.fenced or self.doubtful or hangs or now - self._last_ms < BEAT_MS:
            return
        try:
            self.beat()
        except FencedError:
            self.fenced = True
        except LogError:
            self.doubtful = True

    def beat(self, *, handing_over: bool = False) -> Position:
        """Beat now."""
        self.probe(Point.BEFORE_BEAT)
        self._last_ms = self._machine.monotonic_ms()
        self._beats += 1
        body = LeaderBeat(
            leader=self._name,
            term=self.term,
            seq=self.seq,
            beat=self._beats,
            handing_over=handing_over,
        )
        name = f"beat-{self.term}-{self._beats}"
        value = codec.stated(body, id=name, actor=f"scheduler:{self._name}")
        (position,) = self._writer.commit([Message(topic=Topic.LEADER, value=value)])
        self.last_offset = position.offset
        self.probe(Point.AFTER_BEAT)
        return position

    def close(self) -> None:
        """Let go of the writer."""
        self._writer.close()
