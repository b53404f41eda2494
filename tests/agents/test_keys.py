"""The keys of a node: what it signs with, and what it opens sealed private parts with."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gangline.agents.node_key import NodeKeyError, kept_key
from gangline.agents.runner import Agent
from gangline.cli.main import run
from gangline.events import codec, signing
from gangline.events.facts import MemberExited
from gangline.events.log import Topic
from gangline.events.reading import from_the_start, read_to_ends
from gangline.events.sealing import KeyStore, binding
from tests.agents import make
from tests.agents.cell import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agents.cell import Cell

TOPICS = [Topic.NODES, Topic.HEARTBEATS]


def test_everything_that_an_agent_says_is_signed_by_its_key(cell: Cell) -> None:
    """Facts and heartbeats, also those of its next life."""
    for _ in range(2):
        with cell.agent(heartbeat_interval_s=0.05):
            cell.assign(make.member())
            wait_for(lambda: "MemberReady" in cell.kinds(), what="a fact")
            wait_for(lambda: _kinds(cell) >= {"NodeHeartbeat", "NodeRegistered"}, what="a beat")

    public = signing.public_bytes(kept_key(cell.folder / "n0"))
    records = list(read_to_ends(cell.log, from_the_start(TOPICS)))
    assert all(
        signing.is_signed_by(public, record, codec.decode(record.value)) for record in records
    )
    assert {codec.decode(each.value).envelope.key_id for each in records} == {public.hex()[:16]}


def _kinds(cell: Cell) -> set[str]:
    records = read_to_ends(cell.log, from_the_start(TOPICS))
    return {codec.decode(record.value).envelope.kind for record in records}


def test_a_node_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    """Two nodes never have the same."""
    first, again = kept_key(tmp_path), kept_key(tmp_path)
    (tmp_path / "other").mkdir()
    other = kept_key(tmp_path / "other")

    assert signing.public_bytes(first) == signing.public_bytes(again)
    assert signing.public_bytes(first) != signing.public_bytes(other)
    assert (tmp_path / "node-key").stat().st_mode & 0o777 == 0o600


def test_a_damaged_node_key_is_said_and_not_replaced(tmp_path: Path) -> None:
    """A new one would be unknown to the operator."""
    (tmp_path / "node-key").write_text("rubbish")

    with pytest.raises(NodeKeyError, match="move it away"):
        kept_key(tmp_path)


def test_a_sealed_job_runs_where_its_key_is(cell: Cell) -> None:
    """Its command and environment are nowhere in the log, and in nothing that the agent states."""
    keys = KeyStore(cell.folder / "keys")
    clear = make.spec('echo "$TOKEN" | wc -c; exit 7', env={"TOKEN": "hunter2"})
    bound_to = binding("job", team="a", count=1)
    private = keys.seal(clear.private.ciphertext, key_id="user:ada", bound_to=bound_to)
    sealed = replace(clear, private=private)
    agent = Agent(cell.settings(), cell.log, unseal=keys.unseal)
    with cell.running(agent):
        run = cell.start(make.member(spec=sealed))
        assert cell.ended().code == 7
        cell.assign(make.member("copy", spec=sealed, gpus=(1,)))
        copied = cell.wait(MemberExited, "copy")

    assert cell.output(run).strip() == "8"
    assert copied.code == 127
    assert "for this job" in copied.detail
    records = read_to_ends(cell.log, from_the_start([*TOPICS, Topic.ASSIGNMENTS]))
    assert not any(b"hunter2" in record.value for record in records)


def test_a_job_whose_key_is_gone_is_turned_away(cell: Cell) -> None:
    """It says whose key is missing, and nothing of what was sealed."""
    keys = KeyStore(cell.folder / "keys")
    sealed = keys.seal(json.dumps({"command": ["true"]}).encode(), key_id="user:ada")
    (cell.folder / "keys").rename(cell.folder / "elsewhere")
    agent = Agent(cell.settings(), cell.log, unseal=keys.unseal)
    with cell.running(agent):
        cell.assign(make.member(spec=replace(make.spec(), private=sealed)))
        ended = cell.wait(MemberExited)

    assert ended.code == 127
    assert "user:ada" in ended.detail


def test_the_public_key_is_printed_where_no_log_is_known_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node is admitted before its agent ever runs; to run, it must know the log."""
    monkeypatch.delenv("GANGLINE_BUS", raising=False)

    assert run(["agent", "--public-key", "--dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.strip()
    assert run(["agent", "--dir", str(tmp_path)]) == 2

    assert printed == signing.public_bytes(kept_key(tmp_path)).hex()
    assert "Missing option '--bus'" in capsys.readouterr().err


def test_an_agent_that_finds_no_gpus_and_is_told_of_none_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node of none would be of no use, and appear nowhere."""
    monkeypatch.setattr("gangline.agents.gpus.present", lambda: False)

    assert run(["agent", "--bus", "kafka://nowhere:9", "--dir", str(tmp_path)]) == 2
    assert "--gpus says how many" in capsys.readouterr().err
