"""Commands that run one process each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Callable

_BUS: Final = click.option(
    "--bus",
    envvar="GANGLINE_BUS",
    required=True,
    help="The log: kafka://host:port or postgres://… (GANGLINE_BUS).",
)
_CELL: Final = click.option(
    "--cell", envvar="GANGLINE_CELL", default="main", show_default=True, help="Which cell."
)
_DATABASE: Final = click.option(
    "--database",
    envvar="GANGLINE_DATABASE_URL",
    help="Postgres of the views (GANGLINE_DATABASE_URL). [default: the bus, if that is Postgres]",
)


def bus_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--bus` and `--cell`."""
    return _BUS(_CELL(function))


def database_of(database: str | None, bus: str) -> str:
    """The Postgres of the views, or a usage error."""
    if database:
        return database
    if bus.startswith("postgres"):
        return bus
    raise click.UsageError("--database names the Postgres of the views (GANGLINE_DATABASE_URL)")


@click.command("init")
@bus_options
def command_init(*, bus: str, cell: str) -> None:
    """Make the topics of a cell; those that are there are checked."""
    from gangline.events.bus import open_log  # noqa: PLC0415 - drivers are heavy

    log = open_log(bus, cell, environ=os.environ)
    try:
        log.create_topics()
    finally:
        log.close()
    say(f"cell {cell} has its topics")


@click.command("api")
@bus_options
@_DATABASE
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=int, default=8642, show_default=True, help="0: any free one.")
@click.option(
    "--tokens",
    type=click.Path(path_type=Path),
    envvar="GANGLINE_TOKENS",
    help="File of tokens (`gangline token create`); needed for other addresses than loopback.",
)
@click.option("--name", "hosts", multiple=True, help="A further name of this server.")
def command_api(
    *,
    bus: str,
    cell: str,
    database: str | None,
    host: str,
    port: int,
    tokens: Path | None,
    hosts: tuple[str, ...],
) -> None:
    """Run the REST API and the page."""
    from gangline.api.server import run_api  # noqa: PLC0415 - FastAPI costs half a second
    from gangline.api.settings import Settings  # noqa: PLC0415

    settings = Settings(
        bus=bus,
        database=database_of(database, bus),
        cell=cell,
        host=host,
        port=port,
        tokens=tokens,
        hosts=hosts,
    )
    run_api(settings, on_ready=lambda url: say(f"the page is at {url}"))
