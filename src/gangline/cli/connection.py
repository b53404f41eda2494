"""The API that commands talk to, the buses that processes do, and the stack's own of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.parameters import CELL, checked_url
from gangline.events.bus import brokers_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gangline.client import Client


PATIENCE_S = 5.0
"""For how long a command asks an API that does not answer."""


def connect() -> Client:
    """A client of the API that GANGLINE_URL or the stack's folder names."""
    from gangline.client import Client  # noqa: PLC0415 - HTTP costs 100 ms; --help needs none

    return Client(patience_s=PATIENCE_S)


def in_stack(*parts: str) -> Path:
    """A path in the folder of the stack that `gangline up` starts."""
    from gangline.client import stack_folder  # noqa: PLC0415 - as in connect()

    return stack_folder().joinpath(*parts)


def noted_by_stack(what: str) -> str | None:
    """What the stack has written down of itself, like its `bus`; None without a stack."""
    from gangline.client import stack_folder, state_of  # noqa: PLC0415 - as in connect()

    noted = (state_of(stack_folder()) or {}).get(what)
    return str(noted) if noted else None


_BUSES: Final = ("kafka://", "postgres://", "postgresql://", "memory://")


def bus_url(_: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    """A bus's URL, or a usage error."""
    if url is not None and not url.startswith(_BUSES):
        raise click.BadParameter(
            f"a bus is kafka://host:port or postgres://user@host:port/database, not {url!r}",
            param=parameter,
        )
    try:
        if url is not None and url.startswith("kafka://"):
            brokers_of(url)
        elif url is not None:
            checked_url(url, *_BUSES)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error
    return url


def stack_bus(context: click.Context, parameter: click.Parameter, url: str) -> str | None:
    """The bus of a stack: `embedded`, `kafka`, or a URL."""
    return url if url in ("embedded", "kafka") else bus_url(context, parameter, url)


_OR_STACKS: Final = (
    click.option(
        "--bus",
        envvar="GANGLINE_BUS",
        callback=bus_url,
        help="A live log (or the stack's, if it runs).",
    ),
    CELL,
)


def bus_or_stacks(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--bus` and `--cell`; without them it is `bus_of_stack`."""
    bus, cell = _OR_STACKS
    return bus(cell(function))


def bus_of_stack(*, otherwise: str = "--bus URL") -> str:
    """The bus of the stack, or a usage error. otherwise: what would name another one."""
    bus = noted_by_stack("bus")
    if bus is None:
        raise click.UsageError(f"no stack in {in_stack()} has a bus; name one: {otherwise}")
    return bus
