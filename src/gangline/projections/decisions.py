"""The view `decisions`: every decision in order, as it can be shown to anybody.

Commands, environments and the like (the private part of a spec) and keys are left out.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any

from gangline.events import codec
from gangline.events.avro import to_plain
from gangline.events.named_sql import load_sql
from gangline.projections.work import ReadModel, Unknown, Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.decisions import Decision
    from gangline.projections.steps import Item

_HIDDEN = ("public_key",)


def _plain(value: object) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def detail(decision: Decision) -> str:
    """What a decision says, as JSON."""
    found: dict[str, Any] = to_plain(codec.CLASSES[type(decision).__name__])(decision)
    if "spec" in found:
        del found["spec"]["private"]
    for name in _HIDDEN:
        found.pop(name, None)
    return json.dumps(found, default=_plain)


def _team(decision: object) -> str | None:
    spec = getattr(decision, "spec", None)
    team: str | None = getattr(decision if spec is None else spec, "team", None)
    return team


class Decisions(ReadModel):
    """The read model of `decisions`. One of an unknown kind stands there too, without detail."""

    name = "decisions"
    tables = ("decision",)
    unknown = Unknown.SKIP
    kinds = codec.DECISIONS
    sql = load_sql("gangline.projections", "decisions.sql")

    def apply(self, work: Work) -> None:
        """Append a run of steps to the table."""
        known = {(item.offset, item.index): row for item, row in self._rows(work)}
        for item in work.skipped:
            known[item.offset, item.index] = _row(work.cell, item, None, '{"unknown": true}')
        work.copy("append", known.values())

    def _rows(self, work: Work) -> Iterator[tuple[Item, tuple[object, ...]]]:
        for item, decision in work.decisions(self):
            yield item, _row(work.cell, item, decision, detail(decision))


def _row(cell: str, item: Item, decision: object, text: str) -> tuple[object, ...]:
    return (
        cell,
        item.offset,
        item.index,
        item.at_ms,
        item.kind,
        getattr(decision, "job", None) or None,
        getattr(decision, "node", None) or None,
        _team(decision),
        text,
    )
