"""A small hand-made history of decisions, for the tests of the measures."""

from __future__ import annotations

from typing import Any

from gangline.events import decisions as d
from gangline.events.spec import Spec
from gangline.replay.measures import Fold

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
# Times in a log are since the epoch; 0 stands for "not yet".
START_MS = 500_000 * HOUR_MS


class History:
    """Decisions by the hour: blocks of two nodes with 8 GPUs, from hour 0 on."""

    def __init__(self, *, blocks: int = 1, bucket_ms: int = 10 * MINUTE_MS) -> None:
        self.fold = Fold(origin_ms=START_MS, bucket_ms=bucket_ms)
        self._attempts: dict[str, int] = {}
        self.at(0, *(node(block, index) for block in range(blocks) for index in range(2)))

    def at(self, hour: float, *decisions: Any) -> History:
        """A step at this hour."""
        self.fold.fold(decisions, now_ms=START_MS + round(hour * HOUR_MS))
        return self

    def run(
        self,
        job: str,
        *,
        gpus: int = 8,
        team: str = "a",
        on: tuple[str, ...] = ("b0-n0",),
        queued: float = 0,
        placed: float | None = None,
        started: float | None = None,
        ended: float | None = None,
    ) -> list[tuple[float, Any]]:
        """The life of a job that runs once, as moments for `play`."""
        placed = queued if placed is None else placed
        started = placed if started is None else started
        life: list[tuple[float, Any]] = [(queued, submitted(job, gpus=gpus, team=team))]
        life.append((placed, placed_on(job, gpus, on)))
        life.append((started, d.GangStarted(job=job, attempt=1, resumed_ms=0)))
        if ended is not None:
            worked = round((ended - started) * HOUR_MS)
            life.append((ended, released(job, d.StopCause.FINISHED, productive_ms=worked)))
            life.append((ended, d.JobFinished(job=job, outcome=d.Outcome.SUCCEEDED)))
        return life

    def play(self, *lives: list[tuple[float, Any]]) -> History:
        """All moments of these lives in order of time."""
        for hour, decision in sorted((m for life in lives for m in life), key=lambda m: m[0]):
            self.at(hour, decision)
        return self


def node(block: int, index: int) -> d.NodeAdded:
    """A node of 8 GPUs."""
    return d.NodeAdded(node=f"b{block}-n{index}", path=(f"b{block}",), levels=("block",), gpus=8)


def submitted(job: str, *, gpus: int = 8, team: str = "a") -> d.JobQueued:
    """A job is accepted; it counts from the step that says so."""
    return d.JobQueued(
        job=job, number=1, spec=Spec(team=team, gpus=gpus), submitted_ms=0, submitted_at="jobs-0-0"
    )


def placed_on(
    job: str, gpus: int, on: tuple[str, ...], *, attempt: int = 1, level: str = ""
) -> d.GangPlaced:
    """A gang on these nodes, its GPUs spread evenly."""
    each = gpus // len(on)
    return d.GangPlaced(
        job=job,
        attempt=attempt,
        seats=tuple(d.Seat(node=name, gpus=tuple(range(each))) for name in on),
        level=level or ("node" if len(on) == 1 else "block"),
        crossed=0,
        borrowed=0,
    )


def released(
    job: str, cause: d.StopCause, *, attempt: int = 1, productive_ms: int = 0, lost_gpu_ms: int = 0
) -> d.GangReleased:
    """A gang lets go."""
    return d.GangReleased(
        job=job,
        attempt=attempt,
        cause=cause,
        lost_gpu_ms=lost_gpu_ms,
        productive_ms=productive_ms,
    )


def team(name: str, guaranteed: int, weight: int = 1, parent: str = "") -> d.TeamChanged:
    """A team that may borrow and lend without limit."""
    return d.TeamChanged(
        team=name, guaranteed=guaranteed, borrow=-1, lend=-1, weight=weight, parent=parent
    )
