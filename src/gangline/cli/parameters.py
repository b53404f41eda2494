"""Parameters of processes, checked before anything is started: nonsense is wrong usage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click


class Seconds(click.ParamType[float]):
    """A duration like `5s`, as seconds."""

    name = "duration"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Seconds, or a usage error."""
        from gangline.api.durations import parse_ms  # noqa: PLC0415 - standard library only

        try:
            return parse_ms(value) / 1_000
        except ValueError as error:
            self.fail(str(error), param, ctx)


class OutFile(click.Path):
    """A file to be written at the end of long work, or -: what cannot be is said before it."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(path_type=Path, allow_dash=True, dir_okay=False, writable=True)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """A path, or a usage error."""
        folder = Path(value).parent
        if not folder.is_dir():
            self.fail(f"there is no folder {folder}", param, ctx)
        if not os.access(folder, os.W_OK) and not Path(value).exists():
            self.fail(f"nothing can be written in {folder}", param, ctx)
        return super().convert(value, param, ctx)


def checked_url(url: str, *schemes: str) -> str:
    """A URL of one of these schemes as it came, or `ValueError`, which does not show a password."""
    if not url.startswith(schemes):
        raise ValueError(f"it begins with {' or '.join(schemes)}")
    if any(character.isspace() or not character.isprintable() for character in url):
        raise ValueError("it holds no spaces (%20) and printing characters only")
    urlsplit(url)
    return url


def checked_database(url: str) -> str:
    """A URL of a Postgres as it came, or `ValueError`."""
    try:
        return checked_url(url, "postgres://", "postgresql://")
    except ValueError as error:
        raise ValueError(f"no postgres://user@host:port/database: {error}") from error


def database_url(_: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    """The Postgres of the views, or a usage error."""
    try:
        return checked_database(url) if url else None
    except ValueError as error:
        raise click.BadParameter(f"it is {error}", param=parameter) from error


def cell_name(_: click.Context, parameter: click.Parameter, cell: str) -> str:
    """The name of a cell, or a usage error."""
    from gangline.events.layout import check_cell  # noqa: PLC0415 - most commands need none

    try:
        return check_cell(cell)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


def named(_: click.Context, parameter: click.Parameter, name: str) -> str:
    """A name as every route and command takes it, or a usage error."""
    from gangline.events.names import check_name  # noqa: PLC0415 - as in cell_name()

    try:
        return check_name(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error


CELL: Final = click.option(
    "--cell",
    callback=cell_name,
    envvar="GANGLINE_CELL",
    default="main",
    show_default=True,
    help="Which cell.",
)
