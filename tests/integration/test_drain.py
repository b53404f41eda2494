"""A drain with a deadline, with real processes: what runs there saves and moves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from gangline.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.training import Training

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_drain_moves_a_training_job_at_its_deadline_and_loses_no_step(
    make_training: Callable[..., Training],
) -> None:
    """Until the deadline it runs on; then it saves, goes on elsewhere, and the node is free.

    By the program's own log the first step of the new attempt follows the last one of the old. No
    retry and no preemption is counted for it.
    """
    training = make_training("embedded", agents=3)
    training.submit(grace="30s")
    training.advance(12)
    node = training.nodes()[-1]

    with Client(training.stack.url) as client:
        client.request("POST", f"/v1/nodes/{node}/drain", body={"deadline": "10s"})
    training.advance(12)
    assert training.attempts() == [1], "it was stopped before the deadline"
    training.advance(12, attempt=2)

    assert node not in training.nodes()
    _wait_until_free(training, node)
    steps = training.finish()
    training.judge(most_lost=0)
    with Client(training.stack.url) as client:
        assert client.job("train")["preemptions"] == 0
    print(f"{steps} steps, moved from {node}")


def _wait_until_free(training: Training, node: str) -> None:
    """Nobody holds a GPU of it, no process is left there, and nothing new comes."""
    deadline = time.monotonic() + 60
    while (row := _row(training, node))["held"] or training.processes(GANGLINE_ATTEMPT=1):
        assert time.monotonic() < deadline, row
        time.sleep(0.1)
    assert row["service"] == "draining"


def _row(training: Training, node: str) -> Any:
    with Client(training.stack.url) as client:
        return next(row for row in client.pages("/v1/nodes") if row["node"] == node)
