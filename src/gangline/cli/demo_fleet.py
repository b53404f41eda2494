"""`gangline demo`: a simulated busy fleet on the embedded log, with the page; until stopped.

Log and views are a Postgres of its own in a folder that goes at the end; projector and API are the
processes that every cell has. The cell itself (`replay/demo_cell.py`) lives in this process: a week
of history first, then on with the clock, with what the page and the command line ask for.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gangline.cli import local_postgres, processes
from gangline.cli.local_process import (
    Lifetime,
    dismiss_guard,
    free_port,
    guard,
    port_is_free,
)
from gangline.cli.output import say
from gangline.client import Client, GanglineError

if TYPE_CHECKING:
    from gangline.cli.processes import Process
    from gangline.events.log import Log

DEFAULT_PORT: Final = 8642
_WITHIN_S: Final = 120.0


class DemoError(Exception):
    """The demo's fleet cannot be shown; the message is one line saying why."""


@click.command("demo")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Of the page. [default: 8642, or any]",
)
@click.option(
    "--nodes", type=click.IntRange(min=100, max=4000), default=1000, show_default=True,
    help="How many nodes of 8 GPUs the fleet has.",
)  # fmt: skip
def command_demo(*, port: int, nodes: int) -> None:
    """Show a simulated busy fleet of 1,000 nodes, with the page; runs until stopped.

    A week of its past is made first, so that every page has something to say; then it goes on with
    the clock, and does what the page and `gangline` ask of it (GANGLINE_URL names it).
    """
    if port and not port_is_free(port):
        raise DemoError(f"port {port} is taken; name another one with --port")
    chosen = port or (DEFAULT_PORT if port_is_free(DEFAULT_PORT) else free_port())
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="gangline-demo-") as folder:
        _show(Path(folder), port=chosen, nodes=nodes, stop=stop)


def _show(folder: Path, *, port: int, nodes: int, stop: threading.Event) -> None:
    """Everything between the first line and the last."""
    from gangline.events.postgres_log import PostgresLog  # noqa: PLC0415 - slow to import

    began = time.monotonic()
    say(f"making a week of a fleet of {nodes:,} nodes …")
    database = local_postgres.start(folder / "postgres", lifetime=Lifetime.WITH_STARTER)
    running: list[Process] = []
    try:
        log = PostgresLog(database, "main")
        log.create_topics()
        running = _start(folder, database, port)
        _play(log, database, url=f"http://127.0.0.1:{port}", nodes=nodes, stop=stop, began=began)
        log.close()
    finally:
        processes.stop_all(running)
        for process in running:
            dismiss_guard(process.pid)
        local_postgres.stop(folder / "postgres")


def _start(folder: Path, database: str, port: int) -> list[Process]:
    """The projector and the API."""
    env = {"GANGLINE_BUS": database, "GANGLINE_DATABASE_URL": database, "GANGLINE_CELL": "main"}
    commands = {"projector": ["projector"], "api": ["api", "--port", str(port)]}
    running = [
        processes.start(name, words, log=folder / f"{name}.log", env=env)
        for name, words in commands.items()
    ]
    for process in running:
        guard(process.pid, with_signal=signal.SIGTERM)  # should this one be killed
    return running


def _play(
    log: Log, database: str, *, url: str, nodes: int, stop: threading.Event, began: float
) -> None:
    from gangline.events.postgres_log.loading import Loader  # noqa: PLC0415 - slow to import
    from gangline.replay.demo_cell import DemoCell  # noqa: PLC0415
    from gangline.replay.demo_story import Size  # noqa: PLC0415

    loader = Loader(database, "main")
    try:
        cell = DemoCell(loader.load, now_ms=_now_ms(), size=Size(nodes=nodes))
        cell.make_history(_now_ms)
        told = threading.Thread(target=_tell, args=(log, url, stop, began), daemon=True)
        told.start()
        cell.live(log, now_ms=_now_ms, stop=stop.is_set)
    finally:
        loader.close()


def _tell(log: Log, url: str, stop: threading.Event, began: float) -> None:
    """Say where the page is as soon as it shows the present."""
    end = _end_of(log)
    deadline = time.monotonic() + _WITHIN_S
    with Client(url, patience_s=0, timeout_s=15) as client:
        while not stop.is_set() and time.monotonic() < deadline:
            try:
                client.request("GET", "/v1/summary", params={"min_position": end})
                break
            except GanglineError:
                time.sleep(0.1)
    if not stop.is_set():
        say(f"ready after {time.monotonic() - began:.1f} s; stop it with Ctrl-C")
        click.echo(f"The page is at {click.style(url, underline=True)}")


def _end_of(log: Log) -> str:
    """The position of the last decisions."""
    from gangline.events.log import Topic  # noqa: PLC0415

    ends = log.ends([Topic.DECISIONS])
    return f"{Topic.DECISIONS}-0-{max(ends.values()) - 1}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
