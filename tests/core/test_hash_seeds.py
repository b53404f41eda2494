"""No order depends on a process: the same inputs give the same bytes in every one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.life import Life
from tests.core.replayed import decided, written

ROOT = Path(__file__).parents[2]
STEPS = 150


def _told(path: Path, *, hash_seed: int) -> list[str]:
    """What a process of its own makes of recorded inputs; a line a step."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.replayed", str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("seed", [3, 11])
def test_recorded_inputs_give_the_same_bytes_in_every_process(seed: int, tmp_path: Path) -> None:
    """Decisions and digests after every step, whatever the seed of the hashes."""
    inputs = Life(seed).run(STEPS).inputs
    path = tmp_path / "inputs"
    path.write_text(written(inputs), encoding="utf-8")

    once, again = (_told(path, hash_seed=hash_seed) for hash_seed in (1, 4_242))

    assert len(once) == len(inputs) > STEPS
    assert once == again == decided(inputs)
