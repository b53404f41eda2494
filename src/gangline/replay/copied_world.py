"""A cell on simulated agents that begins where a live one stands.

Machines are as the scheduler knows them. A gang that runs goes on from the moment of the copy, with
as much work left as it had; a checkpoint that it made since it started is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.agents.simulated import SimulatedNode
from gangline.agents.simulated_gang import Program, Saves
from gangline.replay.world import Leader, World
from gangline.scheduler import core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangline.events.spec import Spec
    from gangline.replay.world import Observer
    from gangline.scheduler.core import State
    from gangline.scheduler.core.entities import Node


class CopiedWorld(World):
    """A world that begins where a live cell stands. state: used up.

    programs: what jobs really do, where it is known; else plans' assumptions hold.
    """

    def __init__(
        self,
        state: State,
        *,
        now_ms: int,
        observers: Sequence[Observer],
        programs: Mapping[str, Program] | None = None,
    ) -> None:
        super().__init__(
            core,
            observers=observers,
            keeps_steps=False,
            start_ms=now_ms,
            saves=Saves.WHEN_NEEDED,
        )
        self._edges = []
        self._known = programs or {}
        self.leader = Leader(state, wake_ms=core.next_wake(state))
        for job in state.jobs.values():
            self.programs[job.id] = self._program(job.id)
        for node in state.nodes.values():
            self._bring_up(node)
        for name in state.nodes:
            self.fleet.hear(name, core.assigned_members(state, name), now_ms)

    def assumed_ms(self, spec: Spec) -> int:
        """How long plans assume that a job works."""
        default: int = core.policy_value(self.state, "default_limit")
        return default if spec.limit_ms is None else spec.limit_ms

    def _program(self, name: str) -> Program:
        """What a job's program does from here on; one that outlived its plan works as long again.

        It goes on at the work that the present run resumed from, so what is left counts from there.
        """
        job = self.state.jobs[name]
        known = self._known.get(name, Program(runtime_ms=self.assumed_ms(job.spec)))
        if not job.started_ms or known.runtime_ms is None:
            return known
        ran_ms = self.now_ms - job.started_ms
        left_ms = known.runtime_ms - job.resumed_ms - ran_ms
        if left_ms <= 0:
            left_ms = 1 if name in self._known else ran_ms
        return Program(runtime_ms=job.resumed_ms + left_ms, code=known.code)

    def _bring_up(self, node: Node) -> None:
        """A machine as the scheduler knows it; one that is silent stays so."""
        silent = bool(node.silent_ms or node.lost)
        bad = {index for index in range(node.gpus) if node.bad >> index & 1}
        self.fleet.nodes[node.name] = SimulatedNode(
            name=node.name, gpus=node.gpus, up=not silent, bad=bad
        )
        if silent:
            self.fleet.silent[node.name] = node.silent_ms or self.now_ms
            self._told_silent.add(node.name)
