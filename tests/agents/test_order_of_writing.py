"""An agent may die between any two writes; nothing that it has to say is lost by that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gangline.agents import core
from gangline.agents.journal import Journal
from gangline.agents.runner import Agent
from gangline.agents.spool import Spool
from gangline.events import codec
from gangline.events.facts import FaultDetected
from gangline.events.memory import MemoryLog
from tests.agents.cell import Cell

if TYPE_CHECKING:
    from pathlib import Path


class DiedError(BaseException):
    """The agent died here."""


def test_a_fact_is_in_the_spool_before_the_journal_takes_it_for_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that the journal knows is never stated again, so it must not be lost in between."""

    def die(*_args: Any) -> None:
        raise DiedError

    settings = Cell(tmp_path).settings("n1")
    agent = Agent(settings, MemoryLog())
    monkeypatch.setattr(Journal, "keep", die)

    with pytest.raises(DiedError):
        agent._take(core.Diagnosed((core.Fault(0, "xid"),)))

    kept = [codec.decode(value).body for value in Spool(settings.folder / "spool").take(10)]
    assert [type(fact) for fact in kept] == [FaultDetected]
