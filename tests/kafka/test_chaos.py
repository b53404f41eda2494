"""Troubles in an order that a seed gives, on three brokers with real scheduler processes.

`make chaos-kafka` runs the long form: SEEDS many seeds from FIRST on, each with ROUNDS troubles,
and troubles that last for a minute.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.company import TROUBLES, Company, judge
from tests.support.kafka_cluster import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka.company import Trouble
    from tests.support.kafka_cluster import KafkaCluster

FIRST = int(os.environ.get("GANGLINE_CHAOS_FIRST", "0"))
SEEDS = int(os.environ.get("GANGLINE_CHAOS_SEEDS", "1"))
ROUNDS = int(os.environ.get("GANGLINE_CHAOS_ROUNDS", "3"))
AWAY_S = float(os.environ.get("GANGLINE_CHAOS_AWAY_S", "4"))

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(240 + ROUNDS * (120 + 2 * AWAY_S)),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder for brokers and logs."""
    folder = Path(tempfile.mkdtemp(prefix="gangline-chaos-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(folder: Path) -> Iterator[KafkaCluster]:
    """Give three running brokers."""
    with started(folder) as cluster:
        yield cluster


def shuffled(chance: random.Random) -> Iterator[Trouble]:
    """All troubles in some order, again and again: few rounds still bring many kinds."""
    while True:
        yield from chance.sample(TROUBLES, len(TROUBLES))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_what_was_acknowledged_happens_once(
    cluster: KafkaCluster, folder: Path, *, seed: int
) -> None:
    """Whatever befalls leaders and brokers, and whatever strangers write."""
    chance = random.Random(seed)  # noqa: S311 - the same troubles for the same seed
    troubles = list(islice(shuffled(chance), ROUNDS))
    print(f"seed {seed}: {', '.join(trouble.__name__ for trouble in troubles)}")
    with Company(cluster, folder, away_s=AWAY_S) as company:
        for trouble in troubles:
            trouble(company, chance)
            company.progress()
    judge(company)
    company.log.close()
