"""Every scenario of this folder is a row: a story told to the real core, with its right end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gangline.replay.scenario import run_files

SCENARIOS = sorted(Path(__file__).parent.glob("*.scn"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """All that it expects is so, the rules hold throughout, and the run replays."""
    out = io.StringIO()

    code = run_files([path], out)

    assert (code, out.getvalue()) == (0, f"{path}: ok\n1 passed, 0 failed\n")
