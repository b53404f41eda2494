"""docs/slurm.md: what it tells people to type exists."""

from __future__ import annotations

import re
import shlex

import click

from gangline.cli.main import cli
from tests.support.sources import ROOT

TEXT = (ROOT / "docs" / "slurm.md").read_text(encoding="utf-8")
OURS = [words for words in re.findall(r"`gangline ([^`…]*)", TEXT) if words[0].islower()]


def test_every_command_and_option_of_the_page_exists() -> None:
    """Each `gangline …` is looked up in the commands themselves."""
    assert OURS
    with click.Context(cli) as context:
        for words in OURS:
            ours, *_ = words.partition(" -- ")
            command = _command(context, ours)
            options = {name for parameter in command.params for name in parameter.opts}
            typed = {word for word in shlex.split(ours) if word.startswith("-")}
            assert typed <= options | {"--help"}, words


def _command(context: click.Context, words: str) -> click.Command:
    """The command that the first words name; `team set` is one of a group."""
    first, second, *_ = [*words.split(), ""]
    command = cli.get_command(context, first)
    assert command is not None, words
    inner = command.get_command(context, second) if isinstance(command, click.Group) else None
    return inner or command
