"""No command reports success for what the scheduler refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gangline.events.facts import NodeAdmitted, NodeWithdrawn
from gangline.events.log import Position, Topic
from gangline.projections.queries import ViewsUnreachableError

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

NODE = {"node": "n0", "service": "open", "jobs": [], "levels": ["block"], "path": ["b0"],
        "gpus": 8, "labels": {"node": "n0"}}  # fmt: skip
JOB = {"job": "j", "team": "a", "state": "queued", "submission": "jobs-0-0"}
ADD = ("node", "add", "n1", "--gpus", "8", "--place", "block=b1")
REFUSED_KINDS = [
    (*ADD, "--label", "rack=7"),
    ("node", "remove", "n0"),
    ("cordon", "n0"),
    ("uncordon", "n0"),
    ("drain", "n0"),
    ("maintenance", "n0", "--for", "1h"),
    ("team", "set", "a", "--guaranteed", "8"),
    ("policy", "set", "retries=1"),
    ("cancel", "j"),
    ("hold", "j"),
    ("release", "j"),
    ("priority", "j", "high"),
]


@pytest.fixture(autouse=True)
def _fleet(shell: Shell) -> None:
    """One node, one job, and views that contain all that is asked for."""
    shell.world.views.tables |= {"nodes": [NODE], "jobs": [JOB]}
    shell.world.views.reached = Position("nodes", 0, 0)


def refused(shell: Shell, reason: str) -> None:
    """The scheduler's answer to the first fact."""
    detail = {"first": 0, "reason": reason, "detail": ""}
    row = {"kind": "InputRejected", "job": "", "detail": detail}
    shell.world.views.made = [row]


@pytest.mark.parametrize("words", REFUSED_KINDS, ids=lambda words: " ".join(words[:2]))
@pytest.mark.parametrize("output", [(), ("--json",)], ids=["words", "data"])
def test_what_was_refused_is_an_error(
    shell: Shell, words: tuple[str, ...], output: tuple[str, ...]
) -> None:
    """In the scheduler's words, with code 1; for programs too."""
    refused(shell, "something else")

    done = shell(*words, *output)

    assert done.code == 1
    assert "something else" in done.err
    assert "position" not in done.out


@pytest.mark.parametrize("words", REFUSED_KINDS, ids=lambda words: " ".join(words[:2]))
def test_what_was_taken_is_none(shell: Shell, words: tuple[str, ...]) -> None:
    """Said in one line, as ever."""
    done = shell(*words)

    assert (done.code, done.out, len(done.err.splitlines())) == (0, "", 1)


def test_of_several_the_others_are_done_and_each_trouble_is_said(shell: Shell) -> None:
    """A name that is mistyped keeps nobody from the rest."""
    done = shell("cordon", "n7", "n0", "n8")

    assert done.code == 3
    assert done.err.splitlines()[:2] == [
        "cordoning n0",
        "gangline: there is no node n7",
    ]
    assert "n8" in done.err.splitlines()[2]


@pytest.mark.parametrize(
    ("verb", "service", "code", "said"),
    [
        ("drain", "draining", 0, "n0 is draining already\n"),
        ("cordon", "draining", 0, "n0 is draining already\n"),
        ("uncordon", "open", 0, "n0 is open already\n"),
        ("drain", "maintenance", 1, "gangline: n0 is in maintenance, which drain does not change"),
    ],
)
def test_what_changes_nothing_is_told_as_what_the_node_is(
    shell: Shell, verb: str, service: str, code: int, said: str
) -> None:
    """It is an error only where the node is not what was wanted."""
    shell.world.views.tables["nodes"] = [NODE | {"service": service}]
    refused(shell, "already so")

    done = shell(verb, "n0")

    assert done.code == code
    assert done.err.startswith(said)


def test_what_nobody_has_answered_is_said_so(shell: Shell) -> None:
    """The wish stands in the log; the scheduler or the projector is away."""
    shell.world.views.reached = Position("control", 0, -1)
    app: Any = shell.world.client.app
    app.state.settings = replace(app.state.settings, wait_s=0.0)

    done = shell("cordon", "n0")

    assert (done.code, done.err) == (
        0,
        "cordoning n0: the log has it, nobody has answered yet\n",
    )


def test_a_node_is_let_in_with_its_place_and_its_name_as_label(shell: Shell) -> None:
    """As docs/operations.md says."""
    done = shell(*ADD, "--key", "ab" * 32)

    (event,) = shell.world.facts(Topic.CONTROL)
    assert (done.code, done.err) == (0, "adding n1\n")
    assert event.body == NodeAdmitted(
        node="n1",
        path=("b1",),
        levels=("block",),
        gpus=8,
        labels={"node": "n1"},
        public_key=b"\xab" * 32,
    )


def test_a_node_of_other_levels_is_refused_at_once(shell: Shell) -> None:
    """Those of the fleet are named; nothing stands in the log."""
    done = shell("node", "add", "n1", "--gpus", "8", "--place", "spine=s0", "--place", "block=b0")

    assert (done.code, shell.world.facts(Topic.CONTROL)) == (2, [])
    assert done.err == "gangline: levels: those of the fleet are block, not spine, block\n"


def test_a_node_that_is_there_stays_as_it_is(shell: Shell) -> None:
    """The same again is told by the scheduler; another one under its name at once."""
    done = shell("node", "add", "n0", "--gpus", "4", "--place", "block=b0")

    assert (done.code, shell.world.facts(Topic.CONTROL)) == (5, [])
    assert "n0 is in the fleet already (b0, 8 GPUs, node=n0); withdraw it first" in done.err


def test_without_views_the_scheduler_alone_decides(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet can be made although Postgres is away."""

    def no_rows(*_: object, **__: object) -> None:
        raise ViewsUnreachableError("no Postgres")

    monkeypatch.setattr(shell.world.views, "rows", no_rows)

    shell(*ADD)

    assert [event.body.node for event in shell.world.facts(Topic.CONTROL)] == ["n1"]


def test_a_busy_node_is_removed_by_force_only(shell: Shell) -> None:
    """What runs there would be killed."""
    shell.world.views.tables["nodes"] = [NODE | {"jobs": ["train"]}]

    asked = shell("node", "remove", "n0")
    forced = shell("node", "remove", "n0", "--force", "--json")

    assert asked.code == 2
    assert "n0 runs train: drain it first" in asked.err
    assert json.loads(forced.out)["node"] == "n0"
    (event,) = shell.world.facts(Topic.CONTROL)
    assert isinstance(event.body, NodeWithdrawn)
