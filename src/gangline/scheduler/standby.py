"""A scheduler that does not lead: it folds decisions, and takes over when the leader falls silent.

Silence is counted only while this process really listens: each look at the log adds at most
`LOOK_MS`, and before taking over it makes sure that it has read `leader` to the end. So one that
was stopped, or cut off from the log, does not mistake its own absence for the leader's. Standby i
waits i seconds longer than the first, so that they do not compete; whoever was fenced waits longer
each time, until it has seen another one lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gangline.events.log import LogUnreachableError, Topic
from gangline.events.reading import behind
from gangline.scheduler.beats import LEADER, beat_of
from gangline.scheduler.follower import DECISIONS

if TYPE_CHECKING:
    from gangline.events.batch import LeaderBeat
    from gangline.events.log import Log, Record
    from gangline.scheduler.follower import Follower
    from gangline.scheduler.ports import Machine

SILENCE_MS: Final = 1_500
SILENCE_STEP_MS: Final = 1_000
HAND_OVER_STEP_MS: Final = 400
OWN_HAND_OVER_MS: Final = 3_000
MOST_BACKOFF_MS: Final = 16_000
LOOK_MS: Final = 500
LEAST_LOOK_MS: Final = 20
READ_TRIES: Final = 600
"""Of a twentieth of a second each, for the rest of `decisions` to be read."""


class EndedTerm(NamedTuple):
    """A term that is over. last_beat: the offset of its last beat in `leader`, None if unknown."""

    term: int
    last_beat: int | None


class Standby:
    """Watches one cell for one scheduler.

    index: its place among the standbys. ended: the term that this scheduler led until now.
    """

    def __init__(
        self,
        log: Log,
        machine: Machine,
        follower: Follower,
        *,
        name: str,
        index: int,
        ended: EndedTerm | None = None,
    ) -> None:
        self._log = log
        self._machine = machine
        self._name = name
        self._index = index
        self.follower = follower
        beats_from = None if ended is None else ended.last_beat
        if beats_from is None:
            beats_from = log.ends([Topic.LEADER])[LEADER]
        self._reader = log.reader({DECISIONS: follower.next_offset, LEADER: beats_from})
        self._looked_ms = machine.monotonic_ms()
        self._silent_ms = 0
        self._needed_ms = SILENCE_MS + index * SILENCE_STEP_MS
        self._why = "takeover"
        self._ended = 0 if ended is None else ended.term
        self._term = self._ended

    def was_fenced(self, times: int) -> None:
        """This scheduler lost the lead so many times in a row: hold back."""
        self._needed_ms += min(MOST_BACKOFF_MS, 1_000 * 2 ** min(times, 5))

    def handed_over(self) -> None:
        """This scheduler gave the lead away: others first."""
        self._needed_ms += OWN_HAND_OVER_MS

    def is_in_doubt(self) -> None:
        """This scheduler led until a moment ago: go on at once, unless a newer term is seen."""
        newest = self.follower.link.term if self.follower.link else 0
        if newest <= self._ended:
            self._needed_ms = 0

    def turn(self, wait_s: float) -> str | None:
        """Read for at most so long; why to take over now, or None to go on watching."""
        # No longer than silence may still last: meanwhile nobody decides.
        left_ms = max(LEAST_LOOK_MS, self._needed_ms - self._silent_ms)
        records = self._reader.poll(min(wait_s, left_ms / 1000))
        now = self._machine.monotonic_ms()
        self._silent_ms += min(now - self._looked_ms, LOOK_MS)
        self._looked_ms = now
        for record in records:
            self._see(record)
        if self._silent_ms < self._needed_ms or not self._has_read_all():
            return None
        return self._why

    def _see(self, record: Record) -> None:
        if record.topic == Topic.DECISIONS:
            self.follower.feed(record)
            return
        beat = beat_of(record)
        if beat is None or beat.term < self._term:
            return
        if beat.leader == self._name and beat.term == self._ended:
            return
        self._term = beat.term
        self._silent_ms = 0
        self._expect(beat)

    def _expect(self, beat: LeaderBeat) -> None:
        """How long to wait after this beat."""
        if beat.handing_over and beat.leader != self._name:
            self._why = "hand_over"
            self._needed_ms = self._index * HAND_OVER_STEP_MS
        else:
            self._why = "takeover"
            self._needed_ms = SILENCE_MS + self._index * SILENCE_STEP_MS

    def read_decisions(self) -> None:
        """Fold all that is committed now; LogUnreachableError when it does not come."""
        end = self._log.ends([Topic.DECISIONS])[DECISIONS]
        for _ in range(READ_TRIES):
            if self._reader.positions()[DECISIONS] >= end:
                return
            for record in self._reader.poll(0.05):
                self._see(record)
        raise LogUnreachableError(f"decisions up to {end} do not come")

    def _has_read_all(self) -> bool:
        """Whether no beat or batch that is already in the log is still on its way."""
        try:
            ends = self._log.ends([Topic.LEADER, Topic.DECISIONS])
        except LogUnreachableError:
            return False
        return not behind(self._reader.positions(), ends)

    def close(self) -> None:
        """Let go of the reader."""
        self._reader.close()
