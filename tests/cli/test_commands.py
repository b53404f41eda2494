"""Commands against an API: data on stdout, words on stderr, and a code for each kind of end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gangline.events.log import Position, Topic
from gangline.events.memory import MemoryLog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shell

QUEUED: dict[str, Any] = {
    "position": 1, "job": "train-1", "team": "vision", "class": "normal", "gpus": 8,
    "submitted_at": None, "estimated_start_p50": None, "estimated_start_p90": None,
    "reason": "capacity", "reason_text": "needs 8 GPUs, 3 are free",
}  # fmt: skip
JOB: dict[str, Any] = {
    "job": "train-1", "team": "vision", "class": "normal", "gpus": 8, "state": "queued",
    "reason": "capacity", "reason_text": "needs 8 GPUs, 3 are free",
    "submitted_at": "2026-11-30T12:00:00+00:00", "wait_s": None, "nodes": [], "exit_code": None,
}  # fmt: skip


def test_submit_prints_the_id_and_leaves_a_fact(shell: Shell) -> None:
    """What follows `--` is the command; the folder is the present one."""
    shell.world.views.tables["jobs"] = [JOB | {"job": "run-1"}]
    shell.world.views.reached = Position("jobs", 0, 0)

    done = shell(
        "submit", "--team", "vision", "--gpus", "8", "--id", "run-1", "-e", "A=1",
        "--", "python", "train.py", "--lr", "0.1",
    )  # fmt: skip

    assert (done.code, done.out) == (0, "run-1\n")
    (event,) = shell.world.facts(Topic.JOBS)
    private = json.loads(event.body.spec.private.ciphertext)
    assert private["command"] == ["python", "train.py", "--lr", "0.1"]
    assert private["env"] == {"A": "1"}
    assert private["workdir"]


def test_submit_says_at_once_that_a_job_was_rejected(shell: Shell) -> None:
    """The reason and the nearest request that could start go to stderr, and the code is 1."""
    rejected = {"state": "rejected", "reason_text": "the fleet has 32 GPUs", "nearest": "gpus=32"}
    shell.world.views.tables["jobs"] = [JOB | {"job": "big"} | rejected]
    shell.world.views.reached = Position("jobs", 0, 0)

    done = shell("submit", "--team", "vision", "--gpus", "4096", "--id", "big")

    assert done.code == 1
    assert "big was rejected: the fleet has 32 GPUs; the nearest that could: gpus=32" in done.err


CSV = """\
position,job,team,class,gpus,submitted_at,estimated_start_p50,estimated_start_p90,reason,reason_text
1,train-1,vision,normal,8,,,,capacity,"needs 8 GPUs, 3 are free"
"""
TABLE = """\
#  JOB      TEAM    CLASS   GPUS  WAITED  STARTS  REASON
1  train-1  vision  normal     8                  capacity
"""


@pytest.mark.parametrize(
    ("output", "expected"), [("id", "train-1\n"), ("csv", CSV), ("table", TABLE)]
)
def test_lists_come_in_the_form_asked_for(shell: Shell, output: str, expected: str) -> None:
    """Nothing but data goes to stdout."""
    shell.world.views.tables["queue"] = [QUEUED]

    done = shell("queue", "-o", output)

    assert (done.code, done.out, done.err) == (0, expected, "")


def test_json_is_what_the_api_says(shell: Shell) -> None:
    """`--json` and `-o json` are the same; `-o jsonl` has one object a line."""
    shell.world.views.tables["queue"] = [QUEUED, QUEUED | {"job": "train-2"}]

    assert json.loads(shell("queue", "--json").out)[0] == QUEUED
    assert shell("queue", "--json").out == shell("queue", "-o", "json").out
    lines = shell("queue", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["job"] for line in lines] == ["train-1", "train-2"]


def test_why_is_told_in_plain_words(shell: Shell) -> None:
    """The reason, its numbers, the place in line."""
    shell.world.views.tables |= {"jobs": [JOB], "queue": [QUEUED | {"waited_s": 95.0}]}

    done = shell("why", "train-1")

    assert done.out.splitlines() == [
        "train-1 waits: capacity",
        "  needs 8 GPUs, 3 are free",
        "  number 1 in the queue, waiting for 1m35s",
    ]


def test_a_team_is_set_by_a_fact(shell: Shell) -> None:
    """What is not named keeps its value."""
    shell.world.views.tables["teams"] = [{"team": "vision", "parent": "", "guaranteed": 16}]
    done = shell(
        *("team", "set", "vision", "--guaranteed", "16", "--borrow", "unlimited"),
        *("--guaranteed-of", "h100=8", "--guaranteed-of", "a100=4"),
    )

    assert (done.code, done.out, done.err) == (0, "", "team vision is set\n")
    (event,) = shell.world.facts(Topic.CONTROL)
    assert (event.body.guaranteed, event.body.borrow, event.body.lend) == (16, -1, None)
    assert event.body.by_model == {"h100": 8, "a100": 4}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("job nothing", 3, "gangline: there is no job nothing"),
        ("cordon n9", 3, "gangline: there is no node n9"),
        ("submit --team a --gpus 0", 2, "gangline: gpus: this is at least 1"),
        ("submit --team a --gpu 1", 2, "there is no option --gpu; did you mean --gpus?"),
        ("submit --gpus 1", 2, "gangline submit: Missing option '--team'"),
        ("submit --team a --gpus 1 -e A", 2, "'A' is not KEY=VALUE"),
        ("up --port 70000", 2, "70000 is not in the range 0<=x<=65535"),
        (
            "team set a --guaranteed 8 --guaranteed-of h=9",
            2,
            "gangline: by_model: add up to at most the 8 guaranteed in all",
        ),
        ("team set a --guaranteed-of 8", 2, "--guaranteed-of: MODEL=GPUS, not '8'"),
        ("quque", 2, "gangline: there is no command quque; did you mean queue?"),
        ("jobs -n 99999999999999999999", 2, "is not in the range 1<=x<=1000000"),
        ("priority x", 2, "Missing argument '{low|normal|high|urgent}': one of low, normal, high"),
        ("token create x", 2, "Missing option '--role': one of submit, operate, audit (see"),
        ("token list --file /", 2, "gangline: / is no file of tokens: Is a directory"),
        ("drain n0 --deadline soon", 2, "gangline: deadline: a duration is a text like"),
        ("events", 2, "name a job, or follow all decisions with -f"),
    ],
)
def test_an_error_is_one_line_and_has_a_code(
    shell: Shell, words: str, code: int, said: str
) -> None:
    """It says what would be right, and nothing goes to stdout."""
    done = shell(*words.split())

    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("team", "set", "{}"), ("why", "{}"), ("job", "{}"), ("cancel", "{}"), ("hold", "{}"),
        ("release", "{}"), ("events", "{}"), ("logs", "{}"), ("ranks", "{}"), ("cordon", "{}"),
        ("uncordon", "{}"), ("drain", "{}"), ("maintenance", "{}", "--for", "1h"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "said"),
    [("", "at least one character"), ("a b", "no space"), ("a b/c", "no /"), ("..", "no .")],
)
def test_what_can_be_no_name_is_told_so(
    shell: Shell, words: tuple[str, ...], name: str, said: str
) -> None:
    """Not that some path was not found, which a slash or an empty name makes of the address."""
    done = shell(*(word.format(name) for word in words))

    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_an_api_that_is_not_there_is_said_not_to_be_reachable(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 7, and the address that was tried."""
    monkeypatch.setenv("GANGLINE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("gangline.cli.connection.PATIENCE_S", 0.0)

    done = shell("queue")

    assert done.code == 7
    assert done.err.startswith("gangline: no API answers at http://127.0.0.1:9: ")


def test_bytes_that_are_no_text_are_said_to_be_none(shell: Shell) -> None:
    """A command line may hold anything; a spec holds text."""
    done = shell("submit", "--team", "a", "--gpus", "1", "--", "\udcff")

    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "cannot be sent" in done.err


def test_a_name_that_is_no_utf_8_is_said_to_be_none(shell: Shell) -> None:
    """It is the user's mistake, not ours."""
    done = shell("job", "\udcff")

    assert (done.code, done.err) == (2, "gangline: a name on the command line is no UTF-8\n")


@pytest.mark.parametrize("state", ["", "[]", "null", "{", '{"url": ""}'])
def test_a_damaged_note_of_a_stack_is_no_stack(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: str
) -> None:
    """Whatever stands in the file."""
    (tmp_path / "state.json").write_text(state)
    monkeypatch.delenv("GANGLINE_URL")
    monkeypatch.setenv("GANGLINE_DIR", str(tmp_path))

    done = shell("queue")

    assert done.code == 7
    assert done.err.startswith("gangline: no API is known")


def test_tokens_are_kept_in_the_stacks_folder(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """GANGLINE_DIR says where, as it does for the stack; nothing is written beside it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("GANGLINE_TOKENS", raising=False)
    monkeypatch.setenv("GANGLINE_DIR", str(tmp_path / "stack"))

    done = shell("token", "create", "bot", "--role", "operate")

    assert done.code == 0, done.err
    assert (tmp_path / "stack" / "tokens.json").exists()
    assert not list((tmp_path / "here").iterdir())


@pytest.mark.parametrize(
    ("state", "words", "opened"),
    [
        ({"bus": "memory://", "database": "postgres://v"}, (), ("memory://", "postgres://v")),
        ({"bus": "postgres://l", "database": ""}, (), ("postgres://l", "postgres://l")),
        (
            {"bus": "memory://", "database": "postgres://v"},
            ("--bus", "postgres://other"),
            ("postgres://other", "postgres://other"),
        ),
    ],
)
def test_views_are_rebuilt_from_the_stacks_bus_where_none_is_named(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    state: dict[str, str],
    words: tuple[str, ...],
    opened: tuple[str, str],
) -> None:
    """Its database goes with its bus only: another log never lands in the stack's views."""
    seen = []
    for name in ("GANGLINE_BUS", "GANGLINE_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "state.json").write_text(json.dumps(state))
    monkeypatch.setenv("GANGLINE_DIR", str(tmp_path))

    def opens(url: str, _: str, **__: object) -> MemoryLog:
        seen.append(url)
        return MemoryLog("test")

    def rebuilds(_: object, dsn: str, *__: object, **___: object) -> list[object]:
        seen.append(dsn)
        return []

    monkeypatch.setattr("gangline.events.bus.open_log", opens)
    monkeypatch.setattr("gangline.projections.rebuild.rebuild", rebuilds)

    done = shell("views", "rebuild", *words)

    assert (done.code, tuple(seen)) == (0, opened), done.err


def test_without_a_bus_and_a_stack_the_rebuild_says_what_to_name(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line, wrong usage."""
    monkeypatch.delenv("GANGLINE_BUS", raising=False)
    monkeypatch.setenv("GANGLINE_DIR", str(tmp_path))

    done = shell("views", "rebuild")

    assert done.code == 2
    assert done.err == (
        f"gangline views rebuild: no stack in {tmp_path} has a bus; name one: --bus URL "
        "(see `gangline views rebuild --help`)\n"
    )


def test_a_team_may_be_of_any_script(shell: Shell) -> None:
    """The id that is made for the job has the team's name in it."""
    done = shell("submit", "--team", "équipe", "--gpus", "1", "--", "true")

    assert done.code == 0, done.err
    assert done.out.startswith("équipe-")


def test_wait_returns_the_exit_code_of_the_job(shell: Shell) -> None:
    """A job that ended with code 3 makes `submit --wait` end with code 3."""
    shell.world.views.tables["jobs"] = [JOB | {"job": "j", "state": "failed", "exit_code": 3}]

    done = shell("submit", "--team", "a", "--gpus", "1", "--id", "j", "--wait")

    assert (done.code, done.out) == (3, "j\n")


def test_the_nodes_of_a_large_gang_are_written_shortly(shell: Shell) -> None:
    """A few by their names; many in their order, as people know it from Slurm."""
    few, many = ["b0-n7", "b0-n8"], [f"b1-n{i}" for i in (0, 1, 2, 3, 9)]
    attempts = [
        {"job": "train-1", "attempt": 1, "state": "ended", "seats": [{"node": n} for n in many]},
        {"job": "train-1", "attempt": 2, "state": "running", "seats": [{"node": n} for n in few]},
    ]
    running = JOB | {"state": "running", "nodes": few}
    shell.world.views.tables |= {"jobs": [running], "attempts": attempts}

    lines = shell("job", "train-1").out.splitlines()

    assert "  on b0-n7, b0-n8" in lines
    assert "  attempt 1: ended on 5 nodes: b1-n[0-3,9]" in lines
    assert "  attempt 2: running on b0-n7, b0-n8" in lines
