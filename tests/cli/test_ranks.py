"""`gangline ranks`: how each rank of a job gets on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gangline.api import ranks

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

QUICK = {"rank": 0, "step": 40, "step_s": 2.0, "own_s": 1.0, "quiet_s": 0.2}
SLOW = {"rank": 1, "step": 40, "step_s": 2.0, "own_s": 1.9, "quiet_s": 0.4}


@pytest.fixture
def said(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any] | None]:
    """What each node says of its ranks."""
    said: dict[str, dict[str, Any] | None] = {"n0": {"ranks": [QUICK]}, "n1": {"ranks": [SLOW]}}
    monkeypatch.setattr(ranks, "_said", lambda _request, _views, node, _path: said[node])
    seats = [{"node": node, "gpus": [0]} for node in said]
    shell.world.views.tables = {
        "jobs": [{"job": "train", "team": "a", "state": "running"}],
        "attempts": [{"job": "train", "attempt": 1, "state": "running", "seats": seats}],
    }
    return said


@pytest.mark.usefixtures("said")
def test_slow_ranks_stand_out(shell: Shell) -> None:
    """One line a rank, and beside the slow one why."""
    done = shell("ranks", "train")

    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[1] == ["0", "n0", "40", "2", "1", "0s"]
    assert lines[2][:6] == ["1", "n1", "40", "2", "1.9", "0s"]
    assert " ".join(lines[2][6:]) == "needs 1.9 s of its own a step, the gang 1"


def test_what_nobody_says_is_said(shell: Shell, said: dict[str, dict[str, Any] | None]) -> None:
    """A node that cannot be asked, and a program that says nothing of its steps."""
    said["n1"] = None
    assert "n1 does not say" in shell("ranks", "train").err
    said["n0"] = said["n1"] = {"ranks": []}
    assert "checkpoint.progress(step)" in shell("ranks", "train").err


def test_how_each_rank_ended_and_which_failed_first(
    shell: Shell, said: dict[str, dict[str, Any] | None]
) -> None:
    """Of each node one was the first; the gang's is that of the node that failed first."""
    (attempt,) = shell.world.views.tables["attempts"]
    attempt |= {"state": "ended", "exit_node": "n1"}
    said["n0"] = {"ranks": [], "ends": [{"rank": 0, "code": 1, "first": True}]}
    ends = [{"rank": 2, "code": 143, "first": False}, {"rank": 1, "code": 9, "first": True}]
    said["n1"] = {"ranks": [], "ends": ends}

    lines = [line.split() for line in shell("ranks", "train").out.splitlines()]

    assert lines == [
        ["RANK", "NODE", "CODE"],
        ["0", "n0", "1"],
        ["1", "n1", "9", "failed", "first"],
        ["2", "n1", "143"],
    ]
