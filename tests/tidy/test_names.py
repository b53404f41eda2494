"""A test has the same name wherever and whenever it is collected."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.sources import ROOT


def _names(hash_seed: str) -> list[str]:
    """What a process of its own collects, in its order."""
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-2000:] + told.stderr[-2000:]
    return [line for line in told.stdout.splitlines() if "::" in line]


@pytest.mark.timeout(900)  # on a busy machine one collection takes minutes
def test_two_collections_name_the_same_tests_in_the_same_order() -> None:
    """Parallel workers collect each for itself: a clock or a set in a name stops the whole run."""
    first, second = _names("1"), _names("2")

    assert len(first) > 1
    assert first == second
