"""What a node's health is made of: conditions that come and go by themselves. Pure.

A decision says which condition came or went (`cause`); a node that is heard again may still be
quarantined. Its health is the worst that holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gangline.events.decisions import Health

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangline.events.decisions import NodeHealthChanged

SILENT: Final = "silent"
LOST: Final = "lost"
UNREADY: Final = "unready"
QUARANTINE: Final = "quarantine"

_WORST_FIRST: Final[Mapping[str, Health]] = {
    LOST: Health.LOST,
    QUARANTINE: Health.QUARANTINED,
    SILENT: Health.SUSPECTED,
    UNREADY: Health.SUSPECTED,
}
_ENDS: Final[Mapping[str, tuple[str, ...]]] = {
    "heard": (SILENT, LOST),
    "ready again": (UNREADY,),
    "quarantine over": (QUARANTINE,),
}
_OF_HEALTH: Final[Mapping[Health, str]] = {
    Health.LOST: LOST,
    Health.QUARANTINED: QUARANTINE,
    Health.SUSPECTED: SILENT,
}


def begun(decision: NodeHealthChanged) -> str | None:
    """The condition that a decision begins, if any; by the health where the cause names none."""
    if decision.cause in _WORST_FIRST:
        return decision.cause
    return None if decision.cause in _ENDS else _OF_HEALTH.get(decision.health)


def ended(decision: NodeHealthChanged) -> tuple[str, ...]:
    """The conditions that hold no more; all of them where the decision names none and says well."""
    if begun(decision) is not None:
        return ()
    return _ENDS.get(decision.cause, tuple(_WORST_FIRST))


def after(conditions: Sequence[str], decision: NodeHealthChanged) -> list[str]:
    """The conditions that hold after a decision, in a fixed order."""
    new, gone = begun(decision), ended(decision)
    return [c for c in _WORST_FIRST if (c in conditions or c == new) and c not in gone]


def health_of(conditions: Sequence[str]) -> Health:
    """The worst that holds."""
    return next((h for c, h in _WORST_FIRST.items() if c in conditions), Health.WELL)
