"""The demo's cell: a past that was simulated, then a scheduler among others' facts."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from gangline.cli.main import run
from gangline.events import codec
from gangline.events import facts as f
from gangline.events.envelope import Event
from gangline.events.log import Message, Topic
from gangline.events.spec import Spec
from tests.support.page_cell import page_cell

if TYPE_CHECKING:
    from gangline.events.log import Log


def _append(log: Log, body: f.JobSubmitted) -> None:
    """Submit as a service does, straight into the topic."""
    event = Event(envelope=codec.envelope_for(body, id=body.job, actor="user:me"), body=body)
    log.append([Message(topic=Topic.JOBS, key=body.job.encode(), value=codec.encode(event))])


def test_it_goes_on_with_what_others_append(
    postgres_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A submission is decided, and past and present together verify like any other history."""
    with page_cell(postgres_server) as made:
        stop = threading.Event()

        def live() -> None:
            made.cell.live(made.log, now_ms=lambda: time.time_ns() // 1_000_000, stop=stop.is_set)

        thread = threading.Thread(target=live)
        thread.start()
        try:
            _append(made.log, f.JobSubmitted(job="mine", spec=Spec(team="vision", gpus=1)))
            _append(made.log, f.JobSubmitted(job="lost", spec=Spec(team="nobody", gpus=1)))
            deadline = time.monotonic() + 60
            jobs = made.cell.world.state.jobs
            while "mine" not in jobs:
                assert time.monotonic() < deadline, "nobody decided"
                stop.wait(0.05)
        finally:
            stop.set()
            thread.join(30)

        assert "lost" not in jobs
        assert run(["replay", "verify", "--bus", made.url]) == 0
        assert "are as recorded" in capsys.readouterr().out
