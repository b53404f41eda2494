"""Rule 6: what a log says when it is read again must be what was so when it was written.

Three readings of one run: the fold of its decisions, compared with the live digest after every
step, and continued from snapshots on the way; the core's own step over the recorded inputs; and
every decision through its bytes and back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events import codec
from gangline.replay.broken_rule import BrokenRuleError, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.replay.core_port import Core, Step

SNAPSHOTS = 3
"""So many times on the way a fold goes on from a snapshot of itself."""


def check_replay(core: Core, steps: Sequence[Step]) -> None:
    """Read a run again in every way; raises BrokenRuleError at the first difference."""
    _check_idle_steps(steps)
    told = [step for step in steps if step.decisions]
    _check_fold(core, told)
    _check_steps(core, told)
    _check_bytes(told)


def _check_idle_steps(steps: Sequence[Step]) -> None:
    """A step without decisions writes no batch, so it may not change the state."""
    before = None
    for at, step in enumerate(steps):
        if not step.decisions and before is not None and step.digest != before:
            raise BrokenRuleError(Rule.REPLAY, f"step {at} changed the state without a decision")
        before = step.digest


def _check_fold(core: Core, steps: Sequence[Step]) -> None:
    state = core.new_state()
    every = max(1, len(steps) // (SNAPSHOTS + 1))
    for at, step in enumerate(steps):
        core.fold(state, list(step.decisions), now_ms=step.now_ms)
        if core.state_digest(state) != step.digest:
            raise BrokenRuleError(Rule.REPLAY, f"another digest when step {at} is folded")
        if at % every == every - 1:
            state = core.load(list(core.dump(state)))
            if core.state_digest(state) != step.digest:
                raise BrokenRuleError(Rule.REPLAY, f"another digest in a snapshot at step {at}")


def _check_steps(core: Core, steps: Sequence[Step]) -> None:
    state = core.new_state()
    for at, step in enumerate(steps):
        decisions = core.step(
            state, step.facts, edges=step.edges, now_ms=step.now_ms, caught_up=step.caught_up
        )
        if tuple(decisions) != step.decisions:
            wrong = next(
                (
                    pair
                    for pair in zip(step.decisions, decisions, strict=False)
                    if pair[0] != pair[1]
                ),
                (f"{len(step.decisions)} decisions", f"{len(decisions)}"),
            )
            raise BrokenRuleError(
                Rule.REPLAY, f"step {at} decided {wrong[0]}, and decides {wrong[1]} again"
            )
        if core.state_digest(state) != step.digest:
            raise BrokenRuleError(Rule.REPLAY, f"another digest when step {at} is made again")


def _check_bytes(steps: Sequence[Step]) -> None:
    for at, step in enumerate(steps):
        for decision in step.decisions:
            if codec.unpack(codec.pack(decision)) != decision:
                raise BrokenRuleError(Rule.REPLAY, f"bytes change {decision} of step {at}")
