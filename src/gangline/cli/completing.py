"""Completion: a script for the shell, and names that only the API knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_SHELLS: Final = ("bash", "zsh", "fish")
_MOST: Final = 200
_WITHIN_S: Final = 1.0
_HOW: Final = {
    "bash": "source <(gangline completion bash)  # in ~/.bashrc",
    "zsh": "source <(gangline completion zsh)   # in ~/.zshrc",
    "fish": "gangline completion fish | source  # in ~/.config/fish/config.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
def command_completion(*, shell: str) -> None:
    """Print a script that lets the shell complete commands, options, jobs, nodes and teams."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - only this command

    from gangline.cli.main import cli  # noqa: PLC0415 - it imports this module by name
    from gangline.cli.output import say  # noqa: PLC0415

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(kind(cli, {}, "gangline", "_GANGLINE_COMPLETE").source())
    say(_HOW[shell])


def _names(path: str, key: str) -> Callable[..., list[str]]:
    """Names of a list of the API that begin with what was typed; none where it is away."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
        from gangline.client import Client, GanglineError  # noqa: PLC0415 - HTTP is heavy

        try:
            with Client(patience_s=0, timeout_s=_WITHIN_S) as client:
                items = client.request("GET", path, params={"limit": 1_000})["items"]
        except GanglineError:
            return []
        return [row[key] for row in items if str(row[key]).startswith(begun)][:_MOST]

    return complete


job_names = _names("/v1/jobs", "job")
node_names = _names("/v1/nodes", "node")
team_names = _names("/v1/teams", "team")
