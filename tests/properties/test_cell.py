"""The nine invariants, liveness and replay, whatever happens to a small cell in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.properties.cell import Cell
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(0)

TestCell = Cell.TestCase
TestCell.settings = settings(
    max_examples=examples(40),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
