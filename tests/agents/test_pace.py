"""Ranks that are slower than their gang: what programs say, agents serve and readers compare."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gangline import checkpoint
from gangline.agents.pace import Pace, paces, slow
from gangline.api.ranks import judged
from gangline.events.spec import Launch
from tests.agents import make
from tests.agents.cell import wait_for

if TYPE_CHECKING:
    from gangline.agents.runner import Agent
    from tests.agents.cell import Cell

EXAMPLES = Path(__file__).parents[2] / "examples"


class Clock:
    """Time that a test moves."""

    now = 1_000.0

    def __call__(self) -> float:
        """What it is now."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Clock:
    """Of a rank 3 that says how it gets on under tmp_path."""
    clock = Clock()
    monkeypatch.setattr("gangline.checkpoint.time.monotonic", clock)
    monkeypatch.setattr(checkpoint, "_said", {})
    monkeypatch.setattr(checkpoint, "_pace", checkpoint._Pace())
    (tmp_path / "job").mkdir()
    monkeypatch.setenv("GANGLINE_PROGRESS_FILE", str(tmp_path / "job/progress"))
    monkeypatch.setenv("RANK", "3")
    return clock


def _train(clock: Clock, steps: range, *, own_s: float, wait_s: float = 0.0) -> None:
    for step in steps:
        clock.now += own_s
        if wait_s:
            with checkpoint.waiting():
                clock.now += wait_s
        checkpoint.progress(step)


def test_a_rank_says_how_long_a_step_takes_it(clock: Clock, tmp_path: Path) -> None:
    """And how much of it was its own, where it says when it waits."""
    _train(clock, range(1, 11), own_s=2.0, wait_s=1.0)

    (pace,) = paces(tmp_path)

    assert (pace.rank, pace.step, pace.step_s, pace.own_s) == (3, 10, 3.0, 2.0)


def test_the_last_minute_counts(clock: Clock, tmp_path: Path) -> None:
    """A rank that was quick for hours is slow as soon as it is."""
    _train(clock, range(1, 101), own_s=1.0)
    _train(clock, range(101, 111), own_s=10.0)

    (pace,) = paces(tmp_path)

    assert pace.step_s == pytest.approx(10.0)
    assert pace.own_s is None


def test_a_program_that_begins_again_begins_to_count_again(clock: Clock, tmp_path: Path) -> None:
    """Steps that go back, as after a reload within the program, are no negative time."""
    _train(clock, range(90, 100), own_s=2.0)
    _train(clock, range(50, 53), own_s=4.0)

    (pace,) = paces(tmp_path)

    assert (pace.step, pace.step_s) == (52, 4.0)


def test_who_says_no_step_is_only_alive(clock: Clock, tmp_path: Path) -> None:
    """As programs did before; the file for the hung is touched all the same."""
    checkpoint.progress()

    assert clock.now
    assert paces(tmp_path) == []
    assert (tmp_path / "job/progress").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 60_000,
        '{"step": "1"}',
        '{"step": -1}',
        '{"step": true}',
        '{"step": 1' + "0" * 40 + "}",
        '{"step_s": 1.0}',
        "x" * 100_000,
    ],
)
def test_nonsense_about_steps_is_not_believed(tmp_path: Path, text: str) -> None:
    """The file is the user's; nobody is disturbed by it."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job/progress.0").write_text(text)

    assert paces(tmp_path) == []


def test_a_length_of_time_that_cannot_be_is_left_out(tmp_path: Path) -> None:
    """The step itself may be right."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job/progress.0").write_text('{"step": 4, "step_s": Infinity, "own_s": "long"}')

    (pace,) = paces(tmp_path)

    assert (pace.step, pace.step_s, pace.own_s) == (4, None, None)


def test_a_pipe_or_a_link_in_the_place_of_the_file_holds_nobody_up(tmp_path: Path) -> None:
    """Nor is anything read that the user might not see."""
    secret = tmp_path / "secret"
    secret.write_text('{"step": 5}')
    (tmp_path / "job").mkdir()
    os.mkfifo(tmp_path / "job/progress.0")
    (tmp_path / "job/progress.1").symlink_to(secret)

    assert paces(tmp_path) == []


