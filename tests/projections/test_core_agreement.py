"""The views are folds of decisions, and so is the core: they agree after every step."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gangline.events import decisions as d
from gangline.projections import jobs, nodes, queue
from gangline.projections.ledger_fold import Ledger
from gangline.projections.standing import Standing
from gangline.projections.teams import team_rows
from gangline.replay.scenario import ScenarioRun
from gangline.replay.scenario_grammar import parse
from gangline.scheduler import core
from gangline.scheduler.core.order import Order

if TYPE_CHECKING:
    from gangline.replay.core_port import Step
    from gangline.replay.world import World

SCENARIOS = sorted(Path(__file__).parent.parent.glob("scenarios/*.scn"))


class Agreement:
    """Watches a scenario, folds its decisions as the views do, and compares with the core."""

    def __init__(self) -> None:
        self.books = Standing()
        self.jobs: dict[str, jobs.JobRow] = {}
        self.fleet = nodes.Fleet("main", {}, {})
        self.line = queue.Line("main", {})
        self.ledger = Ledger()
        self.capacity_ms = 0
        self.entered: Counter[str] = Counter()
        self.lost_gpu_ms = 0
        self.steps = 0

    def stepped(self, world: World, step: Step) -> None:
        """Fold a step, and compare."""
        if self.steps:
            self.capacity_ms += self.books.capacity * (step.now_ms - self.ledger.now_ms)
        self.ledger.advance(step.now_ms)
        for decision in step.decisions:
            self.books.now_ms = step.now_ms
            self.books.apply(decision)
            self.ledger.apply(decision, step.now_ms)
            if isinstance(decision, d.GangReleased):
                self.lost_gpu_ms += decision.lost_gpu_ms
            if type(decision) in jobs.Jobs.kinds:
                jobs.fold(self.jobs, decision, cell="main", at_ms=step.now_ms)
            if type(decision) in queue.Queue.kinds:
                self.line.fold(decision, step.now_ms)
            if type(decision) in nodes.Nodes.kinds:
                nodes.fold(self.fleet, decision, step.now_ms)
        self.steps += 1
        self._compare_teams(world.state)
        self._compare_jobs(world.state)
        self._compare_line(world.state)
        self._compare_fleet(world.state)
        self._compare_ledger()

    def _compare_ledger(self) -> None:
        """It balances, and has lost what the scheduler says was lost."""
        self.ledger.meter.cut(self.ledger.now_ms)
        for entry in self.ledger.take()[0]:
            self.entered[entry.key.account] += entry.gpu_ms
        assert self.entered.total() == self.capacity_ms
        assert self.entered["lost"] == self.lost_gpu_ms

    def _compare_teams(self, state: Any) -> None:
        order = Order(state, self.ledger.now_ms)
        for name, row in team_rows("main", self.books).items():
            expected = core.team_numbers(state, name)
            seen = (row.used, row.guaranteed_used, row.borrowed, row.lent, row.queued)
            assert seen == tuple(expected), name
            flags = (0 if row.used < row.guaranteed else 1, *order.share(name))
            assert row.standing == "".join(map(str, flags)), name
            trees = state.models.trees.items()
            models = {kind: (tree[name].guaranteed, tree[name].used) for kind, tree in trees}
            found = {kind: (n["guaranteed"], n["used"]) for kind, n in row.by_model.items()}
            assert found == models, name

    def _compare_jobs(self, state: Any) -> None:
        for name, row in self.jobs.items():
            expected = core.job_state(state, name)
            assert ("" if row.ended_ms is not None else row.state) == expected, name

    def _compare_line(self, state: Any) -> None:
        """What waits stands in the order in which the scheduler looks at it."""
        standing, order = self.books.standing(), Order(state, self.ledger.now_ms)
        known = (row for row in self.line.rows.values() if row.team in state.teams)
        waiting = [row for row in known if row.queued]
        waiting.sort(
            key=lambda row: (
                -row.class_rank,
                row.reservation != "firm",
                standing[row.team],
                row.submitted_ms,
                row.number,
            )
        )
        expected = sorted((state.jobs[row.job] for row in waiting), key=order.key)
        assert [row.job for row in waiting] == [job.id for job in expected]

    def _compare_fleet(self, state: Any) -> None:
        rows = [row for row in self.fleet.nodes.values() if not row.dropped]
        for row in rows:
            row.letters()
        well = [row for row in rows if row.service == d.Service.OPEN]
        seen = core.FleetNumbers(
            held=sum(row.held for row in rows),
            free=sum(row.free for row in rows),
            unhealthy=sum(row.gpus if row.health != "well" else row.bad for row in well),
            total=sum(row.gpus for row in rows),
        )
        assert seen == core.fleet_numbers(state)
        held = sum(self.books.held.values())
        assert (held, self.books.capacity) == (seen.held, seen.total)


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_views_and_core_agree_after_every_step(path: Path) -> None:
    """Teams, jobs and the fleet, whatever the scenario does."""
    run = ScenarioRun(str(path))
    agreement = Agreement()
    run.world._observers = (*run.world._observers, agreement)

    problem = run.play(parse(path.read_text(), file=str(path)))

    assert problem is None
    assert agreement.steps
