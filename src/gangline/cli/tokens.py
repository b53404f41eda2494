"""`gangline token`: who may come in."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from gangline.cli.connection import in_stack
from gangline.cli.output import Column, output_options, put, say

_FILE: Final = click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    envvar="GANGLINE_TOKENS",
    default=lambda: in_stack("tokens.json"),
    show_default="tokens.json in GANGLINE_DIR",
    help="Where their hashes rest.",
)
_COLUMNS: Final = (Column("name", "NAME"), Column("role", "ROLE"), Column("team", "TEAM"))


@click.group("token")
def command_token() -> None:
    """Make, list and revoke tokens of the API. A running API sees changes by itself."""


@command_token.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice(["submit", "operate", "audit"]), required=True)
@click.option("--team", default="", help="Whose jobs, for role submit.")
@_FILE
def create(*, name: str, role: str, team: str, path: Path) -> None:
    """Make a token. Its text goes to stdout, once; only its hash is kept."""
    from gangline.api import tokens  # noqa: PLC0415 - standard library only

    click.echo(tokens.create(path, name, role=tokens.Role(role), team=team))
    say(f"keep it safe: {path} holds only its hash")


@command_token.command("rotate")
@click.argument("name")
@_FILE
def rotate(*, name: str, path: Path) -> None:
    """Give a token a new secret. Its text goes to stdout, once; the old one comes in no more."""
    from gangline.api import tokens  # noqa: PLC0415 - standard library only

    click.echo(tokens.rotate(path, name))
    say(f"the old text of {name} comes in no more")


@command_token.command("list")
@_FILE
@output_options
def list_tokens(*, path: Path, output: str | None) -> None:
    """Tokens that come in."""
    from gangline.api import tokens  # noqa: PLC0415 - standard library only

    rows = [
        {"name": t.name, "role": str(t.role), "team": t.team} for t in tokens.read(path).values()
    ]
    put(rows, output=output, columns=_COLUMNS, key="name")


@command_token.command("revoke")
@click.argument("name")
@_FILE
def revoke(*, name: str, path: Path) -> None:
    """Take a token away."""
    from gangline.api import tokens  # noqa: PLC0415 - standard library only

    tokens.revoke(path, name)
    say(f"revoked {name}")
