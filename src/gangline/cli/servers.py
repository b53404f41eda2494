"""Commands that run one process each."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import threading
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.connection import (
    bus_of_stack,
    bus_or_stacks,
    bus_url,
    in_stack,
    noted_by_stack,
)
from gangline.cli.output import Column, output_options, pairs, put, say
from gangline.cli.parameters import CELL, Seconds, database_url, named
from gangline.cli.policy_fact import prepare_log
from gangline.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HELP_OF_BUS: Final = "The log: kafka://host:port or postgres://… (GANGLINE_BUS)."
_BUS: Final = click.option(
    "--bus", callback=bus_url, envvar="GANGLINE_BUS", required=True, help=_HELP_OF_BUS
)
_BUS_TO_RUN: Final = click.option(
    "--bus", callback=bus_url, envvar="GANGLINE_BUS", help=_HELP_OF_BUS
)
_DATABASE: Final = click.option(
    "--database",
    callback=database_url,
    envvar="GANGLINE_DATABASE_URL",
    help="Postgres of the views (GANGLINE_DATABASE_URL). [default: the bus, if that is Postgres]",
)
_METRICS: Final = click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    envvar="GANGLINE_METRICS_PORT",
    help="Serve Prometheus metrics here.",
)


def bus_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--bus` and `--cell`."""
    return _BUS(CELL(function))


def database_of(database: str | None, bus: str) -> str:
    """The Postgres of the views, or a usage error."""
    if database:
        return database
    if bus.startswith("postgres"):
        return bus
    raise click.UsageError("--database names the Postgres of the views (GANGLINE_DATABASE_URL)")


@click.command("init")
@bus_options
@click.option(
    "--set", "pairs", multiple=True, metavar="KEY=VALUE", help="A policy key. (Again for more.)"
)
def command_init(*, bus: str, cell: str, pairs: tuple[str, ...]) -> None:
    """Make the topics of a cell, and set its policy; topics that are there are checked.

    `--set auto_admit=1` lets nodes in by their own word.
    """
    from gangline.cli.policy import value_of  # noqa: PLC0415 - the keys of the core

    values = dict(map(value_of, pairs))
    prepare_log(bus, cell, values=values, actor="operator:init")
    say(f"cell {cell} has its topics" + (f", and {', '.join(pairs)}" if pairs else ""))


@click.command("scheduler")
@bus_options
@click.option("--name", default=socket.gethostname, help="Its own. [default: this host's]")
@click.option(
    "--index",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Its place among the cell's schedulers: the lower takes over first.",
)
@_METRICS
@click.option(
    "--snapshot-every",
    type=click.IntRange(min=1),
    default=2_000,
    show_default=True,
    help="Steps between two snapshots.",
)
@click.option(
    "--checkpoint-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a signed checkpoint here at each takeover and each hour; best on another machine.",
)
@click.option(
    "--checkpoint-key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The private key (Ed25519, PEM) that signs it.",
)
@click.option(
    "--hand-over",
    is_flag=True,
    help="Run nothing: ask the one that leads to let a standby lead, and wait until one does.",
)
def command_scheduler(*, hand_over: bool, **fields: Any) -> None:  # noqa: ANN401
    """Run a scheduler: it leads, or stands by until the leader is silent."""
    if hand_over:
        _ask_to_hand_over(fields["bus"], fields["cell"])
        return
    if (fields["checkpoint_dir"] is None) != (fields["checkpoint_key"] is None):
        raise click.UsageError("--checkpoint-dir and --checkpoint-key go together")
    from gangline.scheduler.runner import (  # noqa: PLC0415 - a process of its own
        SchedulerSettings,
        run_scheduler,
    )

    _log_json("scheduler")
    run_scheduler(SchedulerSettings(environ=os.environ, **fields))


def _log_json(process: str, **values: str) -> None:
    """From here on, this process logs JSON lines."""
    from gangline.telemetry import log_json  # noqa: PLC0415 - processes only

    log_json(process, **values)


def _ask_to_hand_over(bus: str, cell: str) -> None:
    """Say so in the log, and wait for the first batch of the next term."""
    from gangline.events.bus import open_log  # noqa: PLC0415 - drivers are heavy
    from gangline.scheduler.hand_over import hand_over  # noqa: PLC0415

    log = open_log(bus, cell, environ=os.environ)
    try:
        done = hand_over(log, actor="operator:hand-over")
    finally:
        log.close()
    say(f"{done.leader} leads now, term {done.term}, {done.gap_ms} ms after it was asked for")


@click.command("projector")
@bus_options
@_DATABASE
@_METRICS
def command_projector(
    *, bus: str, cell: str, database: str | None, metrics_port: int | None
) -> None:
    """Keep the views up to date: read decisions, write rows."""
    from gangline.events.bus import open_log  # noqa: PLC0415 - a process of its own
    from gangline.projections.migrations import migrate  # noqa: PLC0415
    from gangline.projections.projector import run  # noqa: PLC0415

    dsn = database_of(database, bus)
    migrate(dsn)  # once here, so that a database that is not there is said at once
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _log_json("projector", cell=cell)
    log = open_log(bus, cell, environ=os.environ)
    try:
        with _lag_served(dsn, cell, metrics_port):
            run(log, dsn, cell, stop)
    finally:
        log.close()


