"""`GET /v1/jobs/{job}/ranks` and `gangline ranks`: the ranks of a gang on all its nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gangline.agents.attempts import folder_name
from gangline.agents.core import Key
from gangline.agents.log_server import LogServer
from tests.api.fakes import World, make_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


TOKEN = "open sesame"
NODES = ("n0", "n1", "gone")


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[list[LogServer]]:
    """Two nodes with a rank each; that of the second is slow."""
    servers = []
    for rank in range(2):
        folder = tmp_path / str(rank) / folder_name(Key("train", 2)) / "job"
        folder.mkdir(parents=True)
        pace = {"step": 40, "step_s": 2.0, "own_s": 1.0 + rank}
        (folder / f"progress.{rank}").write_text(json.dumps(pace))
        servers.append(LogServer(tmp_path / str(rank), address="127.0.0.1", port=0, token=TOKEN))
    yield servers
    for server in servers:
        server.close()


def _fill(world: World, agents: list[LogServer]) -> None:
    """A job on these two, and on a third node that is not there."""
    addresses = [f"127.0.0.1:{server.port}" for server in agents] + [""]
    seats = [{"node": node, "gpus": [0]} for node in NODES]
    world.views.tables = {
        "jobs": [{"job": "train", "team": "a", "state": "running"}],
        "attempts": [{"job": "train", "attempt": 2, "state": "running", "seats": seats}],
        "nodes": [
            {"node": node, "address": address}
            for node, address in zip(NODES, addresses, strict=True)
        ],
    }


def test_the_ranks_of_all_nodes_are_compared(agents: list[LogServer]) -> None:
    """Each with its node; who cannot be asked is named, and holds up nobody."""
    world = make_world(agent_token=TOKEN)
    _fill(world, agents)

    found = world.client.get("/v1/jobs/train/ranks").json()

    assert [(each["rank"], each["node"], bool(each["slow"])) for each in found["ranks"]] == [
        (0, "n0", False),
        (1, "n1", True),
    ]
    assert found["unreachable"] == ["gone"]
    assert (found["attempt"], found["state"]) == (2, "running")


@pytest.mark.parametrize(
    ("path", "status"), [("no-such/ranks", 404), ("train/ranks?attempt=7", 404)]
)
def test_ranks_of_nothing_are_not_found(agents: list[LogServer], path: str, status: int) -> None:
    """A job or an attempt that there never was."""
    world = make_world(agent_token=TOKEN)
    _fill(world, agents)

    assert world.client.get(f"/v1/jobs/{path}").status_code == status
