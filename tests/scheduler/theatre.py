"""A short play with deaths in it, and its judge: what clients were promised, not our own events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events import decisions as d
from gangline.events import facts
from gangline.events.log import Topic
from tests.scheduler.cell import Cell, Killed

if TYPE_CHECKING:
    from gangline.scheduler.ports import Probe
    from gangline.scheduler.process import Scheduler

NODES = ("n1", "n2", "n3")


class Company:
    """Schedulers of one cell; whoever dies is replaced after a while."""

    def __init__(self, cell: Cell, probe: Probe, *, snapshot_every: int = 2) -> None:
        self.cell = cell
        self.deaths = 0
        self._probe = probe
        self._snapshot_every = snapshot_every
        self._names = 0
        self._dead: list[Scheduler] = []
        self.alive: dict[str, Scheduler] = {}
        self._hire()
        self._hire()

    def _hire(self) -> None:
        self._names += 1
        name = f"s{self._names}"
        self.alive[name] = self.cell.scheduler(
            name,
            index=len(self.alive),
            probe=self._probe,
            snapshot_every=self._snapshot_every,
        )

    def run(self, *, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms // 100):
            for name in tuple(self.alive):
                self._turns(name)
            self.cell.clocks.passed_ms += 100

    def _turns(self, name: str) -> None:
        """One acts until it has nothing to do; a dead one leaves everything as it lies."""
        try:
            while self.alive[name].turn(0) is not None:
                pass
        except Killed:
            self.deaths += 1
            self._dead.append(self.alive.pop(name))
            self._hire()

    def close(self) -> None:
        """Let go of what the living and the dead hold."""
        for scheduler in (*self._dead, *self.alive.values()):
            scheduler.close()


def play(cell: Cell, company: Company, *, seconds: int = 20) -> None:
    """Some seconds in which something happens all the time, and a while to settle."""
    cell.admit(*NODES)
    for second in range(seconds):
        cell.submit(f"job-{second}")
        cell.heartbeat(*NODES)
        started = facts.MemberStarted(node="n1", job=f"job-{second}", attempt=1)
        cell.say(Topic.NODES, started, actor="node:n1", key="n1")
        if second == seconds // 3:
            cell.garbage(Topic.JOBS)
        if second == seconds * 2 // 3:
            cell.say(Topic.CONTROL, facts.HandOverRequested())
        company.run(ms=1_000)
    company.run(ms=10_000)


def judge(cell: Cell) -> None:
    """Acknowledged submissions took effect exactly once, the chain holds, assignments are right."""
    queued = [each.job for each in cell.decisions(d.JobQueued)]
    assert sorted(queued) == sorted(cell.acknowledged)
    rejected = cell.decisions(d.InputRejected)
    assert [each.topic for each in rejected] == ["jobs"]
    follower = cell.replayed()
    assignments = cell.assignments()
    for node in NODES:
        wanted = cell.core.assigned_members(follower.state, node)
        held = assignments[node].members if node in assignments else ()
        assert held == wanted
    consumed = {
        (each.topic, each.partition): each.last + 1
        for batch in cell.batches()
        for each in batch.inputs
    }
    ends = cell.log.ends([Topic.JOBS, Topic.CONTROL])
    assert all(consumed[each.topic, each.partition] == end for each, end in ends.items())
