"""The grammar of scenario files: what it reads, and that nothing wrong is accepted silently."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from gangline.agents.simulated_gang import Program
from gangline.events.spec import UNLIMITED, CheckpointSpec, JobClass, Topology, TopologyKind
from gangline.replay import scenario_commands as c
from gangline.replay.bad_input import BadInputError
from gangline.replay.scenario import run_files
from gangline.replay.scenario_grammar import VERBS, parse, submit_of
from gangline.replay.scenario_values import duration, show_ms
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "fleet spines=1 blocks=2 nodes=4 gpus=8\nteam a guaranteed=64\nsubmit j team=a gpus=8\n"
MINUTE = 60_000


def one(line: str) -> c.Command:
    """Read the last command of a file that ends with this line."""
    return parse(HEAD + line, file="x.scn")[-1]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("10m", 600_000),
        ("2h", 7_200_000),
        ("3d", 259_200_000),
        ("1h30m", 5_400_000),
        ("1d1h1m1s1ms", 90_061_001),
        ("0s", 0),
    ],
)
def test_a_duration_is_numbers_with_units(text: str, milliseconds: int) -> None:
    """Several parts may follow each other, the largest first; and it is written back the same."""
    assert duration(text) == milliseconds
    assert show_ms(milliseconds) == text


@pytest.mark.parametrize("text", ["", "5", "5min", "m", "1.5h", "-1m", "1m1h", "1h 1m", "4000d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A unit that is missing, unknown or out of order is not guessed."""
    with pytest.raises(ValueError, match="a duration"):
        duration(text)


def test_a_fleet_is_a_tree_of_named_nodes() -> None:
    """Counts are per parent; the path of a node names its spine and its block."""
    command = parse("fleet spines=2 blocks=2 nodes=1 gpus=4", file="x")[0]

    assert isinstance(command, c.MakeFleet)
    assert [node.node for node in command.nodes] == ["s0-b0-n0", "s0-b1-n0", "s1-b0-n0", "s1-b1-n0"]
    assert command.nodes[3].path == ("s1", "s1-b1")
    assert command.nodes[3].levels == ("spine", "block")
    assert {node.gpus for node in command.nodes} == {4}


def test_further_fleets_are_further_spines_of_another_model() -> None:
    """Names go on where the first fleet ended."""
    first, second = parse(
        "fleet spines=1 blocks=1 nodes=1 gpus=8\n"
        "fleet spines=1 blocks=1 nodes=1 gpus=4 model=h100\n",
        file="x",
    )

    assert isinstance(first, c.MakeFleet)
    assert isinstance(second, c.MakeFleet)
    assert (first.nodes[0].node, first.nodes[0].labels) == ("s0-b0-n0", {})
    assert (second.nodes[0].node, second.nodes[0].labels) == ("s1-b0-n0", {"model": "h100"})


def test_a_submission_names_everything_a_job_can_have() -> None:
    """What the scheduler may know stands in the spec, what really happens in the program."""
    command = one(
        "submit k team=a gpus=16 gpus_per_node=8 priority=high runtime=3h limit=4h checkpoint=10m "
        "grace=2m topology=required:block retries=2 exits=3 exits_after=5m after=j preemptible=no "
        "model=h100"
    )

    assert isinstance(command, c.Submit)
    spec = command.spec
    assert (spec.team, spec.gpus, spec.gpus_per_node) == ("a", 16, 8)
    assert spec.job_class is JobClass.HIGH
    assert (spec.limit_ms, spec.grace_ms) == (240 * MINUTE, 2 * MINUTE)
    assert spec.checkpoint == CheckpointSpec(interval_ms=10 * MINUTE)
    assert spec.topology == Topology(kind=TopologyKind.REQUIRED, level="block")
    assert (spec.retries, spec.after, spec.preemptible) == (2, ("j",), False)
    assert spec.selector == {"model": "h100"}
    assert command.program == Program(runtime_ms=180 * MINUTE, code=3, exits_after_ms=5 * MINUTE)


def test_what_a_submission_does_not_say_is_left_to_the_policy() -> None:
    """No limit, no checkpoint, no grace, no retries of its own."""
    command = one("submit k team=a gpus=1")

    assert isinstance(command, c.Submit)
    spec = command.spec
    assert (spec.limit_ms, spec.checkpoint, spec.grace_ms, spec.retries) == (None,) * 4
    assert spec.topology == Topology()
    assert spec.preemptible


def test_a_team_keeps_what_a_change_does_not_name() -> None:
    """None means: as it was."""
    command = one("team a weight=3 borrow=none lend=unlimited guaranteed.h100=8")

    assert isinstance(command, c.SetTeam)
    team = command.team
    assert (team.guaranteed, team.borrow, team.lend, team.weight) == (None, 0, UNLIMITED, 3)
    assert team.by_model == {"h100": 8}


