"""The wheel holds what the source tree holds."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

from tests.support.sources import PACKAGE, ROOT, tracked

if TYPE_CHECKING:
    from pathlib import Path


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    """Schemas, SQL, pages and scenarios are found where the package is installed, too."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in tracked()
        if path.is_relative_to(PACKAGE)
    }
    assert not wanted - held
    assert any(name.endswith("licenses/LICENSE") for name in held)
