"""The driver and the real core together: a fleet at work, with deaths in it, verifies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.events import decisions as d
from gangline.events import facts
from gangline.events.log import Topic
from gangline.events.spec import CheckpointSpec, JobClass, Spec
from gangline.replay.history import LogSource
from gangline.replay.verify import verify
from gangline.scheduler import core
from gangline.scheduler.ports import Point, no_probe
from tests.scheduler.agents import Agents
from tests.scheduler.cell import Cell, KillAt
from tests.scheduler.theatre import Company

if TYPE_CHECKING:
    from gangline.scheduler.ports import Probe

NODES = tuple(f"n{index}" for index in range(6))


class Fleet:
    """Six nodes of eight GPUs, two teams, agents, and a company of schedulers."""

    def __init__(self, probe: Probe = no_probe) -> None:
        self.cell = Cell(core=core)
        self.company = Company(self.cell, probe, snapshot_every=5)
        self.agents = Agents(self.cell, NODES)
        self.jobs = 0
        for team, guaranteed in (("a", 32), ("b", 16)):
            self.cell.say(Topic.CONTROL, facts.TeamSet(team=team, guaranteed=guaranteed))
        for index, node in enumerate(NODES):
            path = (f"b{index // 3}",)
            admitted = facts.NodeAdmitted(node=node, path=path, levels=("block",), gpus=8)
            self.cell.say(Topic.CONTROL, admitted)
        self.agents.register()

    def submit(self, team: str, gpus: int, job_class: JobClass = JobClass.NORMAL) -> str:
        """A user's job that can checkpoint."""
        self.jobs += 1
        job = f"job-{self.jobs}"
        spec = Spec(
            team=team, gpus=gpus, job_class=job_class, checkpoint=CheckpointSpec(interval_ms=10_000)
        )
        self.cell.say(Topic.JOBS, facts.JobSubmitted(job=job, spec=spec), actor="user:u")
        self.cell.acknowledged.append(job)
        return job

    def run(self, *, ms: int) -> None:
        """Let time pass; agents act after schedulers."""
        for _ in range(ms // 200):
            self.company.run(ms=200)
            self.agents.act()

    def play(self) -> None:
        """Work, an urgent claim, a death, garbage, a cancel, and a hand-over."""
        sizes = (1, 4, 8, 16, 2, 24, 1, 8, 4, 12)
        for second, gpus in enumerate(sizes):
            self.submit("ab"[second % 2], gpus)
            self.run(ms=1_000)
        self.submit("a", 40, JobClass.URGENT)
        self.cell.garbage(Topic.NODES)
        self.run(ms=20_000)
        self.agents.dead.add("n4")
        self.cell.say(Topic.JOBS, facts.JobCancelRequested(job="job-8"), actor="user:u")
        self.run(ms=60_000)
        self.cell.say(Topic.CONTROL, facts.HandOverRequested())
        self.agents.dead.clear()
        self.run(ms=120_000)

    def judge(self) -> None:
        """What was promised happened once, assignments are right, and the log verifies."""
        queued = [each.job for each in self.cell.decisions(d.JobQueued)]
        assert sorted(queued) == sorted(self.cell.acknowledged)
        self.judge_log()

    def judge_answers(self) -> None:
        """Every submission was answered once."""
        answers = [*self.cell.decisions(d.JobQueued), *self.cell.decisions(d.JobRejected)]
        assert sorted(each.job for each in answers) == sorted(self.cell.acknowledged)

    def judge_log(self) -> None:
        """Assignments are right, and the log verifies."""
        cell = self.cell
        report = verify(LogSource(cell.log), core)
        assert report.difference is None, report.difference.diff or report.difference
        follower = cell.replayed()
        assignments = cell.assignments()
        for node in NODES:
            held = assignments[node].members if node in assignments else ()
            assert held == core.assigned_members(follower.state, node)


def test_a_fleet_at_work_verifies_byte_for_byte() -> None:
    """Placements, preemption, a lost node, waits: all come out again."""
    fleet = Fleet()

    fleet.play()

    fleet.judge()
    kinds = {type(decision).__name__ for decision in fleet.cell.decisions()}
    assert {"GangPlaced", "GangStarted", "JobFinished", "WaitCauseChanged"} <= kinds
    finished = [each.outcome for each in fleet.cell.decisions(d.JobFinished)]
    assert finished.count(d.Outcome.SUCCEEDED) >= 8


@pytest.mark.parametrize("point", list(Point))
def test_a_scheduler_may_die_anywhere_with_the_real_core(point: Point) -> None:
    """A later passing of each point, in the middle of the work."""
    fleet = Fleet(KillAt(point, passing=4))

    fleet.play()

    fleet.judge()
