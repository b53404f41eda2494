"""Commands that need no API: scenarios, simulation, and a history in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gangline.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """\
fleet spines=1 blocks=1 nodes=2 gpus=8
team a guaranteed=16
submit one team=a gpus=8 runtime=10m
run 20m
expect one state=succeeded
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a made-up workload, its numbers and its whole history."""
    folder = tmp_path_factory.mktemp("history")
    assert run(["workload", "--nodes", "4", "--days", "1", "-o", str(folder)]) == 0
    words = ["simulate", "--limit-jobs", "40", "--json", str(folder / "out.json")]
    for name in ("trace.csv", "fleet.toml", "teams.toml"):
        words += [f"--{name.partition('.')[0]}", str(folder / name)]
    assert run([*words, "--log", str(folder / "log.avro"), "--report", str(folder / "page")]) == 0
    return folder


def test_a_scenario_that_holds_is_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each file, and a last one."""
    file = tmp_path / "one.scn"
    file.write_text(SCENARIO)

    assert run(["scenario", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: ok\n1 passed, 0 failed\n"


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ("state=running", 1, ":5: expected"),
        ("state=flying", 2, ":5: "),
    ],
)
def test_a_scenario_that_does_not_hold_names_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, code: int, said: str
) -> None:
    """1 for what did not come about, 2 for what cannot be read."""
    file = tmp_path / "one.scn"
    file.write_text(SCENARIO.replace("state=succeeded", change))

    assert run(["scenario", str(file)]) == code
    assert f"{file}{said}" in capsys.readouterr().out


def test_a_simulation_writes_its_numbers_and_its_page(history: Path) -> None:
    """The numbers of the contract, and one page that needs nothing else."""
    numbers = json.loads((history / "out.json").read_text())

    assert numbers["jobs"] == numbers["finished"] == 40
    assert {"allocation", "goodput", "wait_s", "fairness", "digest"} <= set(numbers)
    assert "<svg" in (history / "page" / "index.html").read_text()


def test_a_history_verifies_and_can_be_looked_into(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its decisions come out again, the state at a moment is told, a job's life too."""
    log = ["--log", str(history / "log.avro")]

    assert run(["replay", "verify", *log, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert run(["replay", "at", "seq:20", *log, "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert state["fleet"]["total"] == 32
    assert run(["replay", "at", "5m", *log, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fleet"]["total"] == 32
    job = (state["placements"] or state["queue"])[0]["job"]
    assert run(["replay", "show", job, *log]) == 0
    assert "accepted as number" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("replay verify --log /nowhere/log", 2, "/nowhere/log: No such file"),
        ("replay at yesterday --log x", 2, "a moment is 2026-01-31T12:00:00Z"),
        ("simulate --trace /nowhere.csv --fleet /nowhere.toml", 2, "/nowhere.csv"),
        ("import plane /nowhere -o /tmp/x", 2, "no such format"),
    ],
)
def test_wrong_input_is_one_line(
    capsys: pytest.CaptureFixture[str], words: str, code: int, said: str
) -> None:
    """It names the file or the word, and what would be right."""
    assert run(words.split()) == code

    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1
