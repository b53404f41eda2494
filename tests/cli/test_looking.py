"""Looking again, looking back, looking ahead: `--watch`, `--at`, `--dry-run`, `top`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gangline.cli import live
from tests.cli.test_commands import JOB, QUEUED

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

WHEN = {"at_ms": 1_796_000_000_000}
WAITS = {
    "job": "train-1", "number": 2, "team": "vision", "class": "normal", "gpus": 8, "attempt": 0,
    "preemptions": 0, "submitted_ms": WHEN["at_ms"] - 90_000, "position": 1,
    "reason": "capacity", "reason_text": "needs 8 GPUs", "waited_ms": 90_000,
    "reserved_start_ms": WHEN["at_ms"] + 600_000,
}  # fmt: skip
RUNS = {
    "job": "train-0", "number": 1, "team": "speech", "class": "high", "gpus": 3, "attempt": 1,
    "preemptions": 0, "submitted_ms": WHEN["at_ms"] - 120_000, "state": "running",
    "placed_ms": WHEN["at_ms"] - 60_000, "started_ms": WHEN["at_ms"] - 60_000,
    "seats": [{"node": "n0", "gpus": [0, 1, 2]}],
}  # fmt: skip
NODE = {"node": "n0", "path": ["s0"], "gpus": 8, "used": 3, "bad": [7], "health": "well",
        "service": "open"}  # fmt: skip
TEAM = {"team": "speech", "parent": "", "guaranteed": 8, "borrow": -1, "lend": 4, "weight": 1,
        "used": 3, "guaranteed_used": 3, "borrowed": 0, "lent": 0, "queued": 0}  # fmt: skip
STATE = {**WHEN, "queue": [WAITS], "placements": [RUNS], "nodes": [NODE], "teams": [TEAM]}


@pytest.fixture
def past(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A state in the past; the moments that were asked for."""
    asked: list[str] = []

    def state_at(_: object, at: str) -> dict[str, Any]:
        asked.append(at)
        return STATE

    monkeypatch.setattr(live, "state_at", state_at)
    return asked


def test_the_queue_as_it_was(shell: Shell, past: list[str]) -> None:
    """Times count from then, not from now."""
    done = shell("queue", "--at", "2026-11-30T12:00:00Z")

    assert done.out.splitlines()[1].split() == [
        "1", "train-1", "vision", "normal", "8", "1m30s", "10m", "capacity"
    ]  # fmt: skip
    assert past == ["2026-11-30T12:00:00Z"]


def test_jobs_nodes_and_teams_as_they_were(shell: Shell, past: list[str]) -> None:
    """With the names that the lists of now have; filters hold then too."""
    jobs = json.loads(shell("jobs", "--at", "10m", "--json").out)
    speech = json.loads(shell("jobs", "--at", "10m", "--team", "speech", "--json").out)
    (node,) = json.loads(shell("nodes", "--at", "10m", "--json").out)
    (team,) = json.loads(shell("teams", "--at", "10m", "--json").out)

    assert [(job["job"], job["state"]) for job in jobs] == [
        ("train-1", "queued"),
        ("train-0", "running"),
    ]
    assert [job["wait_s"] for job in speech] == [60.0]
    assert (node["held"], node["free"], node["jobs"]) == (3, 4, ["train-0"])
    assert (team["borrow_limit"], team["lend_limit"]) == (None, 4)
    assert len(past) == 4


def test_teams_show_what_they_have_of_models_where_any_is_guaranteed(shell: Shell) -> None:
    """With `-o wide`; in a cell that knows no such guarantees the table is as it was."""
    team = {"team": "a", "guaranteed": 8}
    of_it = {"h100": {"guaranteed": 4, "used": 2}, "a100": {"guaranteed": 0, "used": 1}}
    shell.world.views.tables["teams"] = [team | {"by_model": of_it}, team | {"by_model": {}}]
    wide = shell("teams", "-o", "wide").out.splitlines()
    table = shell("teams").out
    shell.world.views.tables["teams"] = [team | {"by_model": {}}]

    assert wide[0].endswith("OF MODELS")
    assert wide[1].endswith("2 of 4 h100, 1 of 0 a100")
    assert "OF MODELS" not in table + shell("teams", "-o", "wide").out


def test_a_job_as_it_was_and_the_nearest_for_one_that_was_not(
    shell: Shell, past: list[str]
) -> None:
    """Not found is 3."""
    there = shell("job", "train-0", "--at", "10m")
    gone = shell("job", "train-2", "--at", "10m")

    assert "submitted 2m ago, waited 1m" in there.out
    assert gone.code == 3
    assert "did you mean train-" in gone.err
    assert past == ["10m", "10m"]


