"""What `gangline bench end-to-end` needs around it: a bus, topics, and a scheduler process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangline.cli import local_postgres
from gangline.cli.local_process import Lifetime
from gangline.events.bus import open_log
from gangline.replay.bench_end_to_end import EndToEndSettings, bench_end_to_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.cli.progress import Progress

STOP_WITHIN_S = 20.0


def run(*, progress: Progress, bus: str | None = None, agents: int = 1000) -> dict[str, Any]:
    """Run the bench on a bus, in a cell of its own; without a bus on an embedded one."""
    cell = f"bench-{uuid.uuid4().hex[:8]}"
    with _bus(bus) as url:
        log = open_log(url, cell, environ=os.environ)
        try:
            log.create_topics()
            with _scheduler(url, cell):
                settings = EndToEndSettings(agents=agents)
                numbers = bench_end_to_end(log, settings, progress=progress)
        finally:
            log.close()
    return {"bus": url.partition(":")[0], **numbers}


@contextmanager
def _bus(given: str | None) -> Iterator[str]:
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
def _scheduler(bus: str, cell: str) -> Iterator[None]:
    """A scheduler process of the cell."""
    command = [sys.executable, "-m", "gangline.cli.main", "scheduler", "--name", "bench"]
    process = subprocess.Popen(
        [*command, "--cell", cell],
        env={**os.environ, "GANGLINE_BUS": bus},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
