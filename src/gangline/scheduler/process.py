"""One scheduler process: it follows, leads when it must, and follows again when it may not.

Whatever ends a term, the way on is the same: stand by, with a state that the log vouches for. A
leader in doubt about its own commit stands by for a moment only, so that one recovery serves all
trouble.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from gangline.events.log import LogError
from gangline.scheduler.beginning import start_follower
from gangline.scheduler.leader import DoubtError, Leader, LostLeadError, Outside, Turn, Who
from gangline.scheduler.snapshots import SnapshotWriter, newest_seq
from gangline.scheduler.standby import EndedTerm, Standby
from gangline.scheduler.takeover import take_over

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.events.batch import SnapshotPointer
    from gangline.scheduler.beats import Beater
    from gangline.scheduler.follower import Follower

TROUBLE_MS: Final = 1_000
"""How long a scheduler that cannot reach the log waits before it tries again."""


SNAPSHOT_PATIENCE_S: Final = 10.0
"""How long the end of the process waits for a snapshot that is being written."""


class Observer(Protocol):
    """Told what happens; metrics and logs are made of it."""

    def role(self, role: str, *, term: int, why: str) -> None:
        """The scheduler is now `standby` or `leader`."""
        ...

    def turn(self, turn: Turn) -> None:
        """A leader stepped."""
        ...

    def warn(self, text: str) -> None:
        """Something is not as it should be, and was dealt with."""
        ...

    def snapshot(self, seq: int) -> None:
        """A snapshot was written."""
        ...

    def led(self, follower: Follower) -> None:
        """A leader wrote a batch; the follower stands after it."""
        ...


class Silent:
    """An observer that looks away."""

    def role(self, role: str, *, term: int, why: str) -> None:
        """Nothing."""

    def turn(self, turn: Turn) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Nothing."""

    def snapshot(self, seq: int) -> None:
        """Nothing."""

    def led(self, follower: Follower) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a scheduler goes about its work.

    index: its place among the standbys, from 0. threads: whether beats and the writing of
    snapshots have threads of their own; else they come between steps. snapshot_every: steps
    between a standby's snapshots; a leader that finds none of the last three intervals writes one.
    """

    index: int = 0
    threads: bool = True
    snapshot_every: int = 2_000


class BeatThread:
    """Beats while the leader thinks."""

    def __init__(self, beater: Beater) -> None:
        self._beater = beater
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._beater.wait_ms() / 1000 or 0.01):
            self._beater.beat_if_due()

    def stop(self) -> None:
        """No beat is sent after this."""
        self._stop.set()
        self._thread.join()


class Scheduler:
    """A scheduler in one of its two roles, driven turn by turn."""

    def __init__(
        self, outside: Outside, who: Who, habits: Habits, *, observer: Observer | None = None
    ) -> None:
        self._outside = outside
        self._who = who
        self._habits = habits
        self._observer = observer or Silent()
        self._snapshots = SnapshotWriter(outside, actor=who.actor, name=who.name)
        self._snapshot_step = 0
        self._looked_step = 0
        self._fenced = 0
        self._rest_until_ms = 0
        self._beats: BeatThread | None = None
        self._publishing: threading.Thread | None = None
        self.leader: Leader | None = None
        self.standby: Standby | None = self._stand_by(self._restored())

    def turn(self, wait_s: float) -> Turn | None:
        """Do what the present role asks, waiting at most so long for something to do."""
        if self.leader is not None:
            return self._lead(self.leader, wait_s)
        if self.standby is None:
            self._recover(wait_s)
        else:
            self._watch(self.standby, wait_s)
        return None

    # --- standing by --------------------------------------------------------------------------

    def _restored(self) -> Follower:
        outside = self._outside
        return start_follower(outside.log, outside.core, warn=self._observer.warn)

    def _stand_by(self, follower: Follower, *, ended: EndedTerm | None = None) -> Standby:
        standby = Standby(
            self._outside.log,
            self._outside.machine,
            follower,
            name=self._who.name,
            index=self._habits.index,
            ended=ended,
        )
        term = follower.link.term if follower.link else 0
        self._observer.role("standby", term=term, why="")
        return standby

    def _watch(self, standby: Standby, wait_s: float) -> None:
        why = standby.turn(wait_s)
        if why is not None:
            self._try_to_lead(standby, why)
            return
        steps = standby.follower.steps
        if steps - self._snapshot_step >= self._habits.snapshot_every:
            self._snapshot_step = steps
            self._write_snapshot(standby.follower)

    def _try_to_lead(self, standby: Standby, why: str) -> None:
        self.standby = None
        try:
            leader = take_over(self._outside, self._who, standby, why=why)
        except LostLeadError as error:
            self._observer.warn(f"another scheduler was faster: {error}")
            self._fenced += 1
            self.standby = self._stand_by(standby.follower)
            self.standby.was_fenced(self._fenced)
        except (DoubtError, LogError) as error:
            self._observer.warn(f"cannot take over: {error}")
            self._rest()
        else:
            self._start_leading(leader, why)
        finally:
            standby.close()

    def _rest(self) -> None:
        self._rest_until_ms = self._outside.machine.monotonic_ms() + TROUBLE_MS

    def _recover(self, wait_s: float) -> None:
        """After trouble with the log: stand by again, from the log."""
        left_ms = self._rest_until_ms - self._outside.machine.monotonic_ms()
        if left_ms > 0:
            threading.Event().wait(min(wait_s, left_ms / 1000))
            return
        try:
            self.standby = self._stand_by(self._restored())
        except LogError as error:
            self._observer.warn(f"cannot read the log: {error}")
            self._rest()

    # --- leading ------------------------------------------------------------------------------

    def _start_leading(self, leader: Leader, why: str) -> None:
        self.leader = leader
        self._looked_step = self._snapshot_step = leader.follower.steps
        if self._habits.threads:
            self._beats = BeatThread(leader.beater)
        self._observer.role("leader", term=leader.beater.term, why=why)

    def _lead(self, leader: Leader, wait_s: float) -> Turn | None:
        try:
            if self._beats is None:
                leader.beater.beat_if_due()
            turn = leader.turn(wait_s)
            if turn is not None:
                self._fenced = 0
                self._observer.turn(turn)
                if not leader.is_ahead:
                    self._observer.led(leader.follower)
            if leader.wants_hand_over:
                self.hand_over()
            else:
                self._look_after_snapshots(leader)
        except LostLeadError as error:
            self._observer.warn(f"leads no more: {error}")
            self._fenced += 1
            self._stand_down(leader, lambda standby: standby.was_fenced(self._fenced))
            return None
        except DoubtError as error:
            self._observer.warn(f"in doubt, and recovers: {error}")
            self._stand_down(leader, Standby.is_in_doubt)
            return None
        return turn

    def hand_over(self) -> None:
        """Let a standby lead, if this one does; it stands by itself from then on."""
        leader = self.leader
        if leader is None:
            return
        self._stop_beats()
        try:
            leader.hand_over()
        except (LostLeadError, DoubtError) as error:
            self._observer.warn(f"nobody was told of the hand-over: {error}")
        self._stand_down(leader, Standby.handed_over)

    def _stand_down(self, leader: Leader, then: Callable[[Standby], None]) -> None:
        """Lead no more. A state that is ahead of the log is thrown away."""
        self.leader = None
        self._stop_beats()
        leader.close()
        try:
            follower = self._restored() if leader.is_ahead else leader.follower
            ended = EndedTerm(leader.beater.term, leader.beater.last_offset)
            self.standby = self._stand_by(follower, ended=ended)
        except LogError as error:
            self._observer.warn(f"cannot read the log: {error}")
            self._rest()
        else:
            then(self.standby)

    def _stop_beats(self) -> None:
        if self._beats is not None:
            self._beats.stop()
            self._beats = None

    # --- snapshots ----------------------------------------------------------------------------

    def _look_after_snapshots(self, leader: Leader) -> None:
        """Write one if nobody else has for long: there is no standby then."""
        every = self._habits.snapshot_every
        steps = leader.follower.steps
        if steps - self._looked_step < 2 * every:
            return
        self._looked_step = steps
        known = newest_seq(self._outside.log)
        if leader.seq - known >= 3 * every:
            self._write_snapshot(leader.follower)

    def _write_snapshot(self, follower: Follower) -> None:
        """Take one now, and publish it in the background; one at a time."""
        if self._publishing is not None and self._publishing.is_alive():
            return
        try:
            pointer, chunks = self._snapshots.take(follower)
        except Exception as error:  # noqa: BLE001 - as below
            self._observer.warn(f"no snapshot was taken: {error}")
            return
        if not self._habits.threads:
            self._publish(pointer, chunks)
            return
        self._publishing = threading.Thread(
            target=self._publish, args=(pointer, chunks), name="snapshot", daemon=True
        )
        self._publishing.start()

    def _publish(self, pointer: SnapshotPointer, chunks: list[bytes]) -> None:
        try:
            self._observer.snapshot(self._snapshots.publish(pointer, chunks).seq)
        except Exception as error:  # noqa: BLE001 - without a snapshot everything still works
            self._observer.warn(f"no snapshot was written: {error}")

    def close(self) -> None:
        """Let go of everything; nothing is said to anybody."""
        self._stop_beats()
        if self._publishing is not None:
            self._publishing.join(SNAPSHOT_PATIENCE_S)
        if self.leader is not None:
            self.leader.close()
        if self.standby is not None:
            self.standby.close()
