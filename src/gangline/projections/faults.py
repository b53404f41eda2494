"""The view `faults`: what was wrong with nodes and GPUs, from when to when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gangline.events import decisions as d
from gangline.events.named_sql import load_sql
from gangline.projections import conditions
from gangline.projections.work import ReadModel, Unknown, Work, touched

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE_NODE: Final = -1


@dataclass(slots=True, kw_only=True)
class FaultRow:
    """The columns of the table `fault`. gpu: -1 for the whole node. to_ms: None while it lasts."""

    cell: str
    node: str
    gpu: int
    from_ms: int
    to_ms: int | None = None
    kind: str
    job: str = ""
    strike: bool = False


@dataclass(slots=True)
class Troubles:
    """What lasts now, by node, GPU and kind, and all rows that a run touches."""

    cell: str
    lasting: dict[tuple[str, int, str], FaultRow]
    changed: list[FaultRow]

    def fold(self, decision: d.Decision, at_ms: int) -> None:
        """Change the rows as a decision says."""
        match decision:
            case d.GpuWithdrawn():
                self._begin((decision.node, decision.gpu, decision.fault), at_ms)
            case d.GpuReturned():
                self._end_all(decision.node, gpu=decision.gpu, at_ms=at_ms)
            case d.NodeHealthChanged():
                self._health(decision, at_ms)
            case d.NodeDropped():
                self._end_all(decision.node, gpu=None, at_ms=at_ms)

    def _health(self, decision: d.NodeHealthChanged, at_ms: int) -> None:
        for kind in conditions.ended(decision):
            self._end((decision.node, WHOLE_NODE, kind), at_ms)
        new = conditions.begun(decision)
        row = self._begin((decision.node, WHOLE_NODE, new), at_ms) if new else None
        if row is not None:
            row.job, row.strike = decision.job, decision.strike

    def _begin(self, key: tuple[str, int, str], at_ms: int) -> FaultRow | None:
        """Note a trouble; None where the same one goes on."""
        if key in self.lasting:
            return None
        row = FaultRow(cell=self.cell, node=key[0], gpu=key[1], from_ms=at_ms, kind=key[2])
        self.lasting[key] = row
        self.changed.append(row)
        return row

    def _end(self, key: tuple[str, int, str], at_ms: int) -> None:
        row = self.lasting.pop(key, None)
        if row is not None:
            row.to_ms = at_ms
            self.changed.append(row)

    def _end_all(self, node: str, *, gpu: int | None, at_ms: int) -> None:
        """End what a GPU has, or (None) all of a node."""
        for key in [k for k in self.lasting if k[0] == node and gpu in (None, k[1])]:
            self._end(key, at_ms)


class Faults(ReadModel):
    """The read model of `faults`."""

    name = "faults"
    tables = ("fault",)
    unknown = Unknown.SKIP
    kinds = (d.GpuWithdrawn, d.GpuReturned, d.NodeHealthChanged, d.NodeDropped)
    sql = load_sql("gangline.projections", "faults.sql")

    def apply(self, work: Work) -> Iterator[None]:
        """Fold a run of steps into the table."""
        decisions = list(work.decisions(self))
        found = work.load("load", FaultRow, nodes=touched(decisions, "node"))
        yield
        troubles = Troubles(work.cell, {(row.node, row.gpu, row.kind): row for row in found}, [])
        for item, decision in decisions:
            work.at = item
            troubles.fold(decision, item.at_ms)
        rows = {(r.node, r.gpu, r.from_ms, r.kind): r for r in troubles.changed}
        work.write("write", list(rows.values()))
