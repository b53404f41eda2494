"""`gangline logs`: what a job prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gangline.cli.completing import job_names
from gangline.cli.connection import connect
from gangline.cli.following import Follower
from gangline.cli.job_words import headline
from gangline.cli.output import say
from gangline.cli.output_files import Wanted, listing, not_kept, outputs, parts, write

if TYPE_CHECKING:
    from gangline.client import Client


@click.command("logs")
@click.argument("job", shell_complete=job_names)
@click.option("--attempt", type=click.IntRange(min=1), help="[default: the last one]")
@click.option("--rank", type=click.IntRange(min=0), help="Only this rank's output.")
@click.option("--tail", type=click.IntRange(min=0), help="Only so many bytes from the end.")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Go on, over all attempts, until the job has ended; with --attempt, until that has.",
)
def command_logs(
    *, job: str, attempt: int | None, rank: int | None, tail: int | None, follow: bool
) -> None:
    """What a job prints; each line begins with its rank where there are several.

    Nodes that do not answer are named on stderr. Followed, they are asked again and nothing is
    left out; else the others are shown, and the code is 7.
    """
    wanted = Wanted(job, attempt or 0, rank, tail)
    with connect() as client:
        if follow:
            _follow(client, wanted)
        else:
            _show_all(client, wanted)


def _follow(client: Client, wanted: Wanted) -> None:
    found = client.job(wanted.job)
    if found.get("tasks"):
        raise click.UsageError(
            f"{wanted.job} is an array: follow one of its tasks, like {wanted.job}.1"
        )
    if wanted.attempt:
        listing(client, wanted)  # says so where there is no such attempt
    found = Follower(client, wanted).run()
    say(headline(found))


def _show_all(client: Client, wanted: Wanted) -> None:
    """What there is now; UnreachableError at the end where a node does not tell."""
    from gangline.client import UnreachableError  # noqa: PLC0415 - as in connect()

    found = listing(client, wanted)
    wanted = wanted._replace(attempt=found["attempt"])
    missing = {each["node"]: each["detail"] for each in found["unreachable"]}
    files = outputs(found, wanted.rank)
    for file, size in files:
        file.offset = max(0, size - wanted.tail) if wanted.tail is not None else 0
        try:
            for data, gone in parts(client, wanted, file):
                if gone:
                    say(not_kept(file, gone))
                write(file, data)
        except UnreachableError as error:
            missing[file.node] = str(error)
        write(file, last=True)
    if missing:
        nodes, details = ", ".join(missing), "; ".join(missing.values())
        raise UnreachableError(f"what was printed on {nodes} is not shown: {details}")
    if not files:
        say(_nothing(found, wanted.rank))


def _nothing(found: dict[str, Any], rank: int | None) -> str:
    """Why there is nothing to show."""
    if rank is not None and found["files"]:
        return f"attempt {found['attempt']} of {found['job']} has no output of a rank {rank}"
    if found["state"] in ("ended", "aborted"):
        return f"of attempt {found['attempt']} of {found['job']} no output is kept"
    return f"{found['job']} has printed nothing yet"
