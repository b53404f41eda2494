"""The reference of the command line, made from the commands themselves.

`python -m tests.support.cli_reference` writes docs/cli.md; a test compares it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import click

from gangline.cli.main import COMMANDS, cli
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = ROOT / "docs" / "cli.md"

HEAD = """\
# The command line

Data go to stdout, words to stderr. `-o table|wide|json|jsonl|csv|id` (`--json` is `-o json`) says
how data are written; on a pipe a table is plain text, and `NO_COLOR` takes the colours from a
terminal's. An error is one line that says what would be right.

| exit code | means |
| --- | --- |
| 0 | done |
| 1 | it failed, or a check did |
| 2 | wrong usage or input |
| 3 | there is no such thing |
| 4 | not allowed |
| 5 | the key belongs to another job |
| 6 | not yet |
| 7 | something is not reachable |
| 130 | interrupted |

| variable | says |
| --- | --- |
| `GANGLINE_URL` | where the API is |
| `GANGLINE_API_TOKEN` | the token to come in with |
| `GANGLINE_DIR` | the folder of the stack that `gangline up` starts (default `.gangline`) |
| `GANGLINE_BUS` | the log: `kafka://host:port` or `postgres://…` |
| `GANGLINE_DATABASE_URL` | the Postgres of the views, and of the embedded log |
| `GANGLINE_CELL` | which cell (default `main`) |
| `GANGLINE_TOKENS` | the API's file of tokens |
| `GANGLINE_LOG_TOKEN` | what agents want to see before they show a job's output |
| `GANGLINE_DEBUG` | anything: tracebacks instead of one line |

This page is made from the commands: `python -m tests.support.cli_reference` writes it.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    context = click.Context(cli, info_name="gangline")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        yield from _section(command, click.Context(command, info_name=name, parent=context))


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    """One command, and those below it."""
    yield f"## {context.command_path}\n"
    yield f"{inspect.cleandoc(command.help or '')}\n"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"    {context.command_path} {pieces}\n"
    rows = [row for param in command.params if (row := _row(param, context))]
    if rows:
        yield "| option | |\n| --- | --- |"
        yield "\n".join(rows) + "\n"
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _section(below, click.Context(below, info_name=name, parent=context))


def _row(param: click.Parameter, context: click.Context) -> str:
    record = param.get_help_record(context)
    if record is None or not record[1]:
        return ""
    name, about = (text.replace("|", "\\|").replace("\n", " ") for text in record)
    return f"| `{name}` | {about} |"


if __name__ == "__main__":
    PATH.write_text(reference(), encoding="utf-8")
