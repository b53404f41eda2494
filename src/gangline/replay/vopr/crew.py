"""The schedulers of a cell: the real ones, killed and paused wherever they can be.

A scheduler that is paused in the middle of a turn stands still while all others live on: it may
wake up believing that it leads, when another one has led for long. One that dies leaves its
connections as they are, and a new one takes its post some time later.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gangline.events.log import LogError
from gangline.replay.vopr.versions import newer_than
from gangline.replay.vopr.wrong import WrongError
from gangline.scheduler.follower import UnknownLogicError
from gangline.scheduler.leader import Outside, Who
from gangline.scheduler.process import Habits, Scheduler, Silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from gangline.replay.vopr.bus import Line
    from gangline.replay.vopr.clock import Clocks, Timeline
    from gangline.replay.vopr.plan import Plan
    from gangline.replay.vopr.ports import Core
    from gangline.scheduler.ports import Point

MOST_STEPS: Final = 30
"""So many steps a scheduler takes at most before others have their turn."""

RESTART_MS: Final = (1_000, 12_000)


class KilledError(BaseException):
    """A scheduler died here."""


class Notes(Silent):
    """Counts what a scheduler says of itself."""

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen

    def role(self, role: str, *, term: int, why: str) -> None:
        """Another role."""
        self._seen[f"role {role} {why}".strip()] += 1

    def warn(self, text: str) -> None:
        """A warning, by its first words."""
        self._seen["warning " + text.split(":", maxsplit=1)[0].rstrip(" 0123456789")] += 1

    def snapshot(self, seq: int) -> None:
        """A snapshot was written."""
        self._seen["snapshot"] += 1


class Post:
    """One scheduler's place: its machine, its line, and whoever serves there now.

    retired: nobody serves there any more. busy: it is in the middle of a turn. newer: whether the
    program installed there is of the newer logic version.
    """

    def __init__(
        self,
        index: int,
        plan: Plan,
        *,
        core: Core,
        line: Line,
        clocks: Clocks,
        seen: Counter[str],
    ) -> None:
        self.index = index
        self.line = line
        self.clocks = clocks
        self.retired = False
        self.busy = False
        self.paused_until_ms = 0
        self.scheduler: Scheduler | None = None
        self.passed: Callable[[Post, Point], None] = lambda _post, _point: None
        self.newer = plan.installations.first[index]
        self.log_version: Callable[[], int] = lambda: core.LOGIC_VERSION
        self._core = self._old_core = core
        self._chance = plan.chance
        self._seen = seen
        self._fate = plan.fate
        self._snapshot_every = plan.snapshot_every
        self._timeline: Timeline = line.bus.timeline

    def start(self) -> None:
        """A new process takes the post; if the log cannot be reached, it is started again."""
        if self.retired or self.scheduler is not None:
            return
        self._core = newer_than(self._old_core) if self.newer else self._old_core
        try:
            self.scheduler = Scheduler(
                Outside(log=self.line, core=self._core, machine=self.clocks, probe=self._pass),
                Who(name=f"s{self.index}", genesis=f"cell-{self._chance.randrange(1 << 40):x}"),
                Habits(index=self.index, threads=False, snapshot_every=self._snapshot_every),
                observer=Notes(self._seen),
            )
        except LogError:
            self._start_later()
        except UnknownLogicError as error:
            self._refuse(error)
            self._start_later()

    def _refuse(self, error: UnknownLogicError) -> None:
        """A program may say that the log is of a newer version only where it is."""
        if self.log_version() <= self._core.LOGIC_VERSION:
            raise WrongError(f"s{self.index}: {error}") from error
        self._seen["ends as an old program"] += 1

    def install(self, *, newer: bool) -> None:
        """Another program is installed, and started once this one has ended."""
        self.newer = newer
        self._seen["newer program installed" if newer else "older program installed"] += 1
        self.kill()

    def _start_later(self) -> None:
        self._timeline.after(self._chance.randrange(*RESTART_MS), self.start)

    def turn(self) -> None:
        """Serve, until there is nothing to do."""
        if self.busy or self.retired or self._timeline.now_ms < self.paused_until_ms:
            return
        self.busy = True
        try:
            for _ in range(MOST_STEPS):
                if self.scheduler is None or self.scheduler.turn(0) is None:
                    return
        except KilledError as death:
            self._seen[f"death at {death}"] += 1
            self._die()
        except UnknownLogicError as error:
            self._refuse(error)
            self._die()
        except LogError as error:
            self._seen[f"died of {type(error).__name__}"] += 1
            self._die()
        finally:
            self.busy = False

    def _die(self) -> None:
        self.scheduler = None
        self._start_later()

    def kill(self) -> None:
        """The process dies between two turns."""
        if self.scheduler is not None and not self.busy:
            self._seen["death between turns"] += 1
            self._die()

    def retire(self) -> None:
        """Nobody serves here from now on."""
        self.retired = True
        if not self.busy:
            self.scheduler = None

    def _pass(self, point: Point) -> None:
        """A scheduler passes a point, dies there, or stands still for a while."""
        self.passed(self, point)
        if self.retired or self._chance.random() < self._fate.dying:
            raise KilledError(point)
        if self._chance.random() < self._fate.pausing:
            self._seen[f"pause at {point}"] += 1
            pause_ms = self._chance.randrange(1, self._fate.longest_pause_ms)
            self._timeline.run(self._timeline.now_ms + pause_ms)
            if self.retired:
                raise KilledError(point)
