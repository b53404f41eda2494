"""The view `teams`: what each team was promised, and what it uses, borrows and lends now.

Beside them, for the order of the queue, how it stands (`standing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gangline.events import decisions as d
from gangline.events.named_sql import load_sql
from gangline.projections import books
from gangline.projections.lending import lent
from gangline.projections.model_numbers import ModelNumbers, model_numbers
from gangline.projections.remembering import RememberingModel
from gangline.projections.standing import Standing
from gangline.projections.work import Unknown, Work


@dataclass(slots=True, kw_only=True)
class TeamRow:
    """The columns of the table `team`."""

    cell: str
    team: str
    parent: str
    guaranteed: int
    borrow_limit: int
    lend_limit: int
    weight: int
    used: int
    guaranteed_used: int
    borrowed: int
    lent: int
    queued: int
    running: int
    by_model: Mapping[str, ModelNumbers]
    standing: str


def team_rows(cell: str, found: Standing) -> dict[str, TeamRow]:
    """The row of each team at a moment."""
    tree = found.tree()
    totals, lends = tree.totals(found.uses), lent(tree, found.uses, found.capacity)
    models, standing = model_numbers(found), found.standing()
    rows = {}
    for name, terms in found.teams.items():
        used = totals[name]
        inside = min(used, terms.guaranteed)
        rows[name] = TeamRow(
            cell=cell,
            team=name,
            parent=terms.parent,
            guaranteed=terms.guaranteed,
            borrow_limit=terms.borrow,
            lend_limit=terms.lend,
            weight=terms.weight,
            used=used,
            guaranteed_used=inside,
            borrowed=used - inside,
            lent=lends[name],
            queued=found.queued[name],
            running=found.running[name],
            by_model=models.get(name, {}),
            standing=standing[name],
        )
    return rows


class Teams(RememberingModel[Standing]):
    """The read model of `teams`."""

    name = "teams"
    tables = ("team",)
    unknown = Unknown.STOP
    kinds = (*books.FOLDS, d.PolicyChanged)
    sql = load_sql("gangline.projections", "teams.sql")

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[str, TeamRow] = {}

    def restore(self, work: Work, records: Mapping[str, Any]) -> Standing:
        """The books as they were saved; what the table says is not known yet."""
        self._written = {}
        found = Standing()
        found.restore(records)
        return found

    def fold(self, work: Work, state: Standing) -> None:
        """Fold a run of steps, and write the teams whose numbers changed."""
        for item, decision in work.decisions(self):
            state.now_ms = item.at_ms
            state.apply(decision)
        state.now_ms = work.now_ms
        rows = team_rows(work.cell, state)
        changed = [row for name, row in rows.items() if self._written.get(name) != row]
        work.write("write", changed)
        self._written = rows
