"""Where two histories part, and what is different between two states."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gangline.cli.main import run
from gangline.replay.logfile import read_records, write_records
from tests.support.histories import write_history

if TYPE_CHECKING:
    from pathlib import Path

STORY = """\
fleet spines=1 blocks=1 nodes=1 gpus=8
team a guaranteed=8
submit one team=a gpus=4 runtime=10m
run 1m
submit two team=a gpus=4 runtime=10m
run 20m
"""


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """The log of a story."""
    path = tmp_path / "one.log"
    write_history(path, STORY)
    return path


def test_a_history_is_its_own_like(one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0."""
    assert run(["replay", "diff", str(one), str(one)]) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_the_first_decision_that_differs_is_told_in_words(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its position, and both sides."""
    other = tmp_path / "two.log"
    write_history(other, STORY.replace("two team=a gpus=4", "two team=a gpus=2"))

    assert run(["replay", "diff", str(one), str(other), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["difference"]

    assert found["what"] == "decision 1"
    assert "job='two'" in found["a"]
    assert "gpus=4" in found["a"]
    assert "gpus=2" in found["b"]
    assert found["position"].startswith("decisions-0-")


def test_a_shorter_history_ends_first(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The place is where the longer one goes on."""
    short = tmp_path / "short.log"
    write_records(short, list(read_records(one))[:-1])

    assert run(["replay", "diff", str(one), str(short)]) == 1
    assert "B: the history's end" in capsys.readouterr().out


def test_another_birth_is_a_difference_though_all_decisions_are_the_same(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A field of the first batch is named."""
    other = tmp_path / "born.log"
    write_history(other, STORY, genesis="another")

    assert run(["replay", "diff", str(one), str(other)]) == 1
    assert "genesis of batch 1 differs" in capsys.readouterr().out


def test_states_are_compared_by_the_names_in_them(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is the same is not told."""
    other = tmp_path / "two.log"
    write_history(other, STORY.replace("team a guaranteed=8", "team a guaranteed=6"))

    assert run(["replay", "diff", str(one), str(other), "--at", "seq:4", "--json"]) == 1
    found = {row["path"]: row for row in json.loads(capsys.readouterr().out)["differences"]}

    assert found["teams.a.guaranteed"] == {"path": "teams.a.guaranteed", "a": 8, "b": 6}
    assert "nodes.s0-b0-n0.gpus" not in found
