"""The examples run by themselves, outside Gangline, as their first lines say."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.agents.cell import wait_for

ROOT = Path(__file__).parents[2]
TRAIN = [sys.executable, str(ROOT / "examples/train_counter.py"), "--step-s", "0.01"]


def _run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TRAIN, *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_the_counter_counts_to_its_end(tmp_path: Path) -> None:
    """One rank, no scheduler."""
    done = _run("--steps", "5", cwd=tmp_path)

    assert done.returncode == 0
    assert "5 steps" in done.stdout


def test_a_counter_that_was_stopped_ends_like_one_that_was_not(tmp_path: Path) -> None:
    """It saves on SIGTERM, says by its code that work is left, and goes on from there."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    model = re.search(r"model \d+", _run("--steps", "60", cwd=whole).stdout)
    log = parts / "steps"
    stopped = subprocess.Popen([*TRAIN, "--steps", "60", "--step-log", str(log)], cwd=parts)
    wait_for(lambda: log.exists() and len(log.read_text().splitlines()) > 3, what="some steps")
    stopped.send_signal(signal.SIGTERM)

    assert stopped.wait(timeout=10) == 75
    rest = _run("--steps", "60", "--step-log", str(log), cwd=parts)

    assert model is not None
    assert model.group() in rest.stdout
    assert [line.split()[2] for line in log.read_text().splitlines()] == [
        str(step) for step in range(1, 61)
    ]


def test_a_counter_fails_where_it_is_asked_to(tmp_path: Path) -> None:
    """For demos of retries."""
    assert _run("--steps", "9", "--fail-at", "2", "--fail-code", "7", cwd=tmp_path).returncode == 7


def test_the_page_for_programs_shows_a_program_that_works(tmp_path: Path) -> None:
    """The snippet of docs/agents.md, with something to train and to save."""
    page = (ROOT / "docs/agents.md").read_text()
    snippet = page.split("```python\n")[1].split("```")[0]
    program = (
        "steps = 3\n"
        "def train(step): print('trained', step)\n"
        "def save_into(folder): (folder / 'x').write_text('x')\n"
        f"{snippet}"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["trained 0", "trained 1", "trained 2"]
