"""Which history a command reads: a log file, a bus, or the running stack's bus."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.connection import bus_of_stack, bus_or_stacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gangline.events.log import Log
    from gangline.replay.history import Source

_ARCHIVE: Final = "gangline.archive"


def _keep_archive(context: click.Context, _: click.Parameter, folder: str | None) -> None:
    """Remember the place for `opened`."""
    context.meta[_ARCHIVE] = folder


_SOURCE: Final = (
    bus_or_stacks,
    click.option("--log", "file", type=click.Path(path_type=Path), help="A log file."),
    click.option(
        "--archive",
        envvar="GANGLINE_ARCHIVE",
        metavar="PLACE",
        expose_value=False,
        callback=_keep_archive,
        help="An archive (folder or s3://bucket) in which the live log's history begins.",
    ),
)


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--bus`, `--cell` and `--log`."""
    for option in reversed(_SOURCE):
        function = option(function)
    return function


@contextmanager
def opened(bus: str | None, cell: str, file: Path | None) -> Iterator[Source]:
    """The history that the options name: a file, a bus, or the running stack's bus."""
    from gangline.events.bus import open_log  # noqa: PLC0415 - drivers are heavy
    from gangline.replay.history import FileSource, LogSource  # noqa: PLC0415

    if file is not None:
        if bus is not None and "GANGLINE_BUS" not in os.environ:
            raise click.UsageError("--bus or --log, not both")
        yield FileSource(file)
        return
    log = open_log(
        bus or bus_of_stack(otherwise="--bus URL, or --log FILE"), cell, environ=os.environ
    )
    try:
        archive: str | None = click.get_current_context().meta.get(_ARCHIVE)
        yield LogSource(log) if archive is None else _archived(archive, cell, log)
    finally:
        log.close()


def _archived(place: str, cell: str, log: Log) -> Source:
    """A history from an archive on."""
    from gangline.replay.archive import Archive, ArchivedSource  # noqa: PLC0415 - as above

    return ArchivedSource(Archive(place, cell=cell), log)
