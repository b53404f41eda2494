"""Every command that there is, with arguments that nobody means: one harmless line, never more.

The commands are read from the program, so that a new one is asked as soon as it is there.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import click
import pytest

from gangline.cli.main import cli
from gangline.events.log import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Shell

SERVERS: Final = frozenset(
    {"api", "agent", "bench", "demo", "down", "init", "projector", "scheduler", "status", "top"}
    | {"up", "workload", "scenario", "run"}
)
HOSTILE: Final = (
    "", " ", "-", "-1", "\u202ename", "\x1b[31m", "a\nb", "a/../b", "\udcff", "é", "9" * 30,
    "1e999", "X" * 5_000, "X" * 70_000, "seq:x", "10 m", "NOW", "2026-13-40", "/", "postgres://",
    "kafka://",
)  # fmt: skip
WITHIN_S: Final = 30


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands with their words, but those that serve or measure."""
    context = click.Context(cli, info_name="gangline")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is not None and name not in SERVERS:
            yield from _leaves((name,), command, context)


def _leaves(
    words: tuple[str, ...], command: click.Command, above: click.Context
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command, info_name=words[-1], parent=above)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None:
            yield from _leaves((*words, name), below, context)


COMMANDS: Final = dict(commands())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_whatever_is_typed_the_answer_is_one_harmless_line(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """As its arguments, and as the value of each of its options; whatever it requires is there."""
    monkeypatch.chdir(tmp_path)
    shell.world.views.reached = Position("jobs", 0, 1_000_000)  # nobody waits for the views
    needed = {
        max(p.opts, key=len): "1"
        for p in COMMANDS[words].params
        if isinstance(p, click.Option) and p.required and not p.is_flag
    }
    named = [p for p in COMMANDS[words].params if isinstance(p, click.Argument)]
    options = [
        max(p.opts, key=len)
        for p in COMMANDS[words].params
        if isinstance(p, click.Option) and not p.is_flag and p.name != "help"
    ]
    given = [f"{option}={value}" for option, value in needed.items()]
    tries = [(*words, *given, "--", *[value] * len(named)) for value in HOSTILE if named]
    tries += [
        (*words, *given, f"{option}={value}", *["x"] * len(named))
        for option in options
        for value in HOSTILE
    ]
    for each in tries:
        done = shell(*each)
        assert done.code in range(8), each
        assert done.code == 0 or len(done.err.splitlines()) == 1, (each, done.err)
        assert "our mistake" not in done.err, (each, done.err)
        assert "no API answers" not in done.err, (each, done.err)
        assert done.err.replace("\n", "").isprintable(), (each, done.err)
        assert len(done.err) < 2_000, each


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("GANGLINE_URL", "foo", "'foo' is no URL like http://host:8642"),
        ("GANGLINE_URL", "ftp://x", "'ftp://x' is no URL like http://host:8642"),
        ("GANGLINE_URL", "http://", "'http://' is no URL like http://host:8642"),
        ("GANGLINE_URL", "http://[::1", "is no URL: "),
        ("GANGLINE_API_TOKEN", "geheim\nX-Evil: 1", "the token (GANGLINE_API_TOKEN) has other"),
        ("GANGLINE_API_TOKEN", "gehëim", "the token (GANGLINE_API_TOKEN) has other"),
    ],
)
def test_a_variable_that_is_nonsense_is_wrong_usage(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    """It is no API that does not answer, and a token is never shown."""
    monkeypatch.setenv(variable, value)

    done = shell("queue")

    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert said in done.err
    assert "geh" not in done.err


BUS: Final = ("--bus", "postgres://u@127.0.0.1:9/x")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("scheduler --bus postgres://[x", "Invalid IPv6 URL"),
        ("scheduler --bus postgres://a\tb/x", "it holds no spaces"),
        ("scheduler --bus foo", "a bus is kafka://host:port or postgres://"),
        ("scheduler --cell ../x", "a cell is named by a-z, 0-9 and -"),
        ("replay verify --cell A", "a cell is named by a-z, 0-9 and -"),
        ("projector --database foo", "it begins with postgres:// or postgresql://"),
        ("projector --database postgres://[x", "Invalid IPv6 URL"),
        ("api --database kafka://x", "it is no postgres://user@host:port/database"),
        ("webhooks run --hooks x --database foo", "it begins with postgres://"),
        ("agent --node a/b", "a name has no /"),
        ("agent --node=", "a name has at least one character"),
        ("agent --node -x", "a name has no - at its start"),
        ("api --port 70000", "not in the range"),
    ],
)
def test_a_process_that_is_told_nonsense_does_not_begin(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    """Wrong usage, in one line that names the option."""
    monkeypatch.setenv("GANGLINE_DIR", str(tmp_path / "none"))
    typed = [word.replace("\t", " ") for word in words.split(" ")]
    bus = () if "--bus" in typed or typed[0] == "webhooks" else BUS

    done = shell(*typed, *bus)

    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
    assert said in done.err
    assert "Invalid value for '--" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nowhere/x.json", "there is no folder nowhere"),
        (".", "Invalid value for '--json': "),
    ],
)
@pytest.mark.parametrize("words", ["bench decide", "simulate --trace t --fleet f"])
def test_a_file_that_cannot_be_written_is_said_before_the_work(
    shell: Shell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    where: str,
    said: str,
) -> None:
    """Not after minutes or hours, when there is something to lose."""
    monkeypatch.chdir(tmp_path)

    done = shell(*words.split(), "--json", where)

    assert (done.code, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert said in done.err


@pytest.mark.parametrize("url", ["foo", "postgres://[x", "postgres://a b/x"])
def test_a_database_that_is_none_is_wrong_usage(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """`gangline up` takes it from a variable; its password is not said back."""
    monkeypatch.setenv("GANGLINE_DATABASE_URL", url)

    done = shell("up", "--dir", str(tmp_path / "stack"))

    assert done.code == 2
    assert "GANGLINE_DATABASE_URL is no postgres://user@host:port/database: " in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "stack").exists()


@pytest.mark.parametrize(
    "words",
    ["api --port {port}", "agent --gpus 1 --dir agent --log-address 127.0.0.1 --log-port {port}"],
)
def test_an_address_that_is_taken_is_named(tmp_path: Path, words: str) -> None:
    """Which of its ports it is, in one line."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "gangline.cli.main", *words.format(port=port).split(), *BUS],
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
            cwd=tmp_path,
        )

    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert said == [f"gangline: 127.0.0.1:{port}: Address already in use"]


@pytest.mark.parametrize("option", ["--id", "--name"])
def test_a_name_that_no_header_carries_is_no_name(shell: Shell, option: str) -> None:
    """The option is named; nothing is sent that could be taken for something else."""
    done = shell("submit", "--team", "a", "--gpus", "1", option, "a\nX-Evil: 1", "--", "true")

    where = option if option == "--id" else "name"
    assert (done.code, done.err) == (2, f"gangline: {where}: a name has printing characters only\n")


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_streams_that_are_closed_are_no_mistake_of_ours(closed: str) -> None:
    """Whoever wants no output gets none."""
    command = f"{sys.executable} -m gangline.cli.main acl --help {closed}"
    done = subprocess.run(  # noqa: S602 - a shell closes streams
        command, shell=True, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )

    assert done.returncode == 0
    assert "mistake" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("acl --print >/dev/full", 1, "gangline: No space left on device\n"),
        ("--help >/dev/full", 1, "gangline: No space left on device\n"),
        ("nonsense 2>/dev/full", 2, ""),
        ("acl --print >/dev/full 2>/dev/full", 1, ""),
    ],
)
def test_output_that_finds_no_room_is_one_line(words: str, code: int, said: str) -> None:
    """A file on a full disk: the code says so too, and Python adds nothing of its own."""
    done = subprocess.run(  # noqa: S602 - a shell opens files
        f"{sys.executable} -m gangline.cli.main {words}",
        shell=True,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


@pytest.mark.parametrize("command", ["up", "down", "status"])
def test_a_folder_without_a_name_is_none(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Of `--dir "$UNSET"` no stack comes to stand where somebody happens to be."""
    monkeypatch.chdir(tmp_path)

    done = shell(command, "--dir", "")

    assert done.code == 2
    assert "Invalid value for '--dir': it is empty; this folder is `.`" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_enough_ends_us_quietly() -> None:
    """`| head -1`, as often as it takes to be sure."""
    command = f"{sys.executable} -m gangline.cli.main --help | head -1"
    for _ in range(3):
        done = subprocess.run(  # noqa: S602 - a pipe
            command, shell=True, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        assert done.stderr == ""
        assert done.stdout.count("\n") == 1