@contextmanager
def _lag_served(dsn: str, cell: str, port: int | None) -> Iterator[None]:
    """Metrics of how far the views are, while this lasts."""
    from gangline.projections.queries import Views, ViewsUnreachableError  # noqa: PLC0415
    from gangline.telemetry import Lag, registry_of, serve_metrics  # noqa: PLC0415

    if port is None:
        yield
        return
    views = Views(dsn, cell, connections=1)
    registry = registry_of("projector")
    registry.register(Lag(views.lag, unreachable=ViewsUnreachableError))
    serve_metrics(registry, port)
    try:
        yield
    finally:
        views.close()


@click.command("agent")
@_BUS_TO_RUN
@CELL
@click.option(
    "--node",
    callback=named,
    default=socket.gethostname,
    help="The node's name. [default: this host's]",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    envvar="GANGLINE_AGENT_DIR",
    help="Its own folder, on a local disk. [default: agents/NODE in GANGLINE_DIR]",
)
@click.option(
    "--gpus",
    type=click.IntRange(min=1),
    envvar="GANGLINE_GPUS",
    help="How many GPUs it claims. [default: what nvidia-smi says]",
)
@click.option("--levels", default="", help="Levels of the fleet's tree, like spine,block.")
@click.option("--path", default="", help="The node's domain at each level, like s0,b3.")
@click.option("--label", "-l", "labels", multiple=True, callback=pairs, help="KEY=VALUE.")
@click.option("--address", default="", help="Where other nodes reach it. [default: found out]")
@click.option(
    "--checkpoints",
    type=click.Path(path_type=Path),
    help="The root of all checkpoint folders, shared by all nodes.",
)
@click.option(
    "--heartbeat",
    "heartbeat_interval_s",
    type=Seconds(),
    default="10s",
    show_default=True,
    help="How often it says that it lives.",
)
@click.option(
    "--log-address",
    default="0.0.0.0",  # noqa: S104 - others read logs from elsewhere, with a token
    show_default=True,
    help="Where it serves its jobs' output.",
)
@click.option("--log-port", type=click.IntRange(0, 65_535), default=0, help="0: any.")
@click.option(
    "--log-token",
    envvar="GANGLINE_LOG_TOKEN",
    default="",
    help="Who has it may read their output (GANGLINE_LOG_TOKEN).",
)
@click.option(
    "--lease",
    "lease_s",
    type=Seconds(),
    default="60s",
    show_default=True,
    help="So long an at-most-one writer goes on where the log does not hear the node.",
)
@click.option(
    "--lease-grace",
    "lease_grace_s",
    type=Seconds(),
    default="30s",
    show_default=True,
    help="Its grace then. Both together are to be shorter than the policy's lost_after.",
)
@click.option("--health-command", default="", help="Run now and then; its failure is a fault.")
@click.option(
    "--check-command", default="", help="Run before each start; its failure turns the job away."
)
@click.option("--memory-test", default="", help="Python with PyTorch: tests GPUs before a start.")
@click.option(
    "--cgroup",
    type=click.Path(path_type=Path),
    help="A folder of cgroup v2 that is ours; each attempt gets a group there.",
)
@click.option(
    "--max-processes",
    "most_processes",
    type=click.IntRange(min=0),
    default=16_384,
    show_default=True,
    help="Processes and threads of an attempt, where it has a --cgroup; 0: no limit.",
)
@click.option("--container", default="docker", show_default=True, help="Or podman; for images.")
@click.option(
    "--start-spread",
    "start_spread_s",
    type=Seconds(),
    default="0s",
    show_default=True,
    help="It comes up within this, by chance, so that not all of a fleet do at once.",
)
@click.option("--supervisor-prefix", default="", help="Words before it, like `systemd-run …`.")
@click.option(
    "--seal-keys",
    type=click.Path(path_type=Path),
    envvar="GANGLINE_SEAL_KEYS",
    help="The folder of keys that open private parts of specs.",
)
@click.option("--public-key", is_flag=True, help="Run nothing: print the node's public key.")
@_METRICS
@click.option(
    "--job-mapping",
    type=click.Path(path_type=Path),
    help="Write which job has which GPU here, for dcgm-exporter's --hpc-job-mapping-dir.",
)
def command_agent(
    *,
    node: str,
    folder: Path | None,
    levels: str,
    path: str,
    health_command: str,
    container: str,
    supervisor_prefix: str,
    **fields: Any,  # noqa: ANN401
) -> None:
    """Run a node's agent: it starts, watches and stops the processes of jobs."""
    from gangline.agents import gpus  # noqa: PLC0415 - a process of its own
    from gangline.agents.runner import run_agent  # noqa: PLC0415
    from gangline.agents.settings import AgentSettings  # noqa: PLC0415

    names, domains = _words(levels), _words(path)
    if len(names) != len(domains):
        raise click.UsageError("--path has a domain for each of --levels")
    own = folder or in_stack("agents", node)
    if fields.pop("public_key"):
        _print_public_key(own)
        return
    if not fields["bus"]:
        raise click.UsageError("Missing option '--bus' (GANGLINE_BUS)")
    if fields["gpus"] is None and not gpus.present():
        raise click.UsageError("there is no nvidia-smi here: --gpus says how many GPUs it claims")
    _log_json("agent", node=node)
    run_agent(
        AgentSettings(
            node=node,
            folder=own.resolve(),
            levels=names,
            path=domains,
            health_command=tuple(shlex.split(health_command)),
            check_command=tuple(shlex.split(fields.pop("check_command"))),
            memory_test=tuple(shlex.split(fields.pop("memory_test"))),
            container=tuple(shlex.split(container)),
            supervisor_prefix=tuple(shlex.split(supervisor_prefix)),
            **fields,
        )
    )


