"""`gangline webhooks`: tell other programs of each job's end."""

from __future__ import annotations

import base64
import secrets
import signal
import threading
from pathlib import Path

import click

from gangline.cli.connection import in_stack
from gangline.cli.output import say
from gangline.cli.parameters import CELL, database_url


@click.group("webhooks")
def command_webhooks() -> None:
    """Post each job's end to other programs, signed and repeated until they answer."""


@command_webhooks.command("secret")
def make_secret() -> None:
    """Print a new secret for a hook; its receiver needs the same."""
    click.echo("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())


@command_webhooks.command("run")
@click.option(
    "--database",
    callback=database_url,
    envvar="GANGLINE_DATABASE_URL",
    required=True,
    help="Postgres of the views (GANGLINE_DATABASE_URL).",
)
@CELL
@click.option(
    "--hooks",
    "file",
    type=click.Path(path_type=Path),
    required=True,
    help="TOML: [[hook]] with name, url, secret, and at most teams and states.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: in_stack("webhooks"),
    show_default="webhooks in GANGLINE_DIR",
    help="Where it keeps how far each hook is.",
)
def run_webhooks(*, database: str, cell: str, file: Path, folder: Path) -> None:
    """Deliver until stopped. One process a cell; a new hook begins with the next end."""
    from gangline.api.webhooks import read_hooks, run_couriers  # noqa: PLC0415 - its own process
    from gangline.projections.queries import Views  # noqa: PLC0415
    from gangline.telemetry import log_json  # noqa: PLC0415

    hooks = read_hooks(file)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log_json("webhooks", cell=cell)
    views = Views(database, cell)
    say(f"delivering to {', '.join(hook.name for hook in hooks)}")
    try:
        run_couriers(hooks, views, folder=folder, stop=stop)
    finally:
        views.close()
