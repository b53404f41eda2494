"""What must be so when a story is over: whatever can run has run, and each decision was right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gangline.events import decisions as d
from gangline.events.log import Position
from gangline.replay.check.checker import Checker, Told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gangline.replay.scenario import ScenarioRun

ENDED: Final = {"succeeded", "failed", "cancelled", "rejected"}


def stuck(run: ScenarioRun, jobs: Iterable[str]) -> list[str]:
    """The jobs that have not ended though all is healed, and why."""
    return [f"{job} is {what}" for job in jobs if (what := stuck_by(run, job))]


def stuck_by(run: ScenarioRun, job: str) -> str:
    """Why a job has not ended though all is healed; empty when it has, or cannot.

    It cannot when GPUs stayed broken that it needs, or when its quota was lowered under it.
    """
    state = run.scene.state_of(job)
    if state in ENDED:
        return ""
    core, world = run.world.core, run.world
    cause, text = core.explain(world.state, job, now_ms=world.now_ms)
    nodes = run.rules.model.nodes.values()
    ill = [node.node for node in nodes if node.ills or node.service is not d.Service.OPEN]
    broken = any(node.bad for node in nodes)
    changed = sum(isinstance(one, d.TeamChanged) for step in world.steps for one in step.decisions)
    if broken and not ill and cause in {d.WaitCause.NODES_UNHEALTHY, d.WaitCause.TOPOLOGY}:
        return ""
    if changed > len(run.rules.model.teams) and cause is d.WaitCause.BORROW_LIMIT:
        return ""
    if cause is d.WaitCause.DEPENDENCY:
        return ""
    return f"{state}: {cause} ({text}), ill: {ill}"


def judged(run: ScenarioRun) -> list[str]:
    """What the checker, which shares nothing with the core, says against the decisions."""
    checker = Checker()
    said = [each for batch in batches(run) for each in checker.batch(batch)]
    return [str(each) for each in (*said, *checker.finish())]


def batches(run: ScenarioRun) -> list[Told]:
    """The decisions of a run as a log holds them."""
    decided = [step for step in run.world.steps if step.decisions]
    return [
        Told(
            seq=seq,
            position=Position("decisions", 0, seq - 1),
            now_ms=step.now_ms,
            caught_up=step.caught_up,
            decisions=step.decisions,
        )
        for seq, step in enumerate(decided, start=1)
    ]
