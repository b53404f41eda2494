"""`gangline node`: let nodes into the fleet, and take them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.completing import node_names
from gangline.cli.connection import connect
from gangline.cli.outcome import each, report, words
from gangline.cli.output import output_options, pairs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gangline.client import Client


@click.group("node")
def command_node() -> None:
    """Let a node into the fleet, or take nodes out of it."""


@command_node.command("add")
@click.argument("node")
@click.option("--gpus", type=int, required=True, help="How many it has.")
@click.option(
    "--place",
    multiple=True,
    callback=pairs,
    help="LEVEL=DOMAIN, from the outermost level inwards, like spine=s0. (Again for more.)",
)
@click.option("--label", "-l", "labels", multiple=True, callback=pairs, help="KEY=VALUE.")
@click.option("--key", "public_key", default="", help="`gangline agent --public-key` prints it.")
@output_options
def add_node(
    *,
    node: str,
    gpus: int,
    place: dict[str, str],
    labels: dict[str, str],
    public_key: str,
    output: str | None,
) -> None:
    """Let a node in, like `gangline node add n3 --gpus 8 --place spine=s0 --place block=b1`.

    It gets the label `node`, its name, so that jobs can ask for it.
    """
    body = {
        "levels": list(place),
        "path": list(place.values()),
        "gpus": gpus,
        "labels": {"node": node, **labels},
        "public_key": public_key,
    }
    with connect() as client:
        done = client.request("PUT", client.route("nodes", node), body=body)
        told = words(client, done["position"], done=f"adding {node}", plain=_PLAIN)
        report({"node": node, **done}, output, told)


_PLAIN: Final = {
    "duplicate": "it is in the fleet already, and its key and all else stay as they are",
}


@command_node.command("remove")
@click.argument("nodes", nargs=-1, required=True, shell_complete=node_names)
@click.option("--force", is_flag=True, help="Also if jobs run there: they start anew elsewhere.")
@output_options
def remove_nodes(*, nodes: tuple[str, ...], force: bool, output: str | None) -> None:
    """Take nodes out of the fleet for good; drain them first.

    With --force, jobs that still run there are killed at once, and go on elsewhere from their last
    checkpoint.
    """
    with connect() as client:
        if not force:
            _check_idle(client, nodes)

        def ask(node: str) -> dict[str, Any]:
            done: dict[str, Any] = client.request("DELETE", client.route("nodes", node))
            return done

        def tell(node: str, position: str) -> str:
            return words(client, position, done=f"removing {node}")

        for node, done, told in each(nodes, ask, tell):
            report({"node": node, **done}, output, told)


def _check_idle(client: Client, nodes: Iterable[str]) -> None:
    """A usage error where anybody runs there."""
    jobs = {row["node"]: row["jobs"] for row in client.pages("/v1/nodes")}
    for node in nodes:
        if jobs.get(node):
            raise click.UsageError(
                f"{node} runs {', '.join(jobs[node])}: drain it first (--force kills them at once)"
            )
