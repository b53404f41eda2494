"""`gangline run`: a job that is watched from here, as for a look at a node's GPUs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.completing import team_names
from gangline.cli.connection import connect
from gangline.cli.following import Follower
from gangline.cli.output import say
from gangline.cli.output_files import Wanted

if TYPE_CHECKING:
    from gangline.client import Client

_POLL_S: Final = 0.3
_INTERRUPTED: Final = 130


@click.command("run")
@click.option("--team", required=True, shell_complete=team_names, help="Whose job it is.")
@click.option("--gpus", type=int, default=1, show_default=True, help="GPUs of the whole gang.")
@click.option("--node", help="On this node; by the node's label `node`, which is its name.")
@click.option("--limit", default="1h", show_default=True, help="It ends after this.")
@click.option("--priority", help="Its class. [default: normal]")
@click.option("--workdir", help="Where it runs. [default: where the agent runs]")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def command_run(*, node: str | None, **fields: Any) -> int:  # noqa: ANN401
    """Run a command on GPUs and watch it, like `gangline run --team ml --node n3 -- nvidia-smi`.

    It waits in the queue like any job. What it prints is shown here as it comes, and its exit code
    is ours. Interrupted (Ctrl-C), the job is cancelled. Without a command: nvidia-smi.
    """
    from gangline.client import new_key  # noqa: PLC0415 - as in connect()

    spec = {name: value for name, value in fields.items() if value not in (None, ())}
    spec |= {"command": list(spec.get("command", ())) or ["nvidia-smi"], "retries": 0}
    if node:
        spec["selector"] = {"node": node}
    with connect() as client:
        if node:
            _check_node(client, node)
        job = client.submit(spec, key=new_key(spec)).job
        try:
            return _watch(client, job)
        except KeyboardInterrupt:
            client.cancel(job, why="interrupted")
            say(f"{job} is cancelled")
            return _INTERRUPTED


def _check_node(client: Client, node: str) -> None:
    """A usage error where no node has this label, which the scheduler would call a lack of room."""
    from gangline.api.nearest import nearest  # noqa: PLC0415 - standard library only

    rows = client.pages("/v1/nodes")
    labels = [str(row["labels"]["node"]) for row in rows if (row.get("labels") or {}).get("node")]
    if node not in labels:
        raise click.UsageError(f"no node has the label node={node}{nearest(node, labels)}")


def _watch(client: Client, job: str) -> int:
    """Show what each attempt prints, until the job has ended; its exit code."""
    _wait_until_known(client, job)
    Follower(client, Wanted(job, attempt=0)).run()
    code = client.wait(job)
    found = client.job(job)
    if found["state"] != "succeeded":
        say(f"{job} {found['state']}: {found.get('reason_text') or found.get('reason') or code}")
    return code


def _wait_until_known(client: Client, job: str) -> None:
    """It is submitted, and may be in no view yet."""
    from gangline.client import NotFoundError  # noqa: PLC0415 - as in connect()

    while True:
        try:
            client.job(job)
        except NotFoundError:
            pause()
        else:
            return


def pause() -> None:
    """Between two looks."""
    time.sleep(_POLL_S)
