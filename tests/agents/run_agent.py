"""`python -m tests.agents.run_agent BUS CELL NODE FOLDER`: an agent that a test can kill."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gangline.agents.runner import run_agent
from gangline.agents.settings import AgentSettings


def main() -> None:
    """Run until killed."""
    bus, cell, node, folder = sys.argv[1:]
    run_agent(
        AgentSettings(
            node=node,
            folder=Path(folder) / node,
            bus=bus,
            cell=cell,
            gpus=8,
            address="127.0.0.1",
            heartbeat_interval_s=0.5,
            watch_interval_s=0.1,
            log_address="127.0.0.1",
            min_free_bytes=0,
            checkpoints=Path(folder) / "checkpoints",
            lease_s=float(os.environ.get("GANGLINE_TEST_LEASE_S", "60")),
            lease_grace_s=1.0,
        )
    )


if __name__ == "__main__":
    main()
