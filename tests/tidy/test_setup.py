"""`make setup` gets through wherever pip does."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pathlib import Path

NEEDED = ("Makefile", "pyproject.toml", "requirements.lock", "requirements-bootstrap.lock")
# Both write down what they were asked for; uv has no way to the index where `away` lies.
PYTHON = """#!/bin/sh
echo "pip $*" >> asked
"""
UV = """#!/bin/sh
echo "uv $*" >> asked
test "$2" != sync || ! test -e away || { echo "invalid peer certificate" >&2; exit 2; }
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What `make setup` reads, with a Python and a uv in .venv that only write down."""
    for name in NEEDED:
        shutil.copy(ROOT / name, tmp_path)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, text in (("python", PYTHON), ("uv", UV)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return tmp_path


def _setup(clone: Path) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = subprocess.run(
        ["make", "setup"], cwd=clone, env=inherited, capture_output=True, text=True, check=False
    )
    return done, (clone / "asked").read_text().splitlines()


def test_uv_installs_everything_with_its_hashes(clone: Path) -> None:
    """First pip brings uv, then uv the rest; the second time there is nothing to do."""
    done, asked = _setup(clone)
    again, still = _setup(clone)

    assert (done.returncode, again.returncode) == (0, 0), done.stderr
    assert [line.split()[0] for line in asked] == ["pip", "uv", "uv"]
    assert all("--require-hashes" in line for line in asked[:2])
    assert still == asked


def test_where_uv_does_not_get_through_pip_does_it(clone: Path) -> None:
    """A mirror and a certificate of the company stand in pip.conf, which uv does not read."""
    (clone / "away").touch()
    done, asked = _setup(clone)

    assert done.returncode == 0, done.stderr
    assert "make: uv, which reads no pip.conf, could not: pip does it, slowly" in done.stderr
    instead = asked[2].split()
    assert instead[:4] == ["pip", "-m", "pip", "install"]
    assert "--require-hashes" in instead
    assert instead[-4:] == ["-r", "requirements-bootstrap.lock", "-r", "requirements.lock"]
