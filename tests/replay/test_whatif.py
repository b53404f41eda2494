"""A history forked under another quota, policy or fleet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gangline.cli.main import run
from gangline.replay.bad_input import BadInputError
from gangline.replay.history import FileSource
from gangline.replay.timetravel import When
from gangline.replay.whatif import told, what_if
from gangline.replay.whatif_changes import parse_changes
from gangline.replay.whatif_past import read_past
from gangline.scheduler import core
from tests.support.histories import write_history

if TYPE_CHECKING:
    from pathlib import Path

STORY = """\
fleet spines=1 blocks=1 nodes=2 gpus=8
policy min_runtime=1m
team a guaranteed=8 guaranteed.h100=2
team b guaranteed=8
run 1m
submit lent team=a gpus=16 gpus_per_node=8 runtime=2h checkpoint=10m
run 10m
submit own team=b gpus=8 runtime=1h checkpoint=10m
submit wrong team=b gpus=4 exits=3 exits_after=10m retries=0
run 30m
fail own#0 for=5m
run 6h
expect lent state=succeeded preemptions=1
expect own state=succeeded
expect wrong state=failed
"""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a loan, a reclaim, a failure of a program and one of a machine."""
    path = tmp_path_factory.mktemp("whatif") / "story.log"
    write_history(path, STORY)
    return path


def forked(history: Path, *pairs: str, seq: int = 5) -> dict[str, Any]:
    """The comparison from a batch on."""
    past = read_past(FileSource(history), When(seq=seq))
    return what_if(past, parse_changes(pairs, core.load(past.chunks)))


def test_without_a_change_of_weight_nothing_changes_and_the_fork_is_what_really_was(
    history: Path,
) -> None:
    """Programs, requests and machines come from the history, so its numbers come out again."""
    found = forked(history, "retries=3")

    assert found["before"] == found["after"]
    assert found["before"] == found["really"]
    assert found["jobs"] == []
    assert found["first_difference"] is None
    assert found["before"]["preemptions"] == 1


def test_a_larger_guarantee_keeps_a_borrower_running(history: Path) -> None:
    """What was on loan is its own now; the other team waits for it, and each side's sum says so."""
    found = forked(history, "team.a.guaranteed=16", "team.b.guaranteed=0")

    waits = {row["job"]: (row["wait_s_before"], row["wait_s_after"]) for row in found["jobs"]}
    assert waits["own"][1] > waits["own"][0]
    teams = {row["team"]: row for row in found["teams"]}
    assert teams["b"]["mean_wait_s_after"] > teams["b"]["mean_wait_s_before"]
    assert found["first_difference"]["before"]["text"].endswith("8 GPUs borrowed")


def test_more_nodes_spare_the_eviction(history: Path) -> None:
    """There is room for both."""
    found = forked(history, "nodes=+2")

    assert (found["before"]["preemptions"], found["after"]["preemptions"]) == (1, 0)
    assert found["after"]["mean_wait_s"] < found["before"]["mean_wait_s"]


def test_a_node_that_is_gone_is_missed(history: Path) -> None:
    """The gang of two nodes cannot run on one."""
    found = forked(history, "node.s0-b0-n1=withdrawn")

    assert found["after"]["gpu_hours"] < found["before"]["gpu_hours"]
    assert any(line.startswith("team a loses") for line in told(found))


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("colour=red", "--set colour=red: expected a policy key"),
        ("min_runtime=soon", "--set min_runtime=soon: a duration like 500ms"),
        ("team.z.weight=2", "expected a team of that moment, got 'z'"),
        ("team.a.colour=2", "expected team.NAME.KEY of guaranteed, borrow, lend, weight"),
        ("node.s0-b0-n0=painted", "expected withdrawn or cordoned"),
        ("nodes", "expected KEY=VALUE"),
        ("hold_after=0", "hold_after must be at least 1"),
        ("team.a.guaranteed=1", "expected at least the 2 guaranteed of single models"),
    ],
)
def test_a_change_that_cannot_be_is_named(history: Path, pair: str, said: str) -> None:
    """And what would be right."""
    with pytest.raises(BadInputError) as error:
        forked(history, pair)

    assert said in str(error.value)


def test_the_command_prints_the_comparison(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text and as JSON."""
    words = ["replay", "whatif", "--log", str(history), "--at", "seq:5", "--set", "nodes=+2"]

    assert run(words) == 0
    assert "team b" in capsys.readouterr().out
    assert run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"]["preemptions"] == 0