def row(rank: int, **more: Any) -> dict[str, Any]:
    """What is known of a rank that is like the others."""
    return {"rank": rank, "step": 100, "step_s": 2.0, "own_s": None, "quiet_s": 1.0, **more}


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({}, ""),
        ({"step": 99}, ""),
        ({"step_s": 2.4, "step": 80}, ""),
        ({"step_s": 2.6, "step": 80}, "needs 2.6 s a step, the gang 2"),
        ({"step_s": 2.6}, ""),
        ({"step": 98, "quiet_s": 31.0}, "has been at step 98 for 31 s, others 2 on"),
        ({"step": 101, "quiet_s": 31.0}, ""),
    ],
)
def test_a_slow_rank_is_told_apart_from_its_gang(odd: dict[str, Any], says: str) -> None:
    """By the gang's median; and one that is merely a step behind is none."""
    rows = [row(0), row(1), row(2), row(3, **odd)]

    assert [each["slow"] for each in judged(rows)] == ["", "", "", says]


def test_among_ranks_in_step_the_one_that_all_wait_for_is_slow() -> None:
    """All need the same time for a step; only one needs it for itself."""
    rows = [row(rank, own_s=2.0 if rank == 2 else 1.0) for rank in range(4)]

    slow = {each["rank"]: each["slow"] for each in judged(rows) if each["slow"]}

    assert slow == {2: "needs 2 s of its own a step, the gang 1"}


def test_of_two_ranks_the_slower_one_is_slow() -> None:
    """The median of two is the lower one."""
    assert [bool(each["slow"]) for each in judged([row(0, own_s=1.0), row(1, own_s=2.0)])] == [
        False,
        True,
    ]


def pace(rank: int, **more: Any) -> Pace:
    """A rank that is like the others."""
    return Pace(**{"rank": rank, "step": 100, "step_s": 2.0, "own_s": None, "quiet_s": 1.0, **more})


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        ([], []),
        ([pace(0), pace(1), pace(2)], []),
        ([pace(0, step_s=None), pace(1, step_s=None)], []),
        ([pace(4), pace(5, step_s=2.6), pace(6)], [5]),
        ([pace(0, own_s=1.0), pace(1, own_s=1.9), pace(2, own_s=1.0)], [1]),
        ([pace(0, own_s=1.0), pace(1, own_s=1.2)], []),
        ([pace(0, own_s=9.0), pace(1), pace(2)], []),
    ],
)
def test_a_rank_that_is_slower_than_its_neighbours_is_counted(
    ranks: list[Pace], found: list[int]
) -> None:
    """On one node, by its own part of a step where at least half of them say that."""
    assert slow(ranks) == found


def test_a_gang_that_says_nothing_has_no_slow_ranks() -> None:
    """Nor has one where only a few say how long their steps take."""
    assert judged([]) == []
    rows = [row(0, step_s=9.0), *(row(rank, step_s=None) for rank in range(1, 4))]
    assert [each["slow"] for each in judged(rows)] == [""] * 4


def test_a_slow_rank_of_a_real_gang_is_told_apart_and_not_stopped(cell: Cell) -> None:
    """Three ranks wait for each other in each step; the last one is what they wait for."""
    words = [sys.executable, str(EXAMPLES / "train_counter.py"), "--steps", "1000000"]
    words += ["--step-s", "0.1", "--slow-rank", "2"]
    spec = make.spec(words, gpus=3, launch=Launch(launcher="per-gpu"))
    with cell.agent() as agent:
        run = cell.start(make.member(gpus=(0, 1, 2), spec=spec))
        found = wait_for(lambda: _all_told(agent, cell), what="paces of all ranks", within_s=60)
        counted = agent.reading().slow_ranks
        cell.stop(run, grace_ms=10_000)
        ended = cell.ended()

    assert [bool(each["slow"]) for each in found] == [False, False, True]
    assert counted == 1
    assert ended.code == checkpoint.STOPPED


def _all_told(agent: Agent, cell: Cell) -> list[dict[str, Any]]:
    """What the agent serves, once all three say how much of a step is their own."""
    token = (cell.folder / "n0/log-token").read_text()
    request = urllib.request.Request(
        f"http://127.0.0.1:{agent.log_port}/ranks/job/1",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own agent
        rows = judged(json.loads(answer.read())["ranks"])
    told = [each for each in rows if each["own_s"] is not None]
    return told if len(told) == 3 else []
