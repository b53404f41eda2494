"""What the database says adds up, whatever happened and however it was cut into transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gangline.events import decisions as d
from gangline.projections.projector import Pace
from tests.projections import story as s
from tests.projections.chaos import History, moves
from tests.projections.conftest import PACE

if TYPE_CHECKING:
    from tests.projections.conftest import Desk

pytestmark = pytest.mark.postgres


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves, st.integers(1, 7))
def test_rows_in_the_database_add_up_to_capacity_times_time(
    desk: Desk, numbers: list[tuple[int, int, int, int]], at_once: int
) -> None:
    """Ledger, utilization and the numbers of nodes and teams agree, at the position reached."""
    desk.cell, desk.story = f"cell-{next_cell()}", s.Story()
    pace = Pace(poll_s=0, look_s=0, records=at_once)
    capacity_ms, gpus, last = 0, dict[str, int](), s.START_MS
    for at_ms, decision in History().play(numbers):
        capacity_ms += sum(gpus.values()) * (at_ms - last)
        last = desk.story.now_ms = at_ms
        if isinstance(decision, d.NodeAdded):
            gpus[decision.node] = decision.gpus
        if isinstance(decision, d.NodeDropped):
            del gpus[decision.node]
        desk.story.step(decision)
    desk.catch_up(pace=pace if at_once > 1 else PACE)

    total = "SELECT coalesce(sum(gpu_ms), 0) AS gpu_ms FROM {} WHERE cell = %s"
    for view in ("quota_ledger", "utilization"):
        assert desk.all(total, desk.cell, table=view) == [{"gpu_ms": capacity_ms}]
    problems = desk.all("SELECT view, problem FROM projection WHERE problem IS NOT NULL")
    assert problems == []
    nodes = desk.one(
        "SELECT sum(gpus) AS gpus, sum(held) AS held FROM nodes WHERE cell = %s", desk.cell
    )
    held = desk.one(
        "SELECT sum(gpus) AS gpus FROM ledger_open"
        " WHERE cell = %s AND account IN ('starting', 'unsaved', 'stopping')",
        desk.cell,
    )
    assert (nodes["gpus"] or 0) == sum(gpus.values())
    assert (nodes["held"] or 0) == (held["gpus"] or 0)


_cells = iter(range(10**9))


def next_cell() -> int:
    """A number for a cell of its own."""
    return next(_cells)
