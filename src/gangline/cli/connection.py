"""The API that commands talk to, and the buses that processes do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from gangline.client import Client


PATIENCE_S = 5.0
"""For how long a command asks an API that does not answer."""


def connect() -> Client:
    """A client of the API that GANGLINE_URL or the stack's folder names."""
    from gangline.client import Client  # noqa: PLC0415 - HTTP costs 100 ms; --help needs none

    return Client(patience_s=PATIENCE_S)


_BUSES: Final = ("kafka://", "postgres://", "postgresql://", "memory://")


def bus_url(_: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    """A bus's URL, or a usage error."""
    if url is not None and not url.startswith(_BUSES):
        raise click.BadParameter(
            f"a bus is kafka://host:port or postgres://user@host:port/database, not {url!r}",
            param=parameter,
        )
    return url


def stack_bus(context: click.Context, parameter: click.Parameter, url: str) -> str | None:
    """The bus of a stack: `embedded`, `kafka`, or a URL."""
    return url if url in ("embedded", "kafka") else bus_url(context, parameter, url)