def test_a_repetition_counts_from_one() -> None:
    """`{i}` is replaced wherever it stands, and its jobs may be named later."""
    *_, repeat, _ = parse(
        HEAD + "repeat 3 every=2m: submit s{i} team=a gpus=1 after=x{i}\nexpect s3 state=queued",
        file="x",
    )

    assert isinstance(repeat, c.Repeat)
    assert (repeat.count, repeat.every_ms) == (3, 2 * MINUTE)
    second = submit_of(repeat, 2, file="x")
    assert (second.job, second.spec.after) == ("s2", ("x2",))


def test_a_comment_begins_with_a_word_that_begins_with_a_hash() -> None:
    """A hash inside a word is a place."""
    command = one("fail j#2 for=5m # and back")

    assert command == c.Fail(line=4, place=c.Place("", "j", 2), for_ms=5 * MINUTE)


def test_every_operator_of_an_expectation_is_read() -> None:
    """`=`, `<=`, `>=`, `<` and `>`, and places as nodes or members of a job."""
    command = one(
        "expect j attempts=1 wait<=5m lost<1m nodes>=1 preemptions>0 on=j#0 not_on=s0-b0-n1"
    )

    assert isinstance(command, c.Expect)
    assert [(check.key, check.operator, check.value) for check in command.checks] == [
        ("attempts", "=", 1),
        ("wait", "<=", 5 * MINUTE),
        ("lost", "<", MINUTE),
        ("nodes", ">=", 1),
        ("preemptions", ">", 0),
        ("on", "=", c.Place("", "j", 0)),
        ("not_on", "=", c.Place("s0-b0-n1")),
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("frobnicate j", "expected one of fleet, policy"),
        ("submit k team=a gpus=8 gpu_per_node=4", "got 'gpu_per_node'"),
        ("submit k team=a gpus=8 gpus=8", "gpus: expected it once, got it twice"),
        ("submit k team=a", "gpus: expected gpus=…, got nothing"),
        ("submit k gpus=8", "team: expected team=…, got nothing"),
        ("submit", "expected a job, got the end of the line"),
        ("submit k team=a gpus=0", "gpus: expected a whole number from 1"),
        ("submit k team=a gpus=8 runtime=5", "runtime: expected a duration like"),
        ("submit k team=a gpus=8 runtime=", "runtime: expected a duration like"),
        ("submit k team=a gpus=8 checkpoint=0s", "checkpoint: expected a duration above 0"),
        ("submit k team=a gpus=8 exits=300", "exits: expected a whole number from 0 to 255"),
        ("submit k team=a gpus=8 exits_after=5m", "exits_after: expected exits=CODE beside it"),
        (
            "submit k team=a gpus=8 priority=max",
            "priority: expected one of low, normal, high, urgent",
        ),
        ("submit k team=a gpus=8 topology=block", "topology: expected any, preferred:LEVEL"),
        (
            "submit k team=a gpus=8 topology=required:rack",
            "topology: expected any, preferred:LEVEL",
        ),
        ("submit k team=a gpus=8 preemptible=maybe", "preemptible: expected one of yes, no"),
        ("submit fleet team=a gpus=8", "expected another name than team, fleet"),
        ("submit k! team=a gpus=8", "a job: a name of letters"),
        ("policy", "expected KEY=VALUE, got the end of the line"),
        ("policy graces=5m", "got 'graces'"),
        ("policy lost_after=120", "lost_after: expected a duration like"),
        ("policy hold_after=5m", "hold_after: expected a whole number"),
        ("policy hold_after=0", "hold_after: expected at least 1, got 0"),
        ("team b", "guaranteed: expected guaranteed=…, got nothing"),
        ("team b guaranteed=some", "guaranteed: expected a whole number"),
        ("team b guaranteed=1 parent=nobody", "parent: expected a team named above, got 'nobody'"),
        ("team b guaranteed=1 weight=0", "weight: expected a whole number from 1"),
        ("team b guaranteed=1 borrow=all", "borrow: expected a number of GPUs, none or unlimited"),
        ("repeat 3 every=2m submit s{i} team=a gpus=1", "expected every=D:, got 'every=2m'"),
        ("repeat 3 every=2m: submit s team=a gpus=1", "expected a job with {i} in its name"),
        ("repeat 3 every=2m: cancel s{i}", "expected submit, got 'cancel'"),
        ("repeat 0 every=2m: submit s{i} team=a gpus=1", "a count: a whole number from 1"),
        ("run", "expected a duration, or until"),
        ("run 5m 6m", "expected the end of the line, got '6m'"),
        ("run until j done", "a state: one of queued"),
        ("run until nobody running", "expected a job submitted above, got 'nobody'"),
        ("run until j running max=5", "max: expected a duration like"),
        ("fail s9-b0-n0", "expected a node from s0-b0-n0 to s0-b1-n3, or JOB#I, got 's9-b0-n0'"),
        ("fail nobody#0", "expected a job submitted above, got 'nobody'"),
        ("fail s0-b0-n0 for=0s", "for: expected a duration above 0"),
        ("fault s0-b0-n0 gpu=8 kind=xid", "gpu: expected a whole number from 0 to 7"),
        ("fault s0-b0-n0 gpu=1 kind=fire", "kind: expected one of xid, ecc, nvlink, nic, thermal"),
        ("fault s0-b0-n0 gpu=1", "kind: expected kind=…, got nothing"),
        ("slow s0-b0-n0", "ready: expected ready=…, got nothing"),
        ("slow s0-b0-n0 ready=late", "ready: expected never, or a duration"),
        ("maintenance s0-b0-n0 at=5m", "for: expected for=…, got nothing"),
        ("scheduler sleep", "what happens to it: one of crash, stop"),
        ("scheduler stop", "for: expected for=…, got nothing"),
        ("log shuffle", "a way of delivery: one of duplicate, reorder, normal"),
        ("garbage", "topic: expected topic=…, got nothing"),
        ("garbage topic=decisions", "topic: expected one of jobs, nodes, control"),
        ("expect j", "expected one of state, attempts"),
        ("expect j status=running", "got 'status'"),
        ("expect j state<=running", "state: expected state=…, got 'state<=running'"),
        ("expect j attempts==1", "attempts: expected a whole number"),
        ("expect j wait<=5", "wait: expected a duration like"),
        ("expect nobody state=running", "expected a job submitted above, got 'nobody'"),
        ("expect team nobody used=1", "expected a team named above, got 'nobody'"),
        ("expect team a wait<=1m", "expected one of used, guaranteed_used"),
        ("expect fleet used=1", "expected one of held, free, unhealthy"),
        ("expect reason j because", "a code: one of dependency, hold"),
        ("expect j on=s7", "expected a node from"),
        ("fleet spines=1 blocks=1 nodes=1 gpus=8", "expected the fleet before everything else"),
        ("join spines=1 blocks=1 nodes=1", "gpus: expected gpus=…, got nothing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(line: str, complaint: str) -> None:
    """The complaint is one line: file, line, field, what would be right, what is there."""
    with pytest.raises(BadInputError) as caught:
        one(line)

    said = str(caught.value)
    assert said.startswith("x.scn:4: ")
    assert complaint in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "x:1: expected a fleet, got no command"),
        ("# nothing but this\n\n", "x:1: expected a fleet, got no command"),
        ("team a guaranteed=8", "x:1: expected the fleet first, got 'team'"),
        ("fleet spines=1 blocks=1 nodes=1", "x:1: gpus: expected gpus=…, got nothing"),
        ("fleet spines=1 blocks=0 nodes=1 gpus=8", "x:1: blocks: expected a whole number from 1"),
        ("fleet spines=999 blocks=999 nodes=9 gpus=8", "x:1: expected at most 100000 nodes"),
    ],
)
def test_a_file_begins_with_its_fleet(text: str, complaint: str) -> None:
    """Whatever else a file says, it first says what there is."""
    with pytest.raises(BadInputError) as caught:
        parse(text, file="x")

    assert str(caught.value).startswith(complaint)


def test_an_array_is_spoken_of_by_its_tasks() -> None:
    """Whoever names the array is told how its tasks are called."""
    text = HEAD + "submit arr team=a gpus=1 count=3\nexpect arr.3 state=queued\n"
    assert len(parse(text, file="x")) == 5

    with pytest.raises(BadInputError, match=r"x:6: expected a task of the array, arr\.1 to arr\.3"):
        parse(text + "expect arr state=queued\n", file="x")


def test_the_example_of_the_page_is_read_and_ends_as_it_says(tmp_path: Path) -> None:
    """What the documentation shows is a scenario that passes."""
    page = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    example = tmp_path / "example.scn"
    example.write_text(page.split("```")[1].lstrip("\n"), encoding="utf-8")

    assert run_files([example], io.StringIO()) == 0


def test_the_page_names_every_command() -> None:
    """Whoever adds a command tells of it."""
    page = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    missing = [verb for verb in VERBS if f"`{verb}" not in page]

    assert missing == []
