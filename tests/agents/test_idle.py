"""An agent without work costs next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MOST_KIB = 15 * 1024


def cost(bus: str, folder: Path) -> dict[str, float]:
    """What a process of its own measures of itself, in a few seconds."""
    command = [sys.executable, "-m", "tests.agents.idle_agent", bus, "idle", str(folder), "5"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(found)
    return found


def test_an_idle_agent_needs_little_memory(tmp_path: Path, postgres_url: str) -> None:
    """At most 15 MiB above what importing it needs."""
    found = cost(postgres_url, tmp_path)

    assert found["idle_kib"] - found["imports_kib"] <= MOST_KIB


@pytest.mark.kafka
def test_an_idle_agent_needs_little_memory_on_kafka(tmp_path: Path, kafka_bootstrap: str) -> None:
    """The same with librdkafka's threads and buffers."""
    found = cost(f"kafka://{kafka_bootstrap}", tmp_path)

    assert found["idle_kib"] - found["imports_kib"] <= MOST_KIB
