"""A Postgres that is not there when something starts: which, why, and how to have one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gangline.cli.local_process import free_port
from gangline.client import STATE_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shell

GANGLINE = (sys.executable, "-m", "gangline.cli.main")


def _nowhere() -> str:
    return f"postgresql://nobody@127.0.0.1:{free_port()}/gangline"


@pytest.mark.parametrize(
    "words",
    [
        ("init",),
        ("scheduler",),
        ("projector",),
        ("replay", "verify"),
        ("replay", "at", "10m"),
        ("views", "rebuild"),
    ],
)
def test_whoever_needs_it_says_so_in_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    """Code 7; where it was looked for, why it does not answer, and what brings one."""
    url = _nowhere()
    done = subprocess.run(
        [*GANGLINE, *words, "--bus", url],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("GANGLINE_")},
    )

    assert (done.returncode, done.stdout) == (7, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("gangline: Postgres ")
    assert "is not reachable" in done.stderr
    assert "refused" in done.stderr
    assert "`gangline up` without GANGLINE_DATABASE_URL brings one of its own" in done.stderr


def test_an_api_that_waits_for_it_says_so(tmp_path: Path) -> None:
    """It answers meanwhile, with 503 for what needs the database; nobody has to ask it first."""
    url = _nowhere()
    with subprocess.Popen(
        [*GANGLINE, "api", "--bus", url, "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as api:
        assert api.stderr is not None
        words = (line for line in api.stderr if not line.startswith("{"))
        said = [next(words) for _ in range(3)]
        api.send_signal(signal.SIGTERM)
        rest = api.stderr.read()

    assert said[0].startswith("the page is at http://127.0.0.1:")
    assert said[1].startswith("not ready: Postgres at 127.0.0.1:")
    assert "brings one of its own" in said[1]
    assert said[2].startswith("not ready: the views' Postgres at 127.0.0.1:")
    assert "Traceback" not in rest


def test_a_stack_that_was_taken_down_is_said_to_be_startable(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The morning after `gangline down`; an address that somebody gave is not ours to start."""
    away = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr("gangline.cli.connection.PATIENCE_S", 0.0)
    monkeypatch.setenv("GANGLINE_DIR", str(tmp_path))
    monkeypatch.setenv("GANGLINE_URL", away)
    elsewhere = shell("queue")
    monkeypatch.delenv("GANGLINE_URL")
    (tmp_path / STATE_FILE).write_text(f'{{"url": "{away}"}}')
    here = shell("queue")

    assert (elsewhere.code, here.code) == (7, 7)
    assert "gangline up" not in elsewhere.err
    assert here.err.startswith(f"gangline: no API answers at {away}: ")
    assert here.err.endswith("; `gangline up` starts it\n")
