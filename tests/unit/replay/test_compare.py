"""Policies side by side on one page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gangline.replay.baselines import BASELINES
from gangline.replay.compare import METRICS, write_reports
from gangline.replay.simulate import run
from gangline.replay.simulation_input import read_inputs
from tests.unit.replay.test_simulate import busy

if TYPE_CHECKING:
    from pathlib import Path


def test_every_baseline_is_a_column_with_a_page_of_its_own(tmp_path: Path) -> None:
    """All five finish the same jobs, and the page has each number of each."""
    inputs = read_inputs(busy(tmp_path))
    done = {name: run(inputs, baseline=baseline) for name, baseline in BASELINES.items()}

    paths = write_reports(done, tmp_path / "out", title="A comparison", command="gangline …")

    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "out/index.html",
        *(f"out/{name}/index.html" for name in BASELINES),
    ]
    text = paths[0].read_text(encoding="utf-8")
    heads = re.findall("<th>([^<]*)</th>", text)
    assert heads == ["policy", "what it does", "", *BASELINES]
    for metric in METRICS:
        assert f"<td>{metric.words}</td>" in text
    assert {measured.numbers["finished"] for measured in done.values()} == {60}


def test_one_policy_is_one_page(tmp_path: Path) -> None:
    """There is nothing to compare."""
    done = {"gangline": run(read_inputs(busy(tmp_path)))}

    paths = write_reports(done, tmp_path / "out", title="A day", command="gangline …")

    assert paths == [tmp_path / "out" / "index.html"]


def test_fifo_waits_longer_than_the_others(tmp_path: Path) -> None:
    """On a busy fleet, letting nobody pass costs the most."""
    inputs = read_inputs(busy(tmp_path))
    waits = {
        name: run(inputs, baseline=BASELINES[name]).numbers["wait_s"]["all"]["mean"]
        for name in ("fifo", "backfill", "shortest", "gangline")
    }

    assert waits["shortest"] < waits["fifo"]
    assert waits["gangline"] < waits["fifo"]
    assert waits["backfill"] <= waits["fifo"]
