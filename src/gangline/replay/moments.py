"""Any past moment of a live cell, soon: it goes on from the nearest of the states that are kept.

What comes out is `timetravel.state_at` of the same log, to the last letter; only the way is
shorter. The first question folds the whole history and leaves snapshots behind it; each later one
folds from the snapshot before its moment. Not for several threads at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gangline.events.reading import read_to_ends
from gangline.replay.timetravel import Plain, When, as_plain
from gangline.scheduler import core
from gangline.scheduler.batches import Chain, Link, StepReader
from gangline.scheduler.follower import DECISIONS, Follower

if TYPE_CHECKING:
    from gangline.events.log import Log

EVERY_STEPS: Final = 200
MOST_FRAMES: Final = 40
MOST_ANSWERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The state after a step. steps: how many came before it and with it."""

    at_ms: int
    seq: int
    steps: int
    link: Link
    next_offset: int
    leader: str
    chunks: tuple[bytes, ...]


class Moments:
    """The past of one log. frames: the states that are kept, in order."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._every = EVERY_STEPS
        self.frames: list[_Frame] = []
        self._answers: OrderedDict[When, Plain] = OrderedDict()

    def state(self, when: When) -> Plain:
        """The state then, as plain values; for the asker to read, not to change."""
        known = self._answers.get(when)
        if known is None:
            follower, ended = self._follow(when)
            known = as_plain(follower, when)
            # What lies at the end of the log may still get company.
            if not ended:
                self._answers[when] = known
                while len(self._answers) > MOST_ANSWERS:
                    self._answers.popitem(last=False)
        return known

    def _follow(self, when: When) -> tuple[Follower, bool]:
        """The follower at that moment, and whether the log ended before it."""
        frame = self._before(when)
        follower, steps = _start(frame), 0 if frame is None else frame.steps
        reader = StepReader(Chain(None if frame is None else frame.link))
        for record in read_to_ends(self._log, {DECISIONS: follower.next_offset}):
            step = reader.feed(record)
            if step is None:
                continue
            if not when.is_after(step):
                return follower, False
            follower.fold(step)
            steps += 1
            self._keep(follower, steps)
        return follower, True

    def _before(self, when: When) -> _Frame | None:
        """The last frame that is not later."""
        if when.seq is not None:
            index = bisect_right(self.frames, when.seq, key=lambda frame: frame.seq)
        elif when.at_ms is not None:
            index = bisect_right(self.frames, when.at_ms, key=lambda frame: frame.at_ms)
        else:
            index = len(self.frames)
        return self.frames[index - 1] if index else None

    def _keep(self, follower: Follower, steps: int) -> None:
        """Keep a frame when the last one is far behind; half as many when they get too many."""
        if steps < (self.frames[-1].steps if self.frames else 0) + self._every:
            return
        link = follower.end()
        self.frames.append(
            _Frame(
                at_ms=link.now_ms,
                seq=link.seq,
                steps=steps,
                link=link,
                next_offset=follower.next_offset,
                leader=follower.leader,
                chunks=tuple(core.dump(follower.state)),
            )
        )
        if len(self.frames) > MOST_FRAMES:
            self.frames = self.frames[1::2]
            self._every *= 2


def _start(frame: _Frame | None) -> Follower:
    """A follower that stands at a frame, or at the beginning."""
    if frame is None:
        return Follower(core)
    follower = Follower(core, state=core.load(frame.chunks), link=frame.link)
    follower.next_offset = frame.next_offset
    follower.leader = frame.leader
    return follower
