"""The log is away: members run on, facts wait in order, heartbeats are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gangline.agents.runner import Agent
from gangline.events import codec
from gangline.events.batch import MemberPhase
from gangline.events.facts import NodeRegistered
from gangline.events.log import LogUnreachableError, Topic
from gangline.events.reading import from_the_start, read_to_ends
from gangline.events.spec import Launch
from tests.agents import make
from tests.agents.cell import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.events.log import Log, Message, Position
    from tests.agents.cell import Cell


class FlakyLog:
    """A log that can be away for those who append; what it had done may be unsure."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.away = False
        self.refused = 0
        self.says_no_after_doing = False
        self.breaks = False

    def append(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Refuse while away; perhaps after the messages went in."""
        if self.breaks:
            raise RuntimeError("a bug, for the test")
        if self.says_no_after_doing:
            self._log.append(messages)
        if self.away or self.says_no_after_doing:
            self.refused += 1
            self.says_no_after_doing = False
            raise LogUnreachableError("away, for the test")
        return self._log.append(messages)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def test_facts_wait_in_order_while_the_log_is_away(cell: Cell) -> None:
    """The member starts, ends, and its whole life is told later, in order."""
    log = FlakyLog(cell.log)
    with cell.agent(log=log):
        cell.wait(NodeRegistered)
        log.away = True
        cell.assign(make.member(spec=make.spec("exit 4")))
        wait_for(lambda: log.refused > 1, what="refusals")
        assert cell.kinds() == ["NodeRegistered"]
        cell.assign(
            make.member(phase=MemberPhase.RUN, address="127.0.0.1", spec=make.spec("exit 4"))
        )
        wait_for((cell.folder / "n0/attempts/job.1/result.json").exists, what="its end")

        log.away = False
        ended = cell.ended()

    assert ended.code == 4
    assert cell.kinds() == ["NodeRegistered", "MemberReady", "MemberStarted", "MemberExited"]


def test_facts_survive_an_agent_that_never_saw_the_log(cell: Cell) -> None:
    """They wait on the disk for the next one."""
    log = FlakyLog(cell.log)
    with cell.agent(log=log):
        cell.wait(NodeRegistered)
        log.away = True
        cell.assign(make.member(spec=make.spec("no-such-program")))
        journal = cell.folder / "n0/journal.json"
        wait_for(lambda: '"gone"' in journal.read_text(), what="its end")
    assert "MemberExited" not in cell.kinds()

    with cell.agent():
        ended = cell.ended()
        wait_for(lambda: cell.kinds().count("NodeRegistered") == 2, what="the second agent")

    assert ended.code == 127
    assert cell.kinds() == ["NodeRegistered", "MemberExited", "NodeRegistered"]


def test_an_append_of_unknown_outcome_is_repeated_under_the_same_ids(cell: Cell) -> None:
    """Readers know the second as the first."""
    log = FlakyLog(cell.log)
    with cell.agent(log=log, heartbeat_interval_s=60):
        cell.wait(NodeRegistered)
        log.says_no_after_doing = True
        cell.assign(make.member())
        wait_for(lambda: cell.kinds() and len(cell.ids) == 3, what="the repetition")

    assert cell.ids[1] == cell.ids[2]
    assert len(cell.facts) == 2


def test_heartbeats_of_an_outage_are_never_sent(cell: Cell) -> None:
    """A late heartbeat would say that the node was heard when it was not."""
    log = FlakyLog(cell.log)
    with cell.agent(log=log, heartbeat_interval_s=0.05):
        wait_for(lambda: _beats(cell), what="the first heartbeat")
        log.away = True
        wait_for(lambda: log.refused >= 2, what="refusals")
        before = _beats(cell)
        log.away = False
        wait_for(lambda: len(_beats(cell)) > len(before), what="a heartbeat")

    last, first = before[-1], _beats(cell)[len(before)]
    assert first.sequence >= last.sequence + 3, "those of the outage are missing"


def test_an_at_most_one_writer_ends_itself_in_an_outage(cell: Cell) -> None:
    """Its lease ran out; whoever replaced it is the only one now. Others run on."""
    log = FlakyLog(cell.log)
    alone = make.spec("exec sleep 300", launch=Launch(at_most_one_writer=True))
    with cell.agent(log=log, lease_s=0.5, lease_grace_s=0.1):
        cell.start(make.member(spec=alone))
        log.away = True
        wait_for((cell.folder / "n0/attempts/job.1/result.json").exists, what="its end")
        log.away = False

        assert cell.ended().reason == "infrastructure"


def test_a_hung_program_is_found_and_stopped(cell: Cell) -> None:
    """It lives and does nothing; its output stands still."""
    spec = make.spec("exec sleep 300", launch=Launch(progress_timeout_ms=500))
    with cell.agent():
        cell.start(make.member(spec=spec))
        ended = cell.ended()

    assert ended.reason == "hung"
    assert "no progress" in ended.detail


def test_an_agent_whose_sender_dies_ends_and_says_so(cell: Cell) -> None:
    """It would be deaf and dumb; whoever watches it starts it again."""
    log = FlakyLog(cell.log)
    agent = Agent(cell.settings(), log)
    log.breaks = True

    with pytest.raises(RuntimeError, match="a bug"):
        agent.run()


def _beats(cell: Cell) -> list[Any]:
    records = read_to_ends(cell.log, from_the_start([Topic.HEARTBEATS]))
    return [codec.decode(record.value).body for record in records]
