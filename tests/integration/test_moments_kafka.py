"""`kill -9` of everybody at every moment of a gang's life, on real Kafka; see matrix.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.matrix import Cell, cells, one_death, stack_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.training import Training

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

CHOSEN: Final[list[Cell]] = [
    ("preparing", "leader"),
    ("starting", "cable"),
    ("running", "database"),
    ("saving", "rank"),
    ("grace", "broker"),
    ("ended", "agent"),
]


@pytest.fixture(scope="module")
def training() -> Iterator[Training]:
    """Bring up a stack once for all deaths."""
    with stack_on("kafka") as training:
        yield training


@pytest.mark.parametrize(("moment", "victim"), cells("kafka", CHOSEN))
def test_no_death_costs_more_than_it_must(training: Training, moment: str, victim: str) -> None:
    """By the program's own log: no step where the programs live on, else at most one interval."""
    one_death(training, moment, victim)
