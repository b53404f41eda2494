"""The view `decisions`: every decision in order, as it can be shown to anybody.

Commands, environments and the like (the private part of a spec) and keys are left out.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from gangline.events import codec
from gangline.events.avro import to_plain
from gangline.events.named_sql import load_sql
from gangline.projections.work import ReadModel, Unknown, Work, as_json, storable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.decisions import Decision
    from gangline.projections.steps import Item

_HIDDEN = ("public_key",)


def detail(decision: Decision) -> str:
    """What a decision says, as JSON."""
    kind: type = type(decision)
    if not _hides(kind):
        return as_json(decision)
    found: dict[str, Any] = to_plain(kind)(decision)
    if "spec" in found:
        del found["spec"]["private"]
    for name in _HIDDEN:
        found.pop(name, None)
    return as_json(found)


@cache
def _hides(kind: type) -> bool:
    """Whether decisions of a kind have parts that are not for everybody."""
    return any(field.name in ("spec", *_HIDDEN) for field in fields(kind))


def _team(decision: object) -> str | None:
    spec = getattr(decision, "spec", None)
    team: str | None = getattr(decision if spec is None else spec, "team", None)
    return None if team is None else storable(team)


class Decisions(ReadModel):
    """The read model of `decisions`. One of an unknown kind stands there too, without detail."""

    name = "decisions"
    tables = ("decision",)
    unknown = Unknown.SKIP
    kinds = codec.DECISIONS
    sql = load_sql("gangline.projections", "decisions.sql")

    def apply(self, work: Work) -> Iterator[None]:
        """Append a run of steps to the table."""
        yield
        known = {(item.offset, item.index): row for item, row in self._rows(work)}
        for item in work.skipped:
            known[item.offset, item.index] = _row(work.cell, item, None, '{"unknown": true}')
        work.make_parts("decision", (offset for offset, _ in known))
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
        storable(item.kind),
        _name(getattr(decision, "job", None)),
        _name(getattr(decision, "node", None)),
        _team(decision),
        text,
    )


def _name(text: str | None) -> str | None:
    """A name as the table holds it; None for none."""
    return storable(text) if text else None
