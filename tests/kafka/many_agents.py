"""Many agents in one process.

    python -m tests.kafka.many_agents BUS CELL FOLDER FIRST COUNT SPREAD_S HEARTBEAT_S

Each is a real one with its own journal, spool, reader of assignments and supervisors; what they
share is the client that writes.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.agents.runner import Agent, wait_for_turn
from gangline.agents.settings import AgentSettings
from gangline.events.bus import open_log

if TYPE_CHECKING:
    from gangline.events.log import Log

STACK_BYTES = 512 * 1024


def settings_of(folder: Path, number: int, *, spread_s: float, heartbeat_s: float) -> AgentSettings:
    """Of the agent with this number; two of them make a block."""
    node = f"n{number:04d}"
    return AgentSettings(
        node=node,
        folder=folder / node,
        gpus=8,
        levels=("block",),
        path=(f"b{number // 2}",),
        address="127.0.0.1",
        log_port=None,
        min_free_bytes=0,
        checkpoints=folder / "checkpoints",
        start_spread_s=spread_s,
        heartbeat_interval_s=heartbeat_s,
    )


def run(log: Log, settings: AgentSettings) -> None:
    """One agent, from its turn on until the process is killed."""
    wait_for_turn(settings)
    Agent(settings, log).run()


def main() -> None:
    """All of them; ends with the pipe that its starter holds."""
    bus, cell, folder, first, count, spread, heartbeat = sys.argv[1:]
    log = open_log(bus, cell, environ=os.environ)
    threading.stack_size(STACK_BYTES)
    for number in range(int(first), int(first) + int(count)):
        settings = settings_of(
            Path(folder), number, spread_s=float(spread), heartbeat_s=float(heartbeat)
        )
        name = f"agent-{settings.node}"
        threading.Thread(target=run, args=(log, settings), name=name, daemon=True).start()
    sys.stdin.read()
    os._exit(0)  # as a power cut: a thousand agents that say farewell would take their time


if __name__ == "__main__":
    main()
