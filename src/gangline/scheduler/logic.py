"""From one logic version to the next, in the open.

A cell is decided by the version that its log names. A program may know several: its core looks at
the version in the state, so that old logs replay for ever. A new leader that knows a newer one
first takes over by the old one, and then writes a batch of its own that holds nothing but
LogicUpgraded, with the state's digests on both sides; from the next batch on the new one decides.
The state passes through its snapshot there, so that its upcasters have done their work before
anything new is decided. Whoever does not know the new version stops at that batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gangline.events.decisions import LogicUpgraded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.events.batch import DecisionBatch
    from gangline.events.decisions import Decision
    from gangline.scheduler.ports import Core, State

FIRST_VERSION: Final = 1
"""By which a cell begins."""


class Upgraded(NamedTuple):
    """The state after an upgrade, and the decision that says so."""

    state: State
    decision: LogicUpgraded


def upgrade(core: Core, state: State, *, versions: tuple[int, int], now_ms: int) -> Upgraded:
    """Go over to another version. versions: old and new. The old state is used up."""
    old, new = versions
    before = core.state_digest(state)
    decision = LogicUpgraded(old_version=old, new_version=new, old_digest=before, new_digest=b"")
    core.fold(state, [decision], now_ms=now_ms)
    fresh = core.load(list(core.dump(state)))
    core.take_touched(fresh)
    after = core.state_digest(fresh)
    return Upgraded(
        fresh,
        LogicUpgraded(old_version=old, new_version=new, old_digest=before, new_digest=after),
    )


def is_upgrade(batch: DecisionBatch) -> bool:
    """Whether a batch (as a whole step) is one that only upgrades."""
    return [packed.kind for packed in batch.decisions] == [LogicUpgraded.__name__]


def version_after(batch: DecisionBatch, decisions: Sequence[Decision]) -> int:
    """The version that decides from the next batch on."""
    for decision in decisions:
        if isinstance(decision, LogicUpgraded):
            return decision.new_version
    return batch.logic_version
