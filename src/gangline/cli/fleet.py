"""Commands about nodes, teams and policy."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.completing import node_names, team_names
from gangline.cli.connection import connect
from gangline.cli.live import at_option, look, nodes_at, teams_at, watch_option
from gangline.cli.outcome import ALREADY, UNANSWERED, each, refusal, report, words
from gangline.cli.output import Column, ago, output_options, put, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gangline.cli.output import Row
    from gangline.client import Client


def _limit(value: int | None) -> str:
    return "unlimited" if value is None else str(value)


def _of_models(numbers: dict[str, dict[str, int]] | None) -> str:
    """Of each guaranteed model: used and guaranteed GPUs."""
    parts = (numbers or {}).items()
    return ", ".join(f"{of_it['used']} of {of_it['guaranteed']} {model}" for model, of_it in parts)


_TEAMS: Final = (
    Column("team", "TEAM"),
    Column("parent", "PARENT"),
    Column("guaranteed", "GUARANTEED", right=True),
    Column("used", "USED", right=True),
    Column("guaranteed_used", "OF IT OWN", right=True, wide=True),
    Column("borrowed", "BORROWED", right=True),
    Column("lent", "LENT", right=True),
    Column("queued", "QUEUED", right=True),
    Column("borrow_limit", "MAY BORROW", _limit, right=True, wide=True),
    Column("lend_limit", "MAY LEND", _limit, right=True, wide=True),
    Column("weight", "WEIGHT", right=True, wide=True),
    Column("by_model", "OF MODELS", _of_models, wide=True),
)
_NODES: Final = (
    Column("node", "NODE"),
    Column("path", "PLACE", lambda path: "/".join(path or ())),
    Column("gpus", "GPUS", right=True),
    Column("held", "HELD", right=True),
    Column("free", "FREE", right=True),
    Column("health", "HEALTH"),
    Column("service", "SERVICE"),
    Column("gpu_states", "STATES", wide=True),
    Column("health_since", "SINCE", ago, right=True, wide=True),
    Column("health_cause", "BECAUSE", wide=True),
    Column("jobs", "JOBS", lambda jobs: ",".join(jobs or ())),
)


def _columns(rows: Iterable[Row]) -> tuple[Column, ...]:
    """Those of teams; of models only where any is guaranteed."""
    return _TEAMS if any(row.get("by_model") for row in rows) else _TEAMS[:-1]


@click.command("teams")
@at_option
@watch_option
@output_options
def command_teams(*, at: str | None, watch: bool, output: str | None) -> None:
    """Teams with what they are guaranteed, use, borrow and lend, in GPUs."""
    with connect() as client:
        look(
            lambda: teams_at(client, at) if at else list(client.pages("/v1/teams")),
            lambda rows: put(rows, output=output, columns=_columns(rows), key="team"),
            watch=watch,
        )


@click.group("team")
def command_team() -> None:
    """Make or change a team."""


@command_team.command("set")
@click.argument("team", shell_complete=team_names)
@click.option("--guaranteed", type=int, help="GPUs that are its own.")
@click.option("--borrow", help="GPUs beyond them: a number, none or unlimited.")
@click.option("--lend", help="GPUs of them that others may use: a number, none or unlimited.")
@click.option("--weight", type=int, help="Its weight in the fair share.")
@click.option("--parent", help="The team above it; '' for none.")
@click.option(
    "--guaranteed-of",
    "models",
    metavar="MODEL=GPUS",
    multiple=True,
    help="How many of the guaranteed GPUs are of one model; may be said several times.",
)
@output_options
def set_team(
    *,
    team: str,
    models: tuple[str, ...],
    output: str | None,
    **fields: Any,  # noqa: ANN401
) -> None:
    """Make a team, or change what is named; the rest keeps its values."""
    body: dict[str, Any] = {
        name: _amount(name, value) if name in _LIMITS else value
        for name, value in fields.items()
        if value is not None
    }
    if models:
        body["by_model"] = dict(map(_of_model, models))
    with connect() as client:
        done = client.request("PUT", client.route("teams", team), body=body)
        report({"team": team, **done}, output, _became(client, team, body, done["position"]))


_LIMITS: Final = ("borrow", "lend")


def _amount(name: str, value: str) -> int | str:
    """A number of GPUs, none or unlimited."""
    if value in ("none", "unlimited"):
        return value
    if not value.isdecimal():
        raise click.UsageError(f"--{name}: a number of GPUs, none or unlimited, not {value!r}")
    return int(value)


def _of_model(text: str) -> tuple[str, int]:
    """`MODEL=GPUS`."""
    model, _, gpus = text.rpartition("=")
    if not model or not gpus.isdecimal():
        raise click.UsageError(f"--guaranteed-of: MODEL=GPUS, not {text!r}")
    return model, int(gpus)


def _became(client: Client, team: str, body: dict[str, Any], position: str) -> str:
    """What the scheduler made of it, in words; an error where it refused."""
    why = refusal(client, position)
    if why is None:
        return f"team {team}: {UNANSWERED}"
    if not why:
        return f"team {team} is set"
    if why == ALREADY:
        return f"team {team} is so already"
    named = body.get("parent") if why in _OF_PARENTS else None
    parent = f"{named} cannot be its parent: " if named else ""
    raise click.ClickException(f"team {team} is not set: {parent}{why}")


_OF_PARENTS: Final = ("no such team", "a team cannot be its own ancestor")


@click.command("nodes")
@click.option("--health", type=click.Choice(["well", "suspected", "lost", "quarantined"]))
@click.option("--service", type=click.Choice(["open", "cordoned", "draining", "maintenance"]))
@at_option
@watch_option
@output_options
def command_nodes(
    *, health: str | None, service: str | None, at: str | None, watch: bool, output: str | None
) -> None:
    """Nodes with their GPUs, health and service."""
    with connect() as client:
        look(
            lambda: _nodes(client, at, health=health, service=service),
            lambda rows: put(_explained(rows, output), output=output, columns=_NODES, key="node"),
            watch=watch,
        )


def _explained(rows: list[Row], output: str | None) -> list[Row]:
    """For people: each node with why it is as it is, in one column."""
    if output in ("json", "jsonl", "csv", "id"):
        return rows
    return [{**row, "health_cause": "; ".join(_causes(row))} for row in rows]


_HEALTH: Final = {
    "silent": "no heartbeats",
    "lost": "no heartbeats for too long",
    "unready": "a member was not ready in time or broke down at once",
    "quarantine": "too many faults or losses",
}
"""What the scheduler's words for a node's health mean."""


def _causes(row: Row) -> Iterator[str]:
    """What made its health and its service what they are, and what is announced."""
    if cause := str(row.get("health_cause") or ""):
        yield _HEALTH.get(cause, cause)
        if (due := ago(row.get("health_until"))).startswith("in "):
            yield f"{'lost' if cause == 'silent' else 'over'} {due}"
    if row.get("service_cause"):
        yield row["service_cause"]
    if row.get("deadline"):
        yield f"deadline {ago(row['deadline'])}"
    window = row.get("maintenance") or {}
    if window.get("from_ms"):
        why = f": {window['why']}" if window.get("why") else ""
        begins, lasts = ago(_moment(window["from_ms"])), window["until_ms"] - window["from_ms"]
        yield f"maintenance {begins} for {seconds(lasts / 1_000)}{why}"


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat()


def _nodes(client: Client, at: str | None, **where: str | None) -> list[Row]:
    """The nodes that are as asked for."""
    if not at:
        return list(client.pages("/v1/nodes", **where))
    rows = nodes_at(client, at)
    return [row for row in rows if all(v in (None, row[k]) for k, v in where.items())]


_WANTED: Final = {
    "cordon": ("cordoned", "draining"),
    "uncordon": ("open",),
    "drain": ("draining",),
}
"""Which service of a node is what each verb asks for."""


def _each_node(
    nodes: Iterable[str], verb: str, body: object, output: str | None, word: str
) -> None:
    with connect() as client:

        def ask(node: str) -> dict[str, Any]:
            done: dict[str, Any] = client.request(
                "POST", client.route("nodes", node, verb), body=body
            )
            return done

        def tell(node: str, position: str) -> str:
            already = partial(_as_it_was, client, node, verb)
            return words(client, position, done=f"{word} {node}", already=already)

        for node, done, told in each(nodes, ask, tell):
            report({"node": node, **done}, output, told)


def _as_it_was(client: Client, node: str, verb: str) -> str:
    """What a node is that a verb has not changed; an error where that is not what was wanted."""
    rows = (row for row in client.pages("/v1/nodes") if row["node"] == node)
    service = next((str(row["service"]) for row in rows), "gone")
    if service in _WANTED.get(verb, ()):
        return f"{node} is {service} already"
    raise click.ClickException(
        f"{node} is in {service}, which {verb} does not change: uncordon it first"
        if service == "maintenance"
        else f"{verb} {node} changed nothing: it is {service}"
    )


@click.command("cordon")
@click.argument("nodes", nargs=-1, required=True, shell_complete=node_names)
@click.option("--why", default="", help="What a colleague should read.")
@output_options
def command_cordon(*, nodes: tuple[str, ...], why: str, output: str | None) -> None:
    """Keep new work off nodes; what runs there goes on."""
    _each_node(nodes, "cordon", {"why": why}, output, "cordoning")


@click.command("uncordon")
@click.argument("nodes", nargs=-1, required=True, shell_complete=node_names)
@output_options
def command_uncordon(*, nodes: tuple[str, ...], output: str | None) -> None:
    """Let nodes take new work again, and call off their maintenance."""
    _each_node(nodes, "uncordon", None, output, "uncordoning")


@click.command("drain")
@click.argument("nodes", nargs=-1, required=True, shell_complete=node_names)
@click.option("--deadline", help="From now, like 2h; what still runs then is stopped.")
@click.option("--why", default="", help="What a colleague should read.")
@output_options
def command_drain(
    *, nodes: tuple[str, ...], deadline: str | None, why: str, output: str | None
) -> None:
    """Empty nodes: nothing new, and what still runs at the deadline is queued again."""
    body = {"why": why, **({"deadline": deadline} if deadline else {})}
    _each_node(nodes, "drain", body, output, "draining")


@click.command("maintenance")
@click.argument("node", shell_complete=node_names)
@click.option("--at", default="0s", help="From now. [default: at once]")
@click.option("--for", "lasts", required=True, help="How long, like 4h.")
@click.option("--why", default="", help="What a colleague should read.")
@output_options
def command_maintenance(*, node: str, at: str, lasts: str, why: str, output: str | None) -> None:
    """Announce a window: no job whose limit reaches into it is placed there."""
    body = {"at": at, "lasts": lasts, "why": why}
    _each_node([node], "maintenance", body, output, "announced maintenance of")
