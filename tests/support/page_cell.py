"""A small cell with a past, its views, and an API that listens: what the page's tests look at."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import uvicorn
from psycopg import sql

from gangline.agents.simulated_gang import Program
from gangline.api.app import create_app
from gangline.api.settings import Settings
from gangline.events import codec
from gangline.events import facts as f
from gangline.events.log import Topic
from gangline.events.postgres_log import PostgresLog
from gangline.events.postgres_log.loading import Loader
from gangline.events.reading import from_the_start, read_to_ends
from gangline.events.spec import Spec
from gangline.projections.migrations import migrate
from gangline.projections.models import all_models
from gangline.projections.page_queries import PageViews
from gangline.projections.projector import Pace, Session, run
from gangline.replay.demo_cell import DemoCell
from gangline.replay.demo_story import Size
from tests.support.api import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

HOSTILE = "<img src=x onerror=alert(1)> \u202eevil\u0007"
SMALL = Size(nodes=100, days=1, load=1.0, rush=14, seed=3)
_PACE = Pace(poll_s=0.0, look_s=0.0, records=2_000)


@dataclass(slots=True)
class PageCell:
    """The cell. url: of its database. now_ms: where its history ends."""

    url: str
    cell: DemoCell
    log: PostgresLog
    now_ms: int
    hostile_node: str
    made: int = field(default=0)

    def catch_up(self) -> None:
        """Bring the views up to the log's end."""
        with Session(self.log, self.url, "main", all_models(), pace=_PACE) as session:
            while not session.look():
                session.turn(0.0)

    def submit(self) -> str:
        """A job comes; its name, once the views know it."""
        self.made += 1
        name = f"newcomer-{self.made}"
        self.cell.world.submit(name, Spec(team="vision", gpus=1), Program(runtime_ms=3_600_000))
        self.cell.hand_on()
        self.catch_up()
        return name

    def facts(self, topic: Topic) -> list[Any]:
        """What was appended to a topic."""
        return [
            codec.decode(record.value).body
            for record in read_to_ends(self.log, from_the_start([topic]))
        ]

    def serve(self, *, tokens: Path | None = None) -> AbstractContextManager[str]:
        """An API over it on a free port."""
        return serve(self.url, tokens=tokens)


@contextmanager
def serve(database: str, *, tokens: Path | None = None, history_until_ms: int = 0) -> Iterator[str]:
    """An API over the log and the views of a database, on a free port."""
    log, views = PostgresLog(database, "main"), PageViews(database, "main")
    settings = Settings(cell="main", tokens=tokens, history_until_ms=history_until_ms)
    app = create_app(settings, log=log, views=views)
    # Streams are open for ever; they are cut at the end.
    config = uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=1)
    with listening(config) as url:
        yield url


@contextmanager
def _projector(url: str) -> Iterator[None]:
    """Somebody who looks into the log, as every cell has; the page says where nobody does."""
    stop = threading.Event()
    log = PostgresLog(url, "main")
    with ThreadPoolExecutor(1) as beside:
        done = beside.submit(run, log, url, "main", stop)
        try:
            yield
        finally:
            stop.set()
            done.result()
            log.close()


@contextmanager
def page_cell(server: str, *, size: Size = SMALL) -> Iterator[PageCell]:
    """Make one in a database of its own."""
    name = f"page_{time.time_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = server.rpartition("/")[0] + f"/{name}"
    migrate(url)
    log = PostgresLog(url, "main")
    log.create_topics()
    now_ms = time.time_ns() // 1_000_000
    loader = Loader(url, "main")
    try:
        cell = DemoCell(loader.load, now_ms=now_ms, size=size)
        cell.make_history(lambda: now_ms)
        node = sorted(cell.world.fleet.nodes)[5]
        cell.world.control(f.NodeCordoned(node=node, why=HOSTILE))
        cell.hand_on()
        made = PageCell(url, cell, log, now_ms, node)
        made.catch_up()
        with _projector(url):
            yield made
    finally:
        loader.close()
        log.close()
        with psycopg.connect(server, autocommit=True) as connection:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            connection.execute(drop)
