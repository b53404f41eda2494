"""Fault models: rates, groups, lemons, replayed files; always the same for the same seed."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gangline.replay.bad_input import BadInputError
from gangline.replay.faults import (
    DAY_MS,
    GROUP_SPREAD_MS,
    LEMON_SHARE,
    FaultEvent,
    FaultModel,
    parse_faults,
)
from gangline.replay.workload import pod_fleet

if TYPE_CHECKING:
    from pathlib import Path

FLEET = pod_fleet(1000)
YEAR_MS = 365 * DAY_MS


def a_year(text: str, seed: int = 1) -> list[FaultEvent]:
    """A year of faults of a fleet of 1,000 nodes."""
    events = parse_faults(text).events(FLEET, seed=seed)
    return list(itertools.takewhile(lambda event: event.at_ms < YEAR_MS, events))


def test_none_breaks_nothing() -> None:
    """Without faults the stream is empty."""
    assert list(FaultModel().events(FLEET, seed=1)) == []


@pytest.mark.parametrize(
    ("text", "a_day"),
    [("rsc1", 6.50), ("rsc2", 2.34), ("4.2", 4.2), ("rsc1+groups", 6.5), ("rsc1+lemons", 6.5)],
)
def test_rates_are_failures_per_thousand_node_days(text: str, a_day: float) -> None:
    """Groups and lemons change where and when, not how many."""
    assert len(a_year(text)) / 365 == pytest.approx(a_day, rel=0.1)


def test_faults_come_in_order_of_time() -> None:
    """Also where groups spread over a minute and crashes come between."""
    times = [event.at_ms for event in a_year("rsc1+groups+lemons+jobs")]

    assert times == sorted(times)


def test_the_same_seed_breaks_the_same() -> None:
    """And another seed something else."""
    assert a_year("rsc1+groups+jobs", seed=3) == a_year("rsc1+groups+jobs", seed=3)
    assert a_year("rsc1", seed=3) != a_year("rsc1", seed=4)


def test_a_fault_takes_a_gpu_or_its_node() -> None:
    """About a quarter are of single GPUs, as in the published list; each is repaired."""
    faults = a_year("rsc1")
    single = [fault for fault in faults if fault.kind == "gpu"]

    assert len(single) / len(faults) == pytest.approx(158 / 584, abs=0.03)
    assert all(0 <= fault.gpu < 8 for fault in single)
    assert all(fault.for_ms > 0 for fault in faults)
    median_h = sorted(fault.for_ms for fault in faults)[len(faults) // 2] / 3_600_000
    assert 10 < median_h < 35


def test_groups_strike_neighbours_together() -> None:
    """About a fifth of the faults starts together with another one of its block."""
    faults = a_year("rsc1+groups")
    block = {node.name: node.path for node in FLEET.nodes}
    together = sum(
        any(
            other is not fault
            and block[other.node] == block[fault.node]
            and abs(other.at_ms - fault.at_ms) <= GROUP_SPREAD_MS
            for other in faults[max(0, index - 20) : index + 20]
        )
        for index, fault in enumerate(faults)
    )

    assert together / len(faults) == pytest.approx(0.20, abs=0.06)


def test_lemons_draw_more_than_their_share() -> None:
    """The worst tenth of the nodes has some two fifths of the faults."""
    counts = Counter(fault.node for fault in a_year("rsc1+lemons"))
    worst = sum(count for _, count in counts.most_common(100))

    assert worst / sum(counts.values()) == pytest.approx(LEMON_SHARE, abs=0.06)


def test_jobs_also_die_on_well_nodes() -> None:
    """The rate is what node hardware leaves unexplained of a gang of 1,024 GPUs."""
    crashes = [fault for fault in a_year("none+jobs") if fault.kind == "crash"]

    assert len(crashes) / (365 * 24) * 1024 / 8000 == pytest.approx(1 / 7.9 - 1 / 28.8, rel=0.1)


def test_stragglers_take_longer() -> None:
    """Some 42 % of the jobs run 10 to 30 % longer; without the part none does."""
    slow = list(itertools.islice(FaultModel(parts=("stragglers",)).stretch(seed=1), 5000))

    assert sum(factor > 1 for factor in slow) / 5000 == pytest.approx(0.425, abs=0.03)
    assert all(factor == 1 or 1.1 <= factor <= 1.3 for factor in slow)
    assert set(itertools.islice(FaultModel().stretch(seed=1), 100)) == {1.0}


def faults_file(folder: Path, *rows: str) -> Path:
    """A file of faults with these rows."""
    path = folder / "faults.csv"
    path.write_text("\n".join(("node,start_s,end_s,level,class,desc", *rows)) + "\n")
    return path


def test_a_file_is_replayed(tmp_path: Path) -> None:
    """Unknown nodes get places spread over the fleet; GPU faults take one GPU."""
    path = faults_file(tmp_path, "n7,200,300,Hardware,GPU,x", "n3,100,160,Hardware,Fan,x")

    events = list(parse_faults(str(path)).events(FLEET, seed=1))

    assert [(event.at_ms, event.kind, event.for_ms) for event in events] == [
        (100_000, "node", 60_000),
        (200_000, "gpu", 100_000),
    ]
    assert [event.node for event in events] == [FLEET.nodes[0].name, FLEET.nodes[500].name]


def test_a_file_may_name_nodes_of_the_fleet(tmp_path: Path) -> None:
    """Then each fault is where it says."""
    path = faults_file(tmp_path, "s1-b2-n3,100,160,Hardware,,x")

    assert next(parse_faults(str(path)).events(FLEET, seed=1)).node == "s1-b2-n3"


@pytest.mark.parametrize("row", ["n1,5,4,h,c,d", "n1,x,4,h,c,d", "n1"])
def test_a_broken_row_is_refused(tmp_path: Path, row: str) -> None:
    """The message names the line."""
    path = faults_file(tmp_path, row)

    with pytest.raises(BadInputError, match=r"faults\.csv:2: expected"):
        list(parse_faults(str(path)).events(FLEET, seed=1))


@pytest.mark.parametrize("text", ["rsc3", "-1", "rsc1+gremlins", "inf", ""])
def test_an_unknown_model_is_refused(text: str) -> None:
    """The message says what is known."""
    with pytest.raises(BadInputError, match=r"--faults: .*expected"):
        parse_faults(text)