def _print_public_key(folder: Path) -> None:
    """What an operator admits the node with; the key is made if the agent never ran."""
    from gangline.agents.node_key import kept_key  # noqa: PLC0415 - cryptography is heavy
    from gangline.events.signing import public_bytes  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    click.echo(public_bytes(kept_key(folder)).hex())


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


@click.command("api")
@bus_options
@_DATABASE
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8642,
    show_default=True,
    help="0: any free one.",
)
@click.option(
    "--tokens",
    type=click.Path(path_type=Path),
    envvar="GANGLINE_TOKENS",
    help="File of tokens (`gangline token create`); needed for other addresses than loopback.",
)
@click.option("--name", "hosts", multiple=True, help="A further name of this server.")
@click.option(
    "--log-token",
    "agent_token",
    envvar="GANGLINE_LOG_TOKEN",
    default="",
    help="What agents want to see before they show output (GANGLINE_LOG_TOKEN).",
)
@click.option(
    "--seal-keys",
    type=click.Path(path_type=Path),
    envvar="GANGLINE_SEAL_KEYS",
    help="A folder of keys: seal private parts of specs, so that the log holds no secrets.",
)
@click.option(
    "--history-until-ms",
    type=int,
    envvar="GANGLINE_HISTORY_UNTIL_MS",
    default=0,
    hidden=True,
    help="A past up to this moment is being made (`gangline demo`); the page says so until then.",
)
def command_api(
    *,
    bus: str,
    cell: str,
    database: str | None,
    **fields: Any,  # noqa: ANN401
) -> None:
    """Run the REST API and the page."""
    from gangline.api.server import run_api  # noqa: PLC0415 - FastAPI costs half a second
    from gangline.api.settings import Settings  # noqa: PLC0415
    from gangline.scheduler.core.policy import KEYS  # noqa: PLC0415

    settings = Settings(
        bus=bus,
        database=database_of(database, bus),
        cell=cell,
        **fields,
        policy_keys={key.name: key.least for key in KEYS.values()},
    )
    _log_json("api", cell=cell)
    run_api(settings, tell=say)


@click.group("views")
def command_views() -> None:
    """Look after the views."""


@command_views.command("rebuild")
@bus_or_stacks
@_DATABASE
@click.option("--view", "views", multiple=True, help="Only this one. (Again for more.)")
@output_options
def rebuild_views(
    *, bus: str | None, cell: str, database: str | None, views: tuple[str, ...], output: str | None
) -> None:
    """Build views anew from the log beside the live ones, and swap them in without downtime."""
    from gangline.events.bus import open_log  # noqa: PLC0415 - drivers are heavy
    from gangline.projections.rebuild import rebuild  # noqa: PLC0415

    if bus is None:
        bus, database = bus_of_stack(), database or noted_by_stack("database")
    dsn = database_of(database, bus)
    progress = Progress("rebuilding", "records")
    log = open_log(bus, cell, environ=os.environ)
    try:
        reports = rebuild(
            log,
            dsn,
            cell,
            views=views or None,
            progress=lambda done, _end: progress(done),
        )
    finally:
        log.close()
    progress.end()
    put([asdict(report) for report in reports], output=output, columns=_REBUILT, key="table")


_REBUILT: Final = (
    Column("view", "VIEW"),
    Column("table", "TABLE"),
    Column("rows_before", "BEFORE", right=True),
    Column("rows_after", "AFTER", right=True),
    Column("same", "SAME", lambda same: {True: "yes", False: "NO"}.get(same, "moved on")),
)


@click.command("acl")
@click.option("--print", "printed", is_flag=True, required=True, help="Print, and change nothing.")
@CELL
@click.option("--bootstrap", default="localhost:9092", show_default=True, help="Of the brokers.")
@click.option(
    "--principal",
    default="User:gangline-{role}",
    show_default=True,
    help="A pattern of principals in which {role} stands.",
)
def command_acl(*, printed: bool, cell: str, bootstrap: str, principal: str) -> None:
    """Print the rights of each role on Kafka as a script for kafka-acls.sh."""
    from gangline.events.kafka_acl import kafka_acl_commands  # noqa: PLC0415 - only this command

    del printed
    for line in kafka_acl_commands(cell, bootstrap=bootstrap, principal=principal):
        click.echo(line)
