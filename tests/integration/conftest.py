"""Fixtures of the tests on whole stacks."""

from __future__ import annotations

import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.cli import local_postgres
from gangline.cli import stack as stacks
from tests.integration.training import Training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def make_training() -> Iterator[Callable[..., Training]]:
    """Bring up a stack on a bus; taken down and away at the end."""
    folder = Path(tempfile.mkdtemp(prefix="gangline-faults-"))
    folder.chmod(0o711)  # Postgres runs as another account where the tests run as root
    try:
        yield partial(Training, folder)
    finally:
        stacks.down(folder)
        local_postgres.remove(folder / "postgres")
        subprocess.run(["rm", "-rf", str(folder)], check=True)
