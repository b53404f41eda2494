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
from concurrent.futures import ThreadPoolExecutor
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
from gangline.cli.output import say, styled
from gangline.client import Client, GanglineError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from gangline.cli.processes import Process
    from gangline.events.log import Log, Record
    from gangline.events.postgres_log.loading import Loader

DEFAULT_PORT: Final = 8642
CELL: Final = "main"
# The folder goes at the end: nothing has to outlive a crash of the machine.
_FORGETFUL: Final = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
_WITHIN_S: Final = 300.0


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
    began = time.monotonic()
    say(f"making a week of a fleet of {nodes:,} nodes …")
    servers = _Servers(folder, port)
    try:
        # The servers come up beside the making of the week: most of it needs neither.
        with ThreadPoolExecutor(1) as beside:
            database = beside.submit(servers.start)
            _play(database, servers, nodes=nodes, stop=stop, began=began)
    finally:
        servers.stop()


class _Servers:
    """The log's server, the projector and the API, in a folder of their own."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        self._history_until_ms = _now_ms()
        self._running: list[Process] = []

    def start(self) -> str:
        """Start them all; the database's URL."""
        from gangline.events.postgres_log import PostgresLog  # noqa: PLC0415 - slow to import

        database = local_postgres.start(
            self._folder / "postgres", settings=_FORGETFUL, lifetime=Lifetime.WITH_STARTER
        )
        log = PostgresLog(database, CELL)
        log.create_topics()
        log.close()
        env = {
            "GANGLINE_BUS": database,
            "GANGLINE_DATABASE_URL": database,
            "GANGLINE_CELL": CELL,
            "GANGLINE_HISTORY_UNTIL_MS": str(self._history_until_ms),
        }
        commands = {"projector": ["projector"], "api": ["api", "--port", str(self._port)]}
        for name, words in commands.items():
            process = processes.start(name, words, log=self._log_of(name), env=env)
            self._running.append(process)
            guard(process.pid, with_signal=signal.SIGTERM)  # should this one be killed
        return database

    def complaint(self) -> str:
        """The last words of one that has ended; empty while all run."""
        dead = next((process for process in self._running if not process.alive), None)
        if dead is None:
            return ""
        return f"the {dead.name} has ended: {processes.last_words(self._log_of(dead.name))}"

    def _log_of(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def stop(self) -> None:
        """Stop what was started."""
        processes.stop_all(self._running)
        for process in self._running:
            dismiss_guard(process.pid)
        local_postgres.stop(self._folder / "postgres")


class _Later:
    """Takes records into the log as soon as its server is there."""

    def __init__(self, database: Future[str]) -> None:
        self._database = database
        self._loader: Loader | None = None

    def load(self, records: Sequence[Record]) -> None:
        """Put them into the log; waits for its server."""
        from gangline.events.postgres_log.loading import Loader  # noqa: PLC0415 - slow to import

        if self._loader is None:
            self._loader = Loader(self._database.result(), CELL)
        self._loader.load(records)

    def close(self) -> None:
        """Let go of the connection."""
        if self._loader is not None:
            self._loader.close()


def _play(
    database: Future[str],
    servers: _Servers,
    *,
    nodes: int,
    stop: threading.Event,
    began: float,
) -> None:
    """Make the week, say where the page is, and go on until told to stop."""
    from gangline.events.postgres_log import PostgresLog  # noqa: PLC0415 - slow to import
    from gangline.replay.demo_cell import DemoCell  # noqa: PLC0415
    from gangline.replay.demo_story import Size  # noqa: PLC0415

    loader = _Later(database)
    try:
        cell = DemoCell(loader.load, now_ms=_now_ms(), size=Size(nodes=nodes))
        cell.make_history(_now_ms)
        log = PostgresLog(database.result(), CELL)
        teller = _Teller(servers, began=began)
        threading.Thread(target=teller.tell, args=(_end_of(log), stop), daemon=True).start()
        cell.live(log, now_ms=_now_ms, stop=stop.is_set)
        log.close()
        if teller.complaint:
            raise DemoError(teller.complaint)
    finally:
        loader.close()


class _Teller:
    """Says where the page is as soon as it shows the present; complaint: why it never will."""

    def __init__(self, servers: _Servers, *, began: float) -> None:
        self._servers = servers
        self._began = began
        self.complaint = ""

    def tell(self, end: str, stop: threading.Event) -> None:
        """Wait for the page and say so, or stop the demo with a complaint."""
        deadline = time.monotonic() + _WITHIN_S
        with Client(self._servers.url, patience_s=0, timeout_s=15) as client:
            while not stop.is_set() and not _shows(client, end):
                self.complaint = self._servers.complaint()
                if not self.complaint and time.monotonic() > deadline:
                    self.complaint = f"the page shows nothing after {_WITHIN_S:.0f} s"
                if self.complaint:
                    stop.set()
                time.sleep(0.1)
        if not stop.is_set():
            say(f"ready after {time.monotonic() - self._began:.1f} s; stop it with Ctrl-C")
            click.echo(f"The page is at {styled(self._servers.url, underline=True)}")


def _shows(client: Client, end: str) -> bool:
    """Whether the page has everything up to a position."""
    try:
        client.request("GET", "/v1/summary", params={"min_position": end})
    except GanglineError:
        return False
    return True


def _end_of(log: Log) -> str:
    """The position of the last decisions."""
    from gangline.events.log import Topic  # noqa: PLC0415

    ends = log.ends([Topic.DECISIONS])
    return f"{Topic.DECISIONS}-0-{max(ends.values()) - 1}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
