"""Fixtures of the agents' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.cell import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Cell]:
    """A log in memory, somebody who writes assignments, and the facts that come back."""
    cell = Cell(tmp_path)
    yield cell
    cell.close()
