"""The life of a job: one phase, one table.

A job is accepted and waits (QUEUED). When the scheduler has found a place for its whole gang, the
gang holds its GPUs and its members make ready (STARTING); when all are, the processes run
(RUNNING). A gang that is told to stop, or of which a part has failed, keeps its GPUs until its
processes are out (STOPPING); then it holds nothing (RELEASED), and in the same step the job either
waits again or has ended. Ended jobs leave the state; only their outcome is remembered for a while.

Decisions move a job along TRANSITIONS and nothing else does. The diagram in docs/lifecycle.md is
drawn from this table. A decision that is not in it is a broken invariant and crashes; facts that
would lead to one are refused before.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from gangline.events import decisions as d


class Phase(IntEnum):
    """Where a live job is in its life."""

    QUEUED = 0
    STARTING = 1
    RUNNING = 2
    STOPPING = 3
    RELEASED = 4
    ENDED = 5


TRANSITIONS: Final[Mapping[tuple[Phase, type], Phase]] = {
    (Phase.QUEUED, d.GangPlaced): Phase.STARTING,
    (Phase.QUEUED, d.JobFinished): Phase.ENDED,
    (Phase.QUEUED, d.JobRejected): Phase.ENDED,
    (Phase.STARTING, d.GangStarted): Phase.RUNNING,
    (Phase.STARTING, d.GangStartAborted): Phase.STOPPING,
    (Phase.STARTING, d.GangPreempted): Phase.STOPPING,
    (Phase.STARTING, d.GangStopping): Phase.STOPPING,
    (Phase.STARTING, d.GangReleased): Phase.RELEASED,
    (Phase.RUNNING, d.GangPreempted): Phase.STOPPING,
    (Phase.RUNNING, d.GangStopping): Phase.STOPPING,
    (Phase.RUNNING, d.GangReleased): Phase.RELEASED,
    (Phase.STOPPING, d.GangStopping): Phase.STOPPING,
    (Phase.STOPPING, d.GangReleased): Phase.RELEASED,
    (Phase.RELEASED, d.JobRequeued): Phase.QUEUED,
    (Phase.RELEASED, d.JobFinished): Phase.ENDED,
}


class BrokenInvariantError(AssertionError):
    """The scheduler contradicts itself; it must not go on."""


def moved(phase: Phase, decision: object) -> Phase:
    """The phase after a decision; BrokenInvariantError when the table has no such move."""
    after = TRANSITIONS.get((phase, type(decision)))
    if after is None:
        message = f"{type(decision).__name__} for a job that is {phase.name.lower()}: {decision}"
        raise BrokenInvariantError(message)
    return after
