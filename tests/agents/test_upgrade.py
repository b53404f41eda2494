"""Agents are replaced by other versions while jobs run: what one wrote, the other reads.

Where GANGLINE_OLDER_SOURCE names the `src` folder of another version, its agent takes turns with
ours over one running job.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.agents import procfs
from gangline.agents.core import Key, Stage
from gangline.agents.journal import Journal
from gangline.events.facts import MemberReady, MemberStarted
from tests.agents import make
from tests.agents.node import Node
from tests.agents.test_kill import Station, station

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["station"]

OLDER = os.environ.get("GANGLINE_OLDER_SOURCE", "")
ROOT = Path(__file__).parents[2]
FIRST_JOURNAL = ROOT / "tests/golden/agent-journal-v1.json"


def test_the_journal_of_the_first_version_is_read(tmp_path: Path) -> None:
    """As an agent of commit 6fa3a99 wrote it, with one member that runs and one that is gone."""
    (tmp_path / "journal.json").write_bytes(FIRST_JOURNAL.read_bytes())

    state = Journal(tmp_path / "journal.json").load("n0")

    assert state is not None
    stages = {key: member.stage for key, member in state.members.items()}
    assert stages == {Key("done", 2): Stage.GONE, Key("job", 1): Stage.RUNNING}
    done, running = state.members[Key("done", 2)], state.members[Key("job", 1)]
    assert done.exit is not None
    assert (done.exit.code, done.exit.reason) == (3, "exited")
    assert (running.order.gpus, running.started_ms) == ((0, 1), 1_000_000)
    assert (state.genesis, state.term, state.seq) == ("cell-1", 1, 5)
    assert state.faults == {(3, "ecc"): 1}


def _newer(plain: dict[str, Any]) -> None:
    """What a later version may have added."""
    plain["temperature"] = 20
    for member in plain["members"]:
        member["mood"] = "fine"
        if member["exit"]:
            member["exit"]["weather"] = "rain"


def _older(plain: dict[str, Any]) -> None:
    """What an earlier version may have lacked."""
    del plain["incarnation"]
    for member in plain["members"]:
        del member["saving_step"], member["detail"]
        if member["exit"]:
            del member["exit"]["detail"]


@pytest.mark.parametrize("other", [_newer, _older])
def test_fields_that_another_version_has_or_lacks_change_nothing_else(
    tmp_path: Path, other: Callable[[dict[str, Any]], None]
) -> None:
    """Upgraded, and taken back: the members are the same."""
    plain = json.loads(FIRST_JOURNAL.read_text())
    other(plain)
    (tmp_path / "journal.json").write_text(json.dumps(plain))

    state = Journal(tmp_path / "journal.json").load("n0")

    assert state is not None
    assert [member.stage for member in state.members.values()] == [Stage.GONE, Stage.RUNNING]


@pytest.mark.skipif(not OLDER, reason="GANGLINE_OLDER_SOURCE names no other version's src")
def test_versions_take_turns_over_a_running_job(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours adopts what the older one started, that one adopts it again, and ours states its end."""
    station.down()
    monkeypatch.setenv("PYTHONPATH", f"{OLDER}{os.pathsep}{ROOT}")
    station.up()
    flag = station.folder / "go-on"
    station.start(
        make.member(spec=make.spec(f"while ! test -e {flag}; do sleep 0.05; done; exit 5"))
    )
    token = station.token("job")
    before = procfs.with_token(token)
    for source in (ROOT / "src", OLDER, ROOT / "src"):
        station.down()
        lives = station.kinds().count("NodeRegistered")
        monkeypatch.setenv("PYTHONPATH", f"{source}{os.pathsep}{ROOT}")
        station.up()
        registered = station.registered(lives + 1)
        assert [member.job for member in registered.running] == ["job"]
        assert set(before) & set(procfs.with_token(token))

    flag.touch()

    assert station.ended().code == 5
    stated = station.kinds()
    assert stated.count(MemberReady.__name__) == stated.count(MemberStarted.__name__) == 1


def test_an_agent_keeps_its_journal_as_the_first_version_could_read_it(tmp_path: Path) -> None:
    """No field of that version is gone, so that an upgrade can be taken back."""
    node = Node()
    node.running(gpus=(0, 1))
    Journal(tmp_path / "journal.json").keep(node.state)

    ours = json.loads((tmp_path / "journal.json").read_text())
    first = json.loads(FIRST_JOURNAL.read_text())

    assert ours.keys() >= first.keys()
    assert ours["members"][0].keys() >= first["members"][0].keys()
