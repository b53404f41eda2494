"""The core as machine code decides byte for byte what its source decides."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from gangline.scheduler import core
from tests.support.golden import SCENARIOS, folder_of
from tests.support.histories import write_history
from tests.support.sources import ROOT

SITE: Final = ROOT / "build" / "compiled" / "site"
SHOWN: Final = (
    "18-lent-comes-back-whatever-the-class",
    "71-gpu-models",
    "158-two-guarantees-come-to-rest",
    "90-escrow-not-free-and-not-for-others",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def compiled() -> dict[str, str]:
    """Build the wheel and unpack it; the environment in which it is what Python finds."""
    if shutil.which("cc") is None and "CI" not in os.environ:
        pytest.skip("there is no C compiler here")
    built = subprocess.run(
        ["make", "build/compiled/.stamp"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return {**os.environ, "PYTHONPATH": str(SITE)}


def run(compiled: dict[str, str], *words: str) -> str:
    """What Python prints with the compiled core."""
    done = subprocess.run(
        [sys.executable, *words], env=compiled, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_it_is_machine_code(compiled: dict[str, str]) -> None:
    """Else the other tests would show nothing."""
    kind = "from gangline.scheduler import core; print(type(core.step).__name__)"
    assert run(compiled, "-c", kind).strip() == "builtin_function_or_method"
    assert type(core.step).__name__ == "function"


def test_histories_of_the_source_are_verified_by_it(
    compiled: dict[str, str], tmp_path: Path
) -> None:
    """Every batch is computed again and compared, with its digests."""
    for name in SHOWN:
        text = (SCENARIOS / f"{name}.scn").read_text(encoding="utf-8")
        write_history(tmp_path / f"{name}.log", text, genesis=name)
    for log in [*folder_of(core.LOGIC_VERSION).glob("*.log"), *tmp_path.glob("*.log")]:
        assert "verified" in run(
            compiled, "-m", "gangline.cli.main", "replay", "verify", "--log", str(log)
        )


def test_every_scenario_passes_with_it(compiled: dict[str, str]) -> None:
    """All refusals, reasons and certificates of the scenarios come out of machine code too."""
    files = sorted(str(path) for path in SCENARIOS.glob("*.scn"))
    said = run(compiled, "-m", "gangline.cli.main", "scenario", *files)
    assert said.splitlines()[-1] == f"{len(files)} passed, 0 failed"
