"""The core with a watch on it: how long each step took."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.events.batch import Edge
    from gangline.events.decisions import Decision
    from gangline.replay.core_port import Core
    from gangline.scheduler.core.inputs import Fact


class TimedCore:
    """Passes everything to a core; the times of steps that decided something are kept.

    step_us: microseconds of each step with a decision. steps: all steps.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.step_us: list[int] = []
        self.steps = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the core has
        return getattr(self._core, name)

    def step(
        self,
        state: Any,  # noqa: ANN401 - the core's own
        facts: Sequence[Fact],
        *,
        edges: Sequence[Edge],
        now_ms: int,
        caught_up: bool,
    ) -> list[Decision]:
        """The core's step, timed."""
        began = time.perf_counter_ns()
        decisions = self._core.step(state, facts, edges=edges, now_ms=now_ms, caught_up=caught_up)
        self.steps += 1
        if decisions:
            self.step_us.append((time.perf_counter_ns() - began) // 1000)
        return decisions
