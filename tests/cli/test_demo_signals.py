"""Whatever ends the demo, nothing that it started outlives it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gangline.cli.errors import INTERRUPTED

# The demo with a stack that is hit while it starts, and hit again while it is taken down.
_HIT = """
import signal, sys
from gangline.cli import demo_run
number = signal.Signals[sys.argv.pop(1)]
downs = []
def up(plan, tell): signal.raise_signal(number)
def down(folder):
    downs.append(folder)
    if len(downs) == 2:
        signal.raise_signal(number)
        print("taken down")
demo_run.stacks.up, demo_run.stacks.down = up, down
demo_run.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_demo_that_is_stopped_takes_its_stack_down(tmp_path: Path, name: str) -> None:
    """Ctrl-C, a kill and a closed terminal alike; a second one does not break the cleaning up."""
    done = subprocess.run(
        [sys.executable, "-c", _HIT, name, "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.endswith("taken down\n"), done.stderr
    assert done.returncode == INTERRUPTED


# The demo as an installed wheel holds it.
_WITHOUT_EXAMPLES = """
import pathlib
from gangline.cli import demo_jobs, demo_run
demo_jobs.EXAMPLES = pathlib.Path("/nowhere/examples")
demo_run.main()
"""


def refused(folder: Path, *words: str) -> tuple[int, str]:
    """The code and the one line of a demo that does not begin: nothing was started for it."""
    done = subprocess.run(
        [sys.executable, *words, "--dir", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert not folder.exists()
    return done.returncode, done.stderr


def test_a_demo_without_the_repository_says_what_it_lacks(tmp_path: Path) -> None:
    """Nothing is started that could not go on."""
    code, line = refused(tmp_path / "stack", "-c", _WITHOUT_EXAMPLES)

    assert code == 1
    assert "`gangline demo` needs no clone" in line


def test_a_demo_on_a_bus_that_is_none_does_not_begin(tmp_path: Path) -> None:
    """`make demo BUS=kafak`: one line, and no Postgres is started for it."""
    code, line = refused(tmp_path / "stack", "-m", "gangline.cli.demo_run", "--bus", "kafak")

    assert code == 2
    assert "Invalid value for '--bus': a bus is kafka://host:port" in line
