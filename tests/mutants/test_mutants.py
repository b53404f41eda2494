"""The auditor's own test: wrong patches are caught. `make mutants` hunts all of them."""

from __future__ import annotations

import pytest

from tests.mutants.hunt import MUTANTS, hunt
from tests.mutants.mutant import applied

SOME = (
    "gang-too-small",
    "start-without-the-last",
    "endless-retries",
    "nobody-is-told",
    "a-record-lost",
    "ledger-without-losses",
    "exit-codes-lost",
    "starts-by-itself",
)
"""Mutants that a few seeds catch, of every room."""


def test_there_are_enough_of_every_room() -> None:
    """Thirty at least, with names of their own, in core, drivers, views and agents."""
    assert len(MUTANTS) >= 30
    assert {mutant.room for mutant in MUTANTS.values()} == {"core", "driver", "views", "agent"}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_finds_what_it_breaks(name: str) -> None:
    """A function that was renamed or moved would leave a mutant that breaks nothing."""
    with applied(MUTANTS[name]):
        pass


@pytest.mark.parametrize("name", SOME)
def test_a_mutant_is_caught(name: str) -> None:
    """A few seeds are enough for these."""
    caught = hunt(name, range(4))

    assert caught.seeds, f"{name} got away"
