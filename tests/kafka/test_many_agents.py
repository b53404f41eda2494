"""A fleet of real agents in a few processes comes up at once against a real broker.

GANGLINE_AGENTS says how many (default 60; docs/agents.md has a thousand), GANGLINE_SPREAD_S over
how many seconds, GANGLINE_HEARTBEAT_S how often they beat. What is asserted is a shape: no moment
has much more than its share.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from gangline.cli.policy_fact import prepare_log
from gangline.events import codec, facts
from gangline.events.log import Message, Topic
from gangline.events.reading import from_the_start
from tests.agents import make

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gangline.events.kafka import KafkaLog

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

AGENTS: Final = int(os.environ.get("GANGLINE_AGENTS", "60"))
SPREAD_S: Final = float(os.environ.get("GANGLINE_SPREAD_S", "5"))
PROCESSES: Final = 1 + AGENTS // 250
PARTS: Final = 5
PATIENCE_S: Final = 300.0
HEARTBEAT_S: Final = float(os.environ.get("GANGLINE_HEARTBEAT_S", "3"))
MOST_SHARE: Final = 3.0
"""Times its fair share that a part of the time may have: chance, and a busy machine."""


def test_a_fleet_comes_up_spread_and_runs_a_gang(
    kafka_bootstrap: str, cell: str, log: KafkaLog, tmp_path: Path
) -> None:
    """All register once, spread over the time that was given; all beat, spread over the interval.

    A scheduler then places a gang on a tenth of them, and it runs to its end.
    """
    bus = f"kafka://{kafka_bootstrap}"
    prepare_log(bus, cell, values={"auto_admit": 1}, actor="operator:ops")
    with ExitStack() as stack:
        stack.enter_context(_scheduler(bus, cell))
        began = time.monotonic()
        for process in range(PROCESSES):
            stack.enter_context(_agents(bus, cell, tmp_path, process))
        registered = _first_of_each(log, Topic.NODES, facts.NodeRegistered)
        took_s = time.monotonic() - began
        beats = _first_of_each(log, Topic.HEARTBEATS, facts.NodeHeartbeat)
        _run_a_gang(log, gpus=8 * max(2, AGENTS // 10))

    ups = _share([*registered.values()])
    first_beats = _share([*beats.values()])
    print(f"{AGENTS} agents in {PROCESSES} processes: up in {took_s:.1f} s; "
          f"the fullest fifth of the start had {ups:.2f} times its share, "
          f"of the first heartbeats {first_beats:.2f} times")  # fmt: skip
    assert ups < MOST_SHARE
    assert first_beats < MOST_SHARE


def _share(times: Sequence[int]) -> float:
    """How much more than its share the fullest part of the time has, the ends included."""
    first, size = min(times), max(1, max(times) - min(times) + 1)
    parts = Counter((at - first) * PARTS // size for at in times)
    return max(parts.values()) * PARTS / len(times)


def _first_of_each(
    log: KafkaLog, topic: Topic, kind: type[facts.NodeRegistered | facts.NodeHeartbeat]
) -> dict[str, int]:
    """When the log took each node's first fact of a kind."""
    deadline = time.monotonic() + PATIENCE_S
    found: dict[str, int] = {}
    reader = log.reader(from_the_start([topic]))
    while len(found) < AGENTS:
        assert time.monotonic() < deadline, f"{len(found)} of {AGENTS} said {kind.__name__}"
        for record in reader.poll(0.5):
            body = codec.decode(record.value).body
            if isinstance(body, kind):
                found.setdefault(body.node, record.appended_ms)
    reader.close()
    return found


def _run_a_gang(log: KafkaLog, *, gpus: int) -> None:
    """Submit it, and wait for its end."""
    _say(log, Topic.CONTROL, facts.TeamSet(team="a", guaranteed=gpus))
    _say(log, Topic.JOBS, facts.JobSubmitted(job="gang", spec=make.spec(("true",), gpus=gpus)))
    deadline = time.monotonic() + PATIENCE_S
    exits: list[int] = []
    reader = log.reader(from_the_start([Topic.NODES]))
    while len(exits) < gpus // 8:
        assert time.monotonic() < deadline, f"the gang is not done: {exits}"
        bodies = [codec.decode(record.value).body for record in reader.poll(0.5)]
        exits += [body.code for body in bodies if isinstance(body, facts.MemberExited)]
    reader.close()
    assert set(exits) == {0}


def _say(log: KafkaLog, topic: Topic, body: Any) -> None:
    value = codec.stated(body, id=f"id-{type(body).__name__}", actor="operator:ops")
    log.append([Message(topic=topic, key=b"one", value=value)])


@contextmanager
def _scheduler(bus: str, cell: str) -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "gangline.cli.main",
        "scheduler",
        "--name",
        "s",
        "--cell",
        cell,
    ]
    process = subprocess.Popen(
        command, env={**os.environ, "GANGLINE_BUS": bus}, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _agents(bus: str, cell: str, folder: Path, process: int) -> Iterator[None]:
    """A process with its part of the agents."""
    each = -(-AGENTS // PROCESSES)
    count = min(each, AGENTS - process * each)
    words = [
        bus,
        cell,
        str(folder),
        str(process * each),
        str(count),
        str(SPREAD_S),
        str(HEARTBEAT_S),
    ]
    with (folder / f"agents-{process}.log").open("wb") as output:
        running = subprocess.Popen(
            [sys.executable, "-m", "tests.kafka.many_agents", *words],
            stdin=subprocess.PIPE, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield
    finally:
        running.kill()
        running.communicate()
