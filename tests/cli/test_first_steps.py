"""What somebody meets who types the first commands, perhaps with Slurm in the fingers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gangline.events.log import Position, Topic

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

JOB: dict[str, Any] = {
    "job": "j", "team": "a", "class": "normal", "gpus": 1, "state": "queued", "reason": "",
    "reason_text": "", "submitted_at": "2026-11-30T12:00:00+00:00", "wait_s": None,
    "nodes": ["n0"], "exit_code": None,
}  # fmt: skip


@pytest.mark.parametrize("words", [(), ("team",)])
def test_a_group_without_a_command_shows_its_help(shell: Shell, words: tuple[str, ...]) -> None:
    """As its author laid it out, not folded into one line; the code says that nothing was done."""
    done = shell(*words)

    assert (done.code, done.out) == (2, "")
    assert "\nCommands:\n" in done.err


@pytest.mark.parametrize(
    ("typed", "ours"),
    [("sbatch", "submit"), ("squeue", "queue"), ("sinfo", "nodes"), ("sacct", "jobs")],
)
def test_a_command_of_slurm_is_answered_with_ours(shell: Shell, typed: str, ours: str) -> None:
    """`sinfo` resembles none of our names."""
    assert f"there is no command {typed}; did you mean {ours}?" in shell(typed).err


def test_a_job_without_a_command_is_said_to_hold_its_gpus(shell: Shell) -> None:
    """Whoever forgot the command learns it before the GPUs stand idle for days."""
    shell.world.views.tables["jobs"] = [JOB]
    shell.world.views.reached = Position("jobs", 0, 0)

    forgotten = shell("submit", "--team", "a", "--gpus", "1", "--id", "j")

    assert (forgotten.code, forgotten.out) == (0, "j\n")
    assert "j has no command: it holds its GPUs until it is cancelled" in forgotten.err


def test_a_bad_id_is_named_as_the_option_that_was_given(shell: Shell) -> None:
    """Nobody who types `--id` has heard of the header that carries it."""
    done = shell("submit", "--team", "a", "--gpus", "1", "--id", "a/b", "--", "true")

    assert done.err == "gangline: --id: a name has no /\n"


@pytest.mark.parametrize("command", ["job", "logs", "why"])
def test_a_name_is_answered_with_the_id_that_begins_with_it(shell: Shell, command: str) -> None:
    """Whoever submitted with `--name hello` asks for hello; the newest comes first."""
    names = ("help", "hello-2f5c6c56b3", "hello-b867a6a088")
    shell.world.views.tables["jobs"] = [JOB | {"job": name} for name in names]

    asked = shell(command, "hello")

    assert (asked.code, asked.out) == (3, "")
    assert "there is no job hello; did you mean hello-2f5c6c56b3?" in asked.err


def test_wait_says_how_the_job_ended(shell: Shell) -> None:
    """A code alone is easily overlooked."""
    ended = {"state": "failed", "exit_code": 3, "reason": "exit code 3"}
    shell.world.views.tables["jobs"] = [JOB | ended]

    done = shell("submit", "--team", "a", "--gpus", "1", "--id", "j", "--wait", "--", "false")

    assert (done.code, done.out, done.err) == (3, "j\n", "j: failed (exit code 3)\n")


def test_a_job_that_has_ended_is_not_cancelled_again(shell: Shell) -> None:
    """How it ended is said, and no wish is left in the log."""
    shell.world.views.tables["jobs"] = [JOB | {"state": "succeeded"}]

    done = shell("cancel", "j")

    assert (done.code, done.err) == (0, "nothing to cancel: j: succeeded\n")
    assert not shell.world.facts(Topic.JOBS)


def test_a_failed_attempt_says_what_its_program_did(shell: Shell) -> None:
    """With 127 for a command that is not there, and without nodes that it no longer holds."""
    failed = {
        "attempt": 1, "state": "ended", "seats": [{"node": "n0"}], "cause": "user",
        "exit_code": 127, "exit_signal": 0, "exit_node": "n0",
    }  # fmt: skip
    shell.world.views.tables |= {"jobs": [JOB], "attempts": [failed | {"job": "j"}]}

    lines = shell("job", "j").out.splitlines()

    assert lines[1] == "  team a, class normal, 1 GPU"
    assert lines[3:] == [
        "  attempt 1: ended on n0, its program ended with code 127 on n0 (it could not start)"
    ]


@pytest.mark.parametrize(
    ("right", "said"),
    [
        ("class", "preempted for big (of a higher class)"),
        ("reclaim", "preempted for big (which took back what its team is guaranteed)"),
    ],
)
def test_an_attempt_that_was_preempted_says_for_whom(shell: Shell, right: str, said: str) -> None:
    """And by which right."""
    out = {
        "job": "j", "attempt": 1, "state": "ended", "seats": [{"node": "n0"}],
        "cause": "preempted", "cause_text": right, "claimant": "big",
    }  # fmt: skip
    shell.world.views.tables |= {"jobs": [JOB], "attempts": [out]}

    assert shell("job", "j").out.splitlines()[3] == f"  attempt 1: ended on n0, {said}"


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("succeeded", "", "j does not wait: it has succeeded"),
        ("failed", "exit code 3", "j does not wait: it has failed (exit code 3)"),
        ("cancelled", "cancelled", "j does not wait: it is cancelled"),
    ],
)
def test_why_of_a_job_that_has_ended_says_how(
    shell: Shell, state: str, reason: str, said: str
) -> None:
    """Once, and in a whole sentence."""
    row = JOB | {"state": state, "reason": reason, "reason_text": ""}
    shell.world.views.tables["jobs"] = [row]

    assert shell("why", "j").out == f"{said}\n"


def test_an_attempt_that_did_not_end_by_itself_says_why(shell: Shell) -> None:
    """In the words that the views keep."""
    hung = {
        "attempt": 1, "state": "ended", "seats": [{"node": "n0"}], "cause": "infrastructure",
        "cause_text": "no progress for its progress_timeout",
    }  # fmt: skip
    shell.world.views.tables |= {"jobs": [JOB], "attempts": [hung | {"job": "j"}]}

    told = shell("job", "j").out.splitlines()[3]

    assert told.endswith("ended on n0, infrastructure (no progress for its progress_timeout)")


REFUSED = {"kind": "InputRejected", "job": None}


@pytest.mark.parametrize(
    ("words", "detail", "said"),
    [
        (
            ("--parent", "nobody"),
            {"reason": "no such team", "detail": ""},
            "nobody cannot be its parent: no such team",
        ),
        (
            ("--guaranteed-of", "h100=9"),
            {"reason": "a value is out of range", "detail": "14 by model are more than 8"},
            "14 by model are more than 8",
        ),
        (("--weight", "2"), {"reason": "a value is out of range", "detail": ""}, "a value is out"),
    ],
)
def test_a_team_that_is_refused_is_not_said_to_be_set(
    shell: Shell, words: tuple[str, str], detail: dict[str, str], said: str
) -> None:
    """The scheduler's own words, also where only what was there before makes it too much."""
    shell.world.views.made = [REFUSED | {"detail": {"first": 0} | detail}]
    shell.world.views.reached = Position("control", 0, 0)

    done = shell("team", "set", "a", *words)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"gangline: team a is not set: {said}")


