"""What the processes of a simulated gang do: one clock of productive work, shared by all members.

A gang works while all its members run, and stands still from the moment one of them is gone:
collective operations wait for everybody. It saves every `interval_ms` counted from the attempt's
start. Told to stop, it works on through its whole grace and saves at the end of it; if its work
completes first, it has ended by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a job really does, which no scheduler knows.

    runtime_ms: productive work until it ends by itself (None: never), with code 0. code,
    exits_after_ms: it ends with this code after so much productive work instead (None: at the end
    of its runtime).
    """

    runtime_ms: int | None = None
    code: int = 0
    exits_after_ms: int | None = None

    @property
    def end(self) -> tuple[int | None, int]:
        """The productive work at which it ends by itself, and the code it ends with."""
        if self.exits_after_ms is None:
            return self.runtime_ms, self.code
        if self.runtime_ms is not None and self.runtime_ms < self.exits_after_ms:
            return self.runtime_ms, 0
        return self.exits_after_ms, self.code


class Saves(IntEnum):
    """When agents say that a checkpoint exists.

    AS_MADE: at once, as agents do. WHEN_NEEDED: only the newest, just before it matters (a member
    goes, or cannot be reached any more): what is decided of work and GPUs is the same, with one
    event where a long run has hundreds.
    """

    AS_MADE = 0
    WHEN_NEEDED = 1


class Stage(IntEnum):
    """How far a member of a gang is on its node."""

    PREPARING = 0
    READY = 1
    RUNNING = 2
    OUT = 3


class Moment(IntEnum):
    """What happens to a gang by the passing of time; of one instant, the first."""

    ENDS = 0
    GRACE_OVER = 1
    SAVES = 2


@dataclass(slots=True, kw_only=True, eq=False)
class SimulatedGang:
    """One attempt of a job, as its processes know it.

    nodes: in rank order. stages: of the members, by node; those that no agent knows any more are
    gone from it. gpus: indices by node. told: nodes that were told to stop. work_ms: productive
    work at `since_ms`, over all attempts; since_ms: None while it stands still. alarm: counts
    changes of plan, so that an outdated alarm is known. saves: when a checkpoint is said.
    """

    job: str
    attempt: int
    nodes: tuple[str, ...]
    program: Program
    interval_ms: int | None
    resumed_ms: int
    stages: dict[str, Stage] = field(default_factory=dict)
    gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    work_ms: int = 0
    since_ms: int | None = None
    next_save_ms: int | None = None
    stop_at_ms: int | None = None
    alarm: int = 0
    saves: Saves = Saves.AS_MADE

    @property
    def works(self) -> bool:
        """Whether all members run."""
        return self.since_ms is not None

    def done_ms(self, now_ms: int) -> int:
        """Productive work up to now, over all attempts."""
        return self.work_ms if self.since_ms is None else self.work_ms + now_ms - self.since_ms

    def begin(self, now_ms: int) -> None:
        """All members run: the clock starts."""
        self.since_ms = now_ms
        self.work_ms = self.resumed_ms
        if self.interval_ms is not None:
            self.next_save_ms = now_ms + self.interval_ms

    def halt(self, now_ms: int) -> None:
        """A member is gone: the others stand still."""
        self.work_ms = self.done_ms(now_ms)
        self.since_ms = None
        self.next_save_ms = None
        self.stop_at_ms = None

    def saved(self) -> None:
        """It has saved on its own clock: the next save is an interval later."""
        if self.next_save_ms is not None and self.interval_ms is not None:
            self.next_save_ms += self.interval_ms

    def take_unsaid_save(self, now_ms: int) -> int | None:
        """The productive work of the newest checkpoint that was not said yet; None for none."""
        first_ms = self.next_save_ms
        if first_ms is None or self.interval_ms is None or first_ms > now_ms:
            return None
        newest_ms = now_ms - (now_ms - first_ms) % self.interval_ms
        self.next_save_ms = newest_ms + self.interval_ms
        return self.done_ms(newest_ms)

    def next_moment(self) -> tuple[int, Moment] | None:
        """When something happens to it by time alone, and what; None for never."""
        if self.since_ms is None:
            return None
        moments = []
        end, _ = self.program.end
        if end is not None:
            moments.append((max(self.since_ms, self.since_ms + end - self.work_ms), Moment.ENDS))
        if self.stop_at_ms is not None:
            moments.append((self.stop_at_ms, Moment.GRACE_OVER))
        if self.next_save_ms is not None and self.saves is Saves.AS_MADE:
            moments.append((self.next_save_ms, Moment.SAVES))
        return min(moments, default=None)

    def running(self) -> list[str]:
        """Nodes whose member runs, in rank order."""
        return [node for node in self.nodes if self.stages.get(node) is Stage.RUNNING]
