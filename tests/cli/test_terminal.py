"""Tables on a real terminal: narrow, wide, and one whose user wants no colours."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from gangline.cli.output import Column, ahead, padded, put

_SHOWN: Final = """
from gangline.cli.output import Column, put, styled
columns = [Column("job", "JOB"), Column("gpus", "GPUS", right=True), Column("state", "STATE"),
           Column("why", "WHY")]
why = "needs 32 GPUs; 0 are free and 0 may be reclaimed; most is held by others"
put([{"job": "train-2f5c6c56b3", "gpus": 32, "state": "running", "why": why}],
    output=None, columns=columns, key="job")
print(styled("bold", bold=True))
"""
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")
NAME: Final = "train-2f5c6c56b3"


def _on_a_terminal(columns: int, **environment: str) -> str:
    """What a terminal of this width is sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS"}}
    with subprocess.Popen(
        [sys.executable, "-c", _SHOWN],
        stdout=theirs,
        env=inherited | {"TERM": "xterm-256color"} | environment,
    ) as shown:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 65_536):
                said += part
        except OSError:  # the terminal is gone with the last who wrote to it
            pass
    os.close(ours)
    assert shown.returncode == 0
    return said.decode().replace("\r\n", "\n")


def test_sentences_are_fitted_and_names_stay_whole() -> None:
    """In 80 columns the reason takes several lines, and nothing else does."""
    *lines, _ = _ESCAPE.sub("", _on_a_terminal(80)).splitlines()

    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith(f"{NAME}    32  running  needs 32 GPUs; 0 are free")
    assert len(lines) > 2
    assert all(line.startswith(" " * len(NAME)) for line in lines[2:])
    assert lines[-1].rstrip().endswith("most is held by others")


def test_a_terminal_that_is_too_narrow_breaks_the_lines_itself() -> None:
    """One line a job, as on a pipe: what is copied from it is whole."""
    lines = _ESCAPE.sub("", _on_a_terminal(40)).splitlines()

    assert lines[0] == "JOB               GPUS  STATE    WHY"
    assert lines[1].startswith(f"{NAME}    32  running  needs 32 GPUs; 0 are free and 0 may be")
    assert lines[1].endswith("most is held by others")


def _at(seconds_ahead: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds_ahead)).isoformat()


def test_signs_of_the_east_stand_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    """They take two places each on a terminal, and accents that are written apart take none."""
    columns = [Column("team", "TEAM"), Column("gpus", "GPUS", right=True)]

    teams = ("größe", "日本", "e\u0301te")
    put([{"team": t, "gpus": 8} for t in teams], output=None, columns=columns, key="team")

    assert capsys.readouterr().out.splitlines() == [
        "TEAM   GPUS",
        "größe     8",
        "日本      8",
        "e\u0301te       8",
    ]
    assert padded("日本語", 5) == "日本 "


def test_a_start_that_was_due_is_now() -> None:
    """Not `1m30s`, which would be read as in a minute and a half."""
    assert ahead(_at(3_700)).startswith("in 1h")
    assert ahead(_at(-90)) == "now"
    assert not ahead(None)


@pytest.mark.parametrize(("wish", "coloured"), [("1", False), ("", True)])
def test_who_wants_no_colours_gets_none(wish: str, *, coloured: bool) -> None:
    """NO_COLOR with anything in it; empty it says nothing."""
    said = _on_a_terminal(120, NO_COLOR=wish)

    assert NAME in said
    assert ("\x1b[32mrunning" in said) == coloured
    assert bool(_ESCAPE.search(said)) == coloured