def test_a_team_that_is_so_already_is_said_to_be(shell: Shell) -> None:
    """It is no error."""
    already = {"first": 0, "reason": "already so", "detail": ""}
    shell.world.views.made = [REFUSED | {"detail": already}]
    shell.world.views.reached = Position("control", 0, 0)

    done = shell("team", "set", "a", "--guaranteed", "8")

    assert (done.code, done.err) == (0, "team a is so already\n")


def test_a_team_of_which_nobody_has_heard_is_not_said_to_be_set(shell: Shell) -> None:
    """The wish stands in the log; the scheduler or the projector is away."""
    shell.world.views.reached = Position("control", 0, -1)
    app: Any = shell.world.client.app
    app.state.settings = replace(app.state.settings, wait_s=0.0)

    done = shell("team", "set", "a", "--guaranteed", "8")

    assert (done.code, done.err) == (0, "team a: the log has it, nobody has answered yet\n")


def test_a_limit_is_a_number_or_one_of_two_words(shell: Shell) -> None:
    """The error names all three."""
    done = shell("team", "set", "a", "--borrow", "some")

    assert done.code == 2
    assert "--borrow: a number of GPUs, none or unlimited, not 'some'" in done.err


def test_wide_nodes_say_what_their_health_means_and_for_how_long(shell: Shell) -> None:
    """The scheduler's own word for it stands in the data."""
    until = (datetime.now(UTC) + timedelta(minutes=9, seconds=30)).isoformat()
    node = {"node": "n0", "health": "suspected", "health_cause": "unready", "health_until": until}
    shell.world.views.tables["nodes"] = [node, node | {"node": "n1", "health_cause": "silent"}]

    first, second = shell("nodes", "-o", "wide").out.splitlines()[1:]

    assert "a member was not ready in time or broke down at once; over in 9m" in first
    assert "no heartbeats; lost in 9m" in second
    assert json.loads(shell("nodes", "--json").out)[0]["health_cause"] == "unready"


def test_wide_nodes_say_why_they_are_out_of_service(shell: Shell) -> None:
    """`--why` is what a colleague should read; an announced window stands beside it."""
    shell.world.views.tables["nodes"] = [
        {"node": "n0", "service": "cordoned", "service_cause": "fan", "health_cause": ""},
        {"node": "n1", "maintenance": {"from_ms": 1_000, "until_ms": 7_201_000, "why": "psu"}},
    ]

    first, second = shell("nodes", "-o", "wide").out.splitlines()[1:]

    assert "fan" in first
    assert "for 2h: psu" in second


def test_a_signal_that_would_come_at_once_is_told_so(shell: Shell) -> None:
    """The policy's grace is shorter than the lead, and the job has named none of its own."""
    shell.world.views.reached = Position("jobs", 0, 9)
    submit = ("submit", "--team", "a", "--gpus", "1", "--stop-signal")

    early = shell(*submit, "USR2@90s", "--", "true")
    in_time = shell(*submit, "USR2@30s", "--", "true")
    named = shell(*submit, "USR2@90s", "--grace", "2m", "--", "true")

    assert "its grace is the policy's, 1m: USR2 comes at once, not 90s before" in early.err
    assert "comes at once" not in in_time.err + named.err
