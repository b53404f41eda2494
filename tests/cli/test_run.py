"""`gangline run`: what it asks for, and what an interruption does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gangline.cli import following
from gangline.events.facts import JobCancelRequested
from gangline.events.log import Topic

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

WAITING = {
    "job": "look", "team": "a", "state": "queued", "gpus": 1, "attempts": 0,
    "reason": "capacity", "reason_text": "needs 1 GPU, none is free", "submission": "jobs-0-0",
}  # fmt: skip


LABEL = {"labels": {"node": "n3"}}


@pytest.fixture(autouse=True)
def _interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes where it would wait."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following.Follower, "_show", interrupt)
    monkeypatch.setattr("gangline.client.new_key", lambda _: "look")


def test_an_interrupted_run_cancels_its_job_and_said_why_it_waited(shell: Shell) -> None:
    """Nobody looks any more; the GPUs are for others."""
    shell.world.views.tables |= {"jobs": [WAITING], "nodes": [{"node": "n3", **LABEL}]}

    done = shell("run", "--team", "a", "--node", "n3")

    submitted, cancelled = shell.world.facts(Topic.JOBS)
    assert done.code == 130
    assert "look waits: it needs 1 GPU, none is free" in done.err
    assert submitted.body.spec.selector == {"node": "n3"}
    assert json.loads(submitted.body.spec.private.ciphertext)["command"] == ["nvidia-smi"]
    assert isinstance(cancelled.body, JobCancelRequested)


def test_a_look_at_a_node_that_is_none_is_refused_with_the_nearest_name(shell: Shell) -> None:
    """Nothing is submitted."""
    shell.world.views.tables["nodes"] = [{"node": "n3", **LABEL}]

    done = shell("run", "--team", "a", "--node", "n33")

    assert (done.code, shell.world.facts(Topic.JOBS)) == (2, [])
    assert "no node has the label node=n33; did you mean n3?" in done.err
