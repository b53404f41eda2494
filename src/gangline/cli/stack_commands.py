"""`gangline up`, `down` and `status`: the whole stack on this machine."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any, Final

import click

from gangline.cli import stack as stacks
from gangline.cli.connection import stack_bus
from gangline.cli.output import Column, for_people, output_options, put, put_one, say
from gangline.cli.parameters import checked_database


class _Folder(click.Path):
    """A folder that somebody named: of `--dir "$UNSET"` a stack would come to stand in this one."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """A path, or a usage error."""
        if value == "":
            self.fail("it is empty; this folder is `.`", param, ctx)
        return super().convert(value, param, ctx)


_DIR: Final = click.option(
    "--dir",
    "directory",
    type=_Folder(path_type=Path, file_okay=False),
    envvar="GANGLINE_DIR",
    default=Path(".gangline"),
    show_default=True,
    help="Where everything is kept.",
)


@click.command("up")
@_DIR
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Of the API and page. [default: 8642, or any]",
)
@click.option(
    "--agents",
    type=click.IntRange(min=1, max=64),
    default=4,
    show_default=True,
    help="Nodes that this machine plays.",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=1, max=64),
    default=8,
    show_default=True,
    help="GPUs that each of them claims.",
)
@click.option(
    "--bus",
    callback=stack_bus,
    default="embedded",
    show_default=True,
    help="embedded, kafka (a broker of our own), or a URL.",
)
@output_options
def command_up(
    *, directory: Path, port: int, agents: int, gpus: int, bus: str, output: str | None
) -> None:
    """Start the whole stack in the background; returns when it is ready.

    Log and views in a Postgres of its own (or the one that GANGLINE_DATABASE_URL names), two
    schedulers, the projector, agents, the API and its page.
    """
    plan = stacks.Plan(
        directory=directory,
        port=port,
        agents=agents,
        gpus=gpus,
        bus=bus,
        database=_database(),
    )
    stack = stacks.up(plan, tell=say)
    row = {"url": stack.url, "dir": str(directory), "processes": list(stack.running)}
    put_one(row, output=output, key="url", text=lambda seen: [seen["url"]])
    say(f"the page is at {stack.url}; `gangline down --dir {_quoted(directory)}` stops everything")


def _database() -> str:
    """What GANGLINE_DATABASE_URL names, or a usage error."""
    named = os.environ.get("GANGLINE_DATABASE_URL", "")
    try:
        return named and checked_database(named)
    except ValueError as error:
        raise click.UsageError(f"GANGLINE_DATABASE_URL is {error}") from error


def _quoted(directory: Path) -> str:
    """A folder as a shell takes it."""
    return shlex.quote(str(directory))


@click.command("down")
@_DIR
def command_down(*, directory: Path) -> None:
    """Stop the stack and keep its data; `up` goes on where it was."""
    stopped = stacks.down(directory)
    say(f"stopped {', '.join(stopped)}" if stopped else f"nothing runs under {directory}")


_COLUMNS: Final = (
    Column("name", "PROCESS"),
    Column("state", "STATE"),
    Column("pid", "PID", right=True),
    Column("log", "LOG"),
)


@click.command("status")
@_DIR
@output_options
def command_status(*, directory: Path, output: str | None) -> int:
    """What of the stack runs, its own Postgres and Kafka too.

    Exit code 1 when something that should run does not.
    """
    stack = stacks.load(directory)
    if stack is None or not stack.running:
        if not for_people(output):
            put([], output=output, columns=_COLUMNS, key="name")
        say(f"nothing runs under {directory}; `gangline up --dir {_quoted(directory)}` starts it")
        return 1
    rows: list[dict[str, Any]] = [
        {
            "name": part.name,
            "state": "running" if part.running else "ended",
            "pid": part.pid,
            "log": str(part.log),
        }
        for part in stacks.parts(stack)
    ]
    put(rows, output=output, columns=_COLUMNS, key="name")
    say(f"the page is at {stack.url}")
    ended = [row["name"] for row in rows if row["state"] == "ended"]
    if ended:
        again = f"`gangline up --dir {_quoted(directory)}`"
        say(f"{', '.join(ended)} ended; the log says why, and {again} starts what does not run")
    return 1 if ended else 0
