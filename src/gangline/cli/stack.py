"""The whole of Gangline on one machine, in the background, under one folder.

DIR/state.json what runs, and where the API is; readable by its owner only DIR/postgres, DIR/kafka
the servers' data DIR/log/NAME.log what each process says DIR/agents/NODE an agent's own folder
DIR/checkpoints what jobs save; all nodes share it

Theory of operation. `up` brings about a state: whatever of the stack does not run is started, and
what runs is left alone. So a second `up` mends a stack of which something died, and after `down` it
goes on where it was, as everything that matters is in the log. `down` stops the nodes like a power
cut: their jobs go on from their last checkpoints at the next `up`.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from gangline.cli import local_kafka, local_postgres, processes
from gangline.cli.local_process import folder_lock, free_port, port_is_free
from gangline.cli.nodes import power_off
from gangline.cli.policy_fact import prepare_log
from gangline.cli.processes import Process
from gangline.client import STATE_FILE, Client, GanglineError, state_of

DEFAULT_PORT: Final = 8642
READY_WITHIN_S: Final = 60.0
_LEVELS: Final = "spine,block"


Tell = Callable[[str], None]
"""Takes a line for people."""


class StackError(Exception):
    """The stack could not be brought up; the message is one line saying what and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a stack should be.

    bus: `embedded` (the database), `kafka` (a broker of our own), or a bus's URL. database:
    Postgres of the views; empty for a server of our own. heartbeat_s: how often agents say that
    they live. policy: keys to set at the start.
    """

    directory: Path
    port: int = 0
    agents: int = 4
    gpus: int = 8
    schedulers: int = 2
    bus: str = "embedded"
    database: str = ""
    cell: str = "main"
    heartbeat_s: float = 5.0
    policy: Mapping[str, int] = field(default_factory=dict)

    @property
    def logs(self) -> Path:
        """Where processes say what they have to say."""
        return self.directory / "log"

    def agent_folder(self, node: str) -> Path:
        """An agent's own folder."""
        return self.directory / "agents" / node


