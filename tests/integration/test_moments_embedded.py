"""`kill -9` of everybody at every moment of a gang's life, on the embedded bus; see matrix.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.matrix import Cell, cells, one_death, stack_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.training import Training

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CHOSEN: Final[list[Cell]] = [
    ("preparing", "database"),
    ("starting", "agent"),
    ("running", "supervisor"),
    ("saving", "leader"),
    ("grace", "still"),
    ("ended", "standby"),
]


@pytest.fixture(scope="module")
def training() -> Iterator[Training]:
    """Bring up a stack once for all deaths."""
    with stack_on("embedded") as training:
        yield training


@pytest.mark.parametrize(("moment", "victim"), cells("embedded", CHOSEN))
def test_no_death_costs_more_than_it_must(training: Training, moment: str, victim: str) -> None:
    """By the program's own log: no step where the programs live on, else at most one interval."""
    one_death(training, moment, victim)
