"""An API that really listens, around views with hand-made rows and a log in memory."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from tests.api.fakes import World, make_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def listening_api(
    *, tokens: Path | None = None, agent_token: str = ""
) -> Iterator[tuple[str, World]]:
    """Serve one on a free port; its URL, and what is behind it."""
    world = make_world(tokens=tokens, agent_token=agent_token)
    config = uvicorn.Config(world.client.app, port=0, log_level="error", lifespan="off")
    with listening(config) as url:
        yield url, world


@contextmanager
def listening(config: uvicorn.Config) -> Iterator[str]:
    """A server in a thread of its own, while it runs; its URL."""
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the API did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
