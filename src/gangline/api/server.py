"""Serving: uvicorn around the application."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

from gangline.api.app import create_app

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from gangline.api.settings import Settings


def run_api(settings: Settings, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT. on_ready: called with the address once requests are taken."""
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
    _Server(config, on_ready).run()


class _Server(uvicorn.Server):
    """uvicorn, saying when it listens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets=sockets)
        if self.started and self._on_ready is not None:
            port = self.servers[0].sockets[0].getsockname()[1]
            self._on_ready(f"http://{self.config.host}:{port}")
