"""What `gangline bench end-to-end` needs around it: a bus, topics, and a scheduler process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime
from gangline.events.bus import brokers_of, open_log
from gangline.replay.bench_end_to_end import EndToEndSettings, Gauges, bench_end_to_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STOP_WITHIN_S = 20.0


def run(
    *,
    progress: Callable[[int], None],
    bus: str | None = None,
    agents: int = 1000,
    jobs: int = 200,
    rate: float = 5.0,
    quiet_s: float = 10.0,
) -> dict[str, Any]:
    """Run the bench on a bus, in a cell of its own; without a bus on an embedded one."""
    settings = EndToEndSettings(agents=agents, jobs=jobs, rate=rate, quiet_s=quiet_s)
    cell = f"bench-{uuid.uuid4().hex[:8]}"
    with bus_or_embedded(bus) as url:
        log = open_log(url, cell, environ=os.environ)
        try:
            log.create_topics()
            with _scheduler(url, cell) as pid, _floor(url, cell) as floor_s:
                gauges = Gauges(cpu_s=partial(_cpu_s, pid), floor_s=floor_s)
                numbers = bench_end_to_end(log, settings, progress=progress, gauges=gauges)
        finally:
            log.close()
    return {"bus": url.partition(":")[0], **numbers}


@contextmanager
def bus_or_embedded(given: str | None) -> Iterator[str]:
    """The bus that was named, or a Postgres that lives as long as the bench."""
    if given is not None:
        yield given
        return
    with embedded_postgres() as url:
        yield url


@contextmanager
def embedded_postgres() -> Iterator[str]:
    """A Postgres that lives as long as a bench; its URL."""
    with tempfile.TemporaryDirectory(prefix="gangline-bench-") as folder:
        directory = Path(folder) / "postgres"
        try:
            yield local_postgres.start(directory, lifetime=Lifetime.WITH_STARTER)
        finally:
            local_postgres.remove(directory)


@contextmanager
def _floor(bus: str, cell: str) -> Iterator[Callable[[], float] | None]:
    """A bare round on Kafka; None for other buses, which have no such floor."""
    if urlsplit(bus).scheme != "kafka":
        yield None
        return
    from gangline.events.kafka.bare import BareLoop  # noqa: PLC0415 - only where it is asked for

    loop = BareLoop(brokers_of(bus), cell, environ=os.environ)
    try:
        yield loop.round_s
    finally:
        loop.close()


def _cpu_s(pid: int) -> float:
    """CPU time of a process so far, user and system, from the kernel's own count."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _scheduler(bus: str, cell: str) -> Iterator[int]:
    """A scheduler process of the cell; its id."""
    command = [sys.executable, "-m", "gangline.cli.main", "scheduler", "--name", "bench"]
    process = subprocess.Popen(
        [*command, "--cell", cell],
        env={**os.environ, "GANGLINE_BUS": bus},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
