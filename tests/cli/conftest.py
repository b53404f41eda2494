"""A command line and an API for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from gangline.cli.main import run
from tests.api.fakes import World
from tests.support.api import listening_api

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Done:
    """What became of a command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    """Runs commands against one API."""

    capture: pytest.CaptureFixture[str]
    world: World

    def __call__(self, *words: str) -> Done:
        """Run `gangline WORDS…` in this process."""
        code = run(list(words))
        captured = self.capture.readouterr()
        return Done(code, captured.out, captured.err)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell whose GANGLINE_URL is an API with a log in memory and views that tests fill."""
    with listening_api() as (url, world):
        monkeypatch.setenv("GANGLINE_URL", url)
        monkeypatch.delenv("GANGLINE_API_TOKEN", raising=False)
        yield Shell(capsys, world)