@dataclass(slots=True, kw_only=True)
class Stack:
    """What runs. bus, database: URLs, with passwords. url: the API's."""

    plan: Plan
    bus: str = ""
    database: str = ""
    url: str = ""
    running: dict[str, Process] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """What its processes are told; passwords do not stand in command lines."""
        return {
            "GANGLINE_BUS": self.bus,
            "GANGLINE_DATABASE_URL": self.database,
            "GANGLINE_CELL": self.plan.cell,
            "GANGLINE_LOG_TOKEN": _kept_secret(self.plan.directory / "log-token"),
        }

    def commands(self) -> dict[str, list[str]]:
        """The command line of each process, by its name, in the order in which they start."""
        plan = self.plan
        found: dict[str, list[str]] = {}
        for index in range(plan.schedulers):
            name = f"scheduler-{index}"
            found[name] = ["scheduler", "--name", name, "--index", str(index)]
        found["projector"] = ["projector"]
        for index in range(plan.agents):
            found[f"node-{index}"] = self._agent(f"node-{index}", block=index // 2)
        found["api"] = ["api", "--port", self.url.rpartition(":")[2]]
        return found

    def _agent(self, node: str, *, block: int) -> list[str]:
        plan = self.plan
        return [
            "agent", "--node", node, "--dir", str(plan.agent_folder(node)),
            "--gpus", str(plan.gpus), "--levels", _LEVELS, "--path", f"s0,b{block}",
            "--address", "127.0.0.1", "--log-address", "127.0.0.1",
            "--checkpoints", str(plan.directory / "checkpoints"),
            "--heartbeat", f"{plan.heartbeat_s:g}s",
        ]  # fmt: skip

    def start(self, name: str) -> Process:
        """Start one of its processes and write it down."""
        log = self.plan.logs / f"{name}.log"
        process = processes.start(name, self.commands()[name], log=log, env=self.environment())
        self.running[name] = process
        self.save()
        return process

    def stop(self, names: Sequence[str]) -> None:
        """Stop some of its processes."""
        processes.stop_all([self.running[name] for name in names if name in self.running])

    def log_of(self, name: str) -> Path:
        """Where a process says what it has to say."""
        return self.plan.logs / f"{name}.log"

    def save(self) -> None:
        """Write down what runs, whole or not at all, for its owner only."""
        plan = self.plan
        state = {
            "version": 1,
            "url": self.url,
            "plan": {**asdict(plan), "directory": str(plan.directory)},
            "bus": self.bus,
            "database": self.database,
            "processes": [asdict(process) for process in self.running.values()],
        }
        _write_private(plan.directory / STATE_FILE, json.dumps(state, indent=1))


def load(directory: Path) -> Stack | None:
    """The stack of a folder as it was written down; None where there is none."""
    state = state_of(directory)
    if state is None:
        return None
    try:
        plan = Plan(**{**state["plan"], "directory": directory.resolve()})
        running = {each["name"]: Process(**each) for each in state["processes"]}
        return Stack(
            plan=plan,
            bus=state["bus"],
            database=state["database"],
            url=state["url"],
            running=running,
        )
    except (KeyError, TypeError) as error:
        raise StackError(f"{directory / STATE_FILE} is of another version: {error}") from error


def up(plan: Plan, *, tell: Tell = lambda _: None) -> Stack:
    """Bring a stack up and return when it is ready. tell: called with a line for each stage.

    A stack that cannot come up is taken down again, unless parts of it ran before; the same where
    somebody interrupts it.
    """
    before = load(plan.directory)
    ran = before is not None and any(process.alive for process in before.running.values())
    try:
        return _up(plan, tell)
    except BaseException:
        if not ran:
            _down_undisturbed(plan.directory)
        raise


def _down_undisturbed(directory: Path) -> None:
    """Take a stack down though somebody presses Ctrl-C again meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        down(directory)
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        down(directory)
    finally:
        signal.signal(signal.SIGINT, before)


def _up(plan: Plan, tell: Tell) -> Stack:
    directory = plan.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    plan = replace(plan, directory=directory)
    with folder_lock(directory):
        stack = _servers(plan, load(directory), tell)
        plan.logs.mkdir(exist_ok=True)
        stack.save()
        # Before any agent comes: it is let in by its own word, as fits a machine of one's own.
        position = prepare_log(
            stack.bus,
            plan.cell,
            values={"auto_admit": 1, **plan.policy},
            actor="operator:up",
        )
        _make_views(stack)
        for name in stack.commands():
            if name not in stack.running or not stack.running[name].alive:
                stack.start(name)
    tell("waiting for the scheduler, the views and the nodes")
    wait_until_ready(stack, position)
    return stack


def _servers(plan: Plan, before: Stack | None, tell: Tell) -> Stack:
    """Start the servers that are ours; where everything is."""
    postgres = plan.database
    if not postgres:
        folder = plan.directory / "postgres"
        if local_postgres.url(folder) is None:
            tell("starting Postgres")
        postgres = local_postgres.start(folder)
    bus = plan.bus
    if bus == "kafka":
        tell("starting Kafka (the first time it is fetched)")
        broker = local_kafka.start(plan.directory / "kafka", cache=kafka_cache())
        bus = f"kafka://{broker.bootstrap}"
    elif bus == "embedded":
        bus = postgres
    running = before.running if before is not None else {}
    api = running.get("api")
    url = before.url if before and api and api.alive else f"http://127.0.0.1:{_port(plan, before)}"
    return Stack(plan=plan, bus=bus, database=postgres, url=url, running=dict(running))


def kafka_cache() -> Path:
    """Where the broker's jars are kept: in the clone, or in the user's own cache."""
    named = os.environ.get("GANGLINE_CACHE")
    root = Path(named) if named else Path(__file__).parents[3] / ".cache"
    if not named and not (root.parent / "pyproject.toml").exists():
        root = Path.home() / ".cache" / "gangline"
    return root / "kafka"


def _port(plan: Plan, before: Stack | None) -> int:
    """The port of the API: as asked, else the one it had, else ours, else any that is free."""
    if plan.port:
        if not port_is_free(plan.port):
            raise StackError(f"port {plan.port} is taken; name another one with --port")
        return plan.port
    last = int(before.url.rpartition(":")[2]) if before and before.url else DEFAULT_PORT
    return next((port for port in (last, DEFAULT_PORT) if port_is_free(port)), 0) or free_port()


def _make_views(stack: Stack) -> None:
    """Make or migrate the tables of the views."""
    from gangline.projections.migrations import migrate  # noqa: PLC0415 - alembic is heavy

    migrate(stack.database)


def wait_until_ready(stack: Stack, position: str, *, within_s: float = READY_WITHIN_S) -> None:
    """Until a fact has gone all the way round, and all nodes are there; StackError."""
    deadline = time.monotonic() + within_s
    with Client(stack.url, patience_s=0, timeout_s=15) as client:
        _once(stack, deadline, lambda: _seen(client, position))
        _once(stack, deadline, lambda: _all_there(stack, client))


def _once(stack: Stack, deadline: float, ask: Callable[[], bool]) -> None:
    """Ask until the answer is yes; StackError when it is not in time, or when a process died."""
    last = "no answer yet"
    while time.monotonic() < deadline:
        try:
            if ask():
                return
        except GanglineError as error:
            last = str(error)
        for name, process in stack.running.items():
            if not process.alive:
                said = processes.last_words(stack.log_of(name))
                raise StackError(f"{name} has ended: {said} (see {stack.log_of(name)})")
        time.sleep(0.1)
    raise StackError(f"not ready in time: {last} (see {stack.plan.logs})")


def _seen(client: Client, position: str) -> bool:
    client.request("GET", "/v1/summary", params={"min_position": position})
    return True


def _all_there(stack: Stack, client: Client) -> bool:
    """Whether all nodes are in the fleet; one that is suspected for something else is there too."""
    ours = {name for name in stack.commands() if name.startswith("node-")}
    return ours <= {row["node"] for row in client.pages("/v1/nodes") if row["health"] != "lost"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A process of a stack, or a server of its own. pid: None for a server that has ended."""

    name: str
    running: bool
    pid: int | None
    log: Path


def parts(stack: Stack) -> list[Part]:
    """Everything that should run: the servers first, as nothing runs without them."""
    folder = stack.plan.directory
    found = []
    if not stack.plan.database:
        pid = local_postgres.process(folder / "postgres")
        log = folder / "postgres" / "postgres.log"
        found.append(Part(name="postgres", running=pid is not None, pid=pid, log=log))
    if stack.plan.bus == "kafka":
        broker = local_kafka.find(folder / "kafka")
        pid = broker.pid if broker is not None else None
        log = folder / "kafka" / "kafka.log"
        found.append(Part(name="kafka", running=pid is not None, pid=pid, log=log))
    return found + [
        Part(name=name, running=process.alive, pid=process.pid, log=stack.log_of(name))
        for name, process in stack.running.items()
    ]


def down(directory: Path) -> list[str]:
    """Stop everything and keep the data; the names of what was stopped."""
    directory = directory.resolve()
    if not directory.exists():
        return []
    with folder_lock(directory):
        stack = load(directory)
        stopped = [] if stack is None else _stop_processes(stack)
        if local_kafka.stop(directory / "kafka"):
            stopped.append("kafka")
        if local_postgres.stop(directory / "postgres"):
            stopped.append("postgres")
    return stopped


def _stop_processes(stack: Stack) -> list[str]:
    stopped = [name for name, process in stack.running.items() if process.alive]
    nodes = [name for name in stack.running if name.startswith("node-")]
    stack.stop(["api", *nodes])
    for node in nodes:
        power_off(stack.plan.agent_folder(node))
    stack.stop([name for name in stack.running if name not in nodes])
    stack.running.clear()
    stack.save()
    return stopped


def _kept_secret(path: Path) -> str:
    """A secret in a file, made once."""
    if not path.exists():
        _write_private(path, secrets.token_urlsafe(24))
    try:
        return path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError as error:
        raise StackError(f"{path} is damaged; remove it, and another is made") from error


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(text)
    new.replace(path)
