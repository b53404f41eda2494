"""Serving: uvicorn around the application."""

from __future__ import annotations

import asyncio
from socket import AF_INET, AF_INET6, create_server, socket
from typing import TYPE_CHECKING

import uvicorn

from gangline.api.app import create_app
from gangline.api.health import readiness
from gangline.telemetry import named_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from gangline.api.settings import Settings


def run_api(settings: Settings, *, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT.

    tell: told where the page is once requests are taken, and what cannot be reached then.
    """
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=5,
        proxy_headers=False,
    )
    family = AF_INET6 if ":" in settings.host else AF_INET
    with named_address(settings.host, settings.port):  # uvicorn would say it in words of its own
        listening = create_server((settings.host, settings.port), family=family, backlog=2048)
    _Server(config, app, tell).run(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn, saying when it listens, and what it lacks."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, tell: Callable[[str], None]) -> None:
        super().__init__(config)
        self._state = app.state
        self._tell = tell
        self._look: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets=sockets)
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            self._tell(f"the page is at http://{self.config.host}:{port}")
            self._look = asyncio.create_task(self._say_what_is_away())

    async def _say_what_is_away(self) -> None:
        """Requests are answered with 503 meanwhile; whoever started us should not have to ask."""
        _, away = await asyncio.to_thread(readiness, self._state)
        for line in dict.fromkeys(away.values()):
            self._tell(f"not ready: {line}")
