"""The view `faults`: what was wrong with nodes and GPUs, from when to when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gangline.events import decisions as d
from gangline.events.named_sql import load_sql
from gangline.projections.work import ReadModel, Unknown, Work, touched

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
    detail: str = ""
    job: str = ""
    strike: bool = False


@dataclass(slots=True)
class Troubles:
    """What lasts now, by node and GPU, and all rows that a run touches."""

    cell: str
    lasting: dict[tuple[str, int], FaultRow]
    changed: list[FaultRow]

    def fold(self, decision: d.Decision, at_ms: int) -> None:
        """Change the rows as a decision says."""
        match decision:
            case d.GpuWithdrawn():
                self._begin((decision.node, decision.gpu), decision.fault, at_ms)
            case d.GpuReturned():
                self._end((decision.node, decision.gpu), at_ms)
            case d.NodeHealthChanged():
                self._health(decision, at_ms)
            case d.NodeDropped():
                for key in [key for key in self.lasting if key[0] == decision.node]:
                    self._end(key, at_ms)

    def _health(self, decision: d.NodeHealthChanged, at_ms: int) -> None:
        key = (decision.node, WHOLE_NODE)
        if decision.health is d.Health.WELL:
            self._end(key, at_ms)
            return
        row = self._begin(key, str(decision.health), at_ms)
        if row is not None:
            row.detail, row.job, row.strike = decision.cause, decision.job, decision.strike

    def _begin(self, key: tuple[str, int], kind: str, at_ms: int) -> FaultRow | None:
        """Note a trouble; None where the same one goes on."""
        known = self.lasting.get(key)
        if known is not None and known.kind == kind:
            return None
        self._end(key, at_ms)
        row = FaultRow(cell=self.cell, node=key[0], gpu=key[1], from_ms=at_ms, kind=kind)
        self.lasting[key] = row
        self.changed.append(row)
        return row

    def _end(self, key: tuple[str, int], at_ms: int) -> None:
        row = self.lasting.pop(key, None)
        if row is not None:
            row.to_ms = at_ms
            self.changed.append(row)


class Faults(ReadModel):
    """The read model of `faults`."""

    name = "faults"
    tables = ("fault",)
    unknown = Unknown.SKIP
    kinds = (d.GpuWithdrawn, d.GpuReturned, d.NodeHealthChanged, d.NodeDropped)
    sql = load_sql("gangline.projections", "faults.sql")

    def apply(self, work: Work) -> None:
        """Fold a run of steps into the table."""
        decisions = list(work.decisions(self))
        found = work.load("load", FaultRow, nodes=touched(decisions, "node"))
        troubles = Troubles(work.cell, {(row.node, row.gpu): row for row in found}, [])
        for item, decision in decisions:
            work.at = item
            troubles.fold(decision, item.at_ms)
        rows = {(r.node, r.gpu, r.from_ms, r.kind): r for r in troubles.changed}
        work.write("write", list(rows.values()))
