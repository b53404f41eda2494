"""`gangline ranks`: how each rank of a job gets on, and which are slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.completing import job_names
from gangline.cli.connection import connect
from gangline.cli.live import look, watch_option
from gangline.cli.output import Column, output_options, put, say, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _length(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


_RANKS: Final = (
    Column("rank", "RANK", right=True),
    Column("node", "NODE"),
    Column("step", "STEP", right=True),
    Column("step_s", "S A STEP", _length, right=True),
    Column("own_s", "OF ITS OWN", _length, right=True),
    Column("quiet_s", "SAID", seconds, right=True),
    Column("slow", "SLOW"),
    Column("code", "CODE", right=True),
    Column("failed_first", "", lambda first: "failed first" if first else ""),
)
_ENDS: Final = ("code", "failed_first")


@click.command("ranks")
@click.argument("job", shell_complete=job_names)
@click.option("--attempt", type=click.IntRange(min=1), help="[default: the last one]")
@watch_option
@output_options
def command_ranks(*, job: str, attempt: int | None, watch: bool, output: str | None) -> None:
    """How each rank of a job gets on, and which are slower than their gang; how each one ended.

    By the program's own word: `gangline.checkpoint.progress(step)`, or what docs/agents.md says.
    """
    with connect() as client:
        path = client.route("jobs", job, "ranks")
        look(
            lambda: client.request("GET", path, params={"attempt": attempt}),
            lambda found: _show(found, output),
            watch=watch,
        )


def _show(found: Mapping[str, Any], output: str | None) -> None:
    for node in found["unreachable"]:
        say(f"{node} does not say how its ranks get on")
    ranks = found["ranks"]
    if not ranks and not found["unreachable"]:
        say(f"no rank of {found['job']} says how it gets on (checkpoint.progress(step) does)")
    put(ranks, output=output, columns=_columns(ranks), key="rank")


def _columns(ranks: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Those of steps where any rank says them, those of ends where any has ended."""
    steps = not ranks or any(row["step"] is not None for row in ranks)
    ended = any(row["code"] is not None for row in ranks)
    always = ("rank", "node")
    return [c for c in _RANKS if c.name in always or (ended if c.name in _ENDS else steps)]
