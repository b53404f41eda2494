"""`python -m tests.agents.idle_agent BUS CELL FOLDER SECONDS`: what an agent without work costs.

Prints JSON: `imports_kib` (resident after the imports of an agent and of its driver), `idle_kib`
(resident after so many idle seconds), `cpu_s` (CPU time of those seconds, all threads), `seconds`.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import structlog

from gangline.agents.runner import Agent
from gangline.agents.settings import AgentSettings
from gangline.events.bus import open_log

SETTLING_S = 3.0


def resident_kib() -> int:
    """Of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("the kernel says nothing of memory")


def main() -> None:
    """Import, measure, idle, measure."""
    bus, cell, folder, seconds = sys.argv[1:]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    import_module("gangline.events.kafka" if bus.startswith("kafka") else "psycopg_pool")
    imports_kib = resident_kib()
    log = open_log(bus, cell, environ={})
    log.create_topics()
    settings = AgentSettings(node="idle", folder=Path(folder), gpus=8, address="127.0.0.1")
    agent = Agent(settings, log)
    found: dict[str, float] = {"imports_kib": imports_kib, "seconds": float(seconds)}

    def measure() -> None:
        time.sleep(SETTLING_S)
        before_s = time.process_time()
        time.sleep(float(seconds))
        found["cpu_s"] = time.process_time() - before_s
        found["idle_kib"] = resident_kib()
        agent.stop()

    threading.Thread(target=measure).start()
    agent.run()
    log.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
