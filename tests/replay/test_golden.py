"""What any logic version ever decided comes out of the present program byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gangline.replay.check.checker import check
from gangline.replay.history import FileSource
from gangline.replay.verify import verify
from gangline.scheduler import core
from tests.support.golden import FOLDER, folder_of

if TYPE_CHECKING:
    from pathlib import Path

LOGS = sorted(FOLDER.glob("logic-*/*.log"))


def test_each_version_has_its_logs() -> None:
    """From the first to the present one, each log with its digest."""
    for version in range(1, core.LOGIC_VERSION + 1):
        folder = folder_of(version)
        digests = json.loads((folder / "digests.json").read_text())
        assert sorted(digests) == sorted(path.stem for path in folder.glob("*.log"))
        assert digests


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_log_verifies(path: Path) -> None:
    """A core that decides otherwise needs a new LOGIC_VERSION that old logs do not get.

    (Before the version's first release: `python -m tests.support.golden` writes them anew.)
    """
    digests = json.loads((path.parent / "digests.json").read_text())
    report = verify(FileSource(path), core)

    assert report.difference is None, str(report.difference)
    assert report.digest == digests[path.stem]
    assert report.unconsumed_facts == 0


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_log_was_right(path: Path) -> None:
    """By the checker that does not know the core."""
    assert check(FileSource(path)).findings == []