def test_watch_looks_again_until_it_is_interrupted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is a fresh one; an interrupt ends it with 130."""
    shell.world.views.tables["queue"] = [QUEUED]
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt
        shell.world.views.tables["queue"] = [QUEUED | {"job": "train-2"}]

    monkeypatch.setattr("gangline.cli.live.time.sleep", sleep)

    done = shell("queue", "--watch", "-o", "id")

    assert (done.code, done.out) == (130, "train-1\n\ntrain-2\n")


def test_top_shows_everything_in_eighty_columns(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off a terminal it is shown once."""
    row = {"guaranteed": 8, "used": 3, "borrowed": 0, "lent": 0, "queued": 2, "team": "a"}
    numbers = {**shell.world.views.numbers(), "teams": [row]}
    monkeypatch.setattr(shell.world.views, "numbers", lambda: numbers)
    names = [f"node-{i}" for i in range(9)]
    runs = {**JOB, "job": "runs", "state": "running", "nodes": names}
    shell.world.views.tables["jobs"] = [runs]
    shell.world.views.tables["queue"] = [QUEUED | {"waited_s": 95.0}]

    lines = shell("top").out.splitlines()

    assert max(map(len, lines)) <= 80
    assert "3 of 8 GPUs held (38 %)" in lines[1]
    assert any(line.startswith("runs ") and "node-0,node-1" in line for line in lines)
    assert any(line.startswith("train-1 ") and line.endswith("capacity") for line in lines)
    assert json.loads(shell("top", "--json").out)["fleet"]["held"] == 3


def test_a_narrow_terminal_shows_every_number(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names give way, what is counted stays whole."""
    row = {"guaranteed": 1_024, "used": 3, "borrowed": 0, "lent": 0, "queued": 27}
    numbers = {**shell.world.views.numbers(), "teams": [row | {"team": "a-team-of-many-words"}]}
    monkeypatch.setattr(shell.world.views, "numbers", lambda: numbers)
    monkeypatch.setenv("COLUMNS", "60")
    shell.world.views.tables["queue"] = [QUEUED | {"waited_s": 95.0}]

    lines = shell("top").out.splitlines()

    assert max(map(len, lines)) <= 60
    assert any(line.startswith("a-team-") and line.endswith(" 27") for line in lines)
    assert any(line.startswith("train-1 ") and line.endswith("1m35s   capacity") for line in lines)


def test_a_dry_run_is_told_in_words_and_has_a_code(shell: Shell) -> None:
    """1 for what would be rejected; nothing reaches the log."""
    done = shell("submit", "--team", "nobody", "--gpus", "8", "--dry-run")

    assert done.code == 1
    assert done.out.startswith("it would be rejected: ")


def test_an_array_is_told_by_its_tasks(shell: Shell) -> None:
    """How many are in which state, and the first bad end as the whole's."""
    shell.world.views.tables["jobs"] = [
        JOB | {"job": f"a.{i}", "array_of": "a", "state": state, "exit_code": code}
        for i, state, code in ((1, "succeeded", 0), (2, "failed", 7), (3, "succeeded", 0))
    ]

    assert "3 tasks: 2 succeeded, 1 failed" in shell("job", "a").out
    found = json.loads(shell("job", "a", "--json").out)
    assert (found["state"], found["exit_code"]) == ("failed", 7)


def test_the_policy_in_force(shell: Shell) -> None:
    """Durations as people write them; an unknown key is answered with the nearest."""
    done = shell("policy", "get", "start_timeout", "retries")

    assert [line.split()[:3] for line in done.out.splitlines()[1:]] == [
        ["start_timeout", "2m", "2m"],
        ["retries", "3", "3"],
    ]
    assert "did you mean retries?" in shell("policy", "get", "retires").err


@pytest.mark.parametrize(
    ("words", "word", "expected"),
    [
        ("gangline qu", 1, {"queue"}),
        ("gangline job tr", 2, {"train-1", "train-2"}),
        ("gangline submit --dry", 2, {"--dry-run"}),
    ],
)
def test_the_shell_completes_commands_options_and_names(
    shell: Shell, words: str, word: int, expected: set[str]
) -> None:
    """Names come from the API."""
    shell.world.views.tables["jobs"] = [JOB, JOB | {"job": "train-2"}, JOB | {"job": "other"}]
    asked = {"_GANGLINE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(word)}

    done = subprocess.run(
        [sys.executable, "-m", "gangline.cli.main"],
        env={**os.environ, **asked}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert {line.rpartition(",")[2] for line in done.stdout.splitlines()} == expected


def test_the_completion_script_names_the_command(shell: Shell) -> None:
    """On stdout the script, on stderr how to use it."""
    done = shell("completion", "bash")

    assert "_GANGLINE_COMPLETE=bash_complete" in done.out
    assert "~/.bashrc" in done.err
