"""docs/cli.md says what the commands say, and every command says something."""

from __future__ import annotations

import click
import pytest

from gangline.cli.main import COMMANDS, cli
from tests.support.cli_reference import PATH, reference


def test_the_reference_is_up_to_date() -> None:
    """`python -m tests.support.cli_reference` writes it anew."""
    assert PATH.read_text(encoding="utf-8") == reference()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_explains_itself(name: str) -> None:
    """Its module is there, its first line is the list's, and each option has a word of help."""
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    assert command.help
    silent = [
        param.name
        for param in command.params
        if isinstance(param, click.Option) and not param.help and param.name not in SPEAKING
    ]
    assert silent == []


SPEAKING = {"nodes", "teams", "seed", "jobs_per_day", "days", "load", "health", "service", "cell"}
"""Options whose names say it all."""
