"""A real Kafka broker under a folder: Apache Kafka in KRaft mode, from its jars, without Docker.

    directory/server.properties   its settings, written at each start
    directory/server.json         process id and port
    directory/kafka.log           what the broker says
    directory/data                the log segments
    CACHE/kafka-VERSION/*.jar     the jars, fetched once by Maven (43 MB)

One node is broker and controller; it needs Java 17 and, the first time, Maven. It is meant for
tests and for `make demo BUS=kafka`: replication is 1, so it is no place for what must not be lost.
Nothing here speaks Kafka but the probe of `_answers`; the driver is `gangline.events.kafka`.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.cli.local_process import (
    Lifetime,
    LocalServerError,
    complaint,
    dismiss_guard,
    end,
    folder_lock,
    free_port,
    guard,
    is_ours,
    port_is_free,
    spawn,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = "4.1.1"
_FETCH_WITHIN_S = 600.0
# A broker that cannot start ends by itself; these only bound one on a machine that is too busy.
_FORMAT_WITHIN_S = 180.0
_START_WITHIN_S = 180.0
_STOP_WITHIN_S = 20.0
# Small and quick to start: a test's broker lives for a minute on a shared machine.
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_SAY = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)

# One node, so nothing can have a replica; few partitions inside, as each is a folder of files.
SETTINGS: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running broker: its process id, and where clients reach it."""

    pid: int
    port: int

    @property
    def bootstrap(self) -> str:
        """The address that a client's `bootstrap.servers` takes."""
        return f"127.0.0.1:{self.port}"


def start(
    directory: Path,
    *,
    cache: Path,
    port: int = 0,
    settings: Mapping[str, str] | None = None,
    lifetime: Lifetime = Lifetime.UNTIL_STOPPED,
) -> Broker:
    """Start the broker of this folder, or find it running; it answers when this returns.

    cache: where the jars are kept. port: 0 takes the port it had before, or any free one.
    settings: of server.properties, over ours. Raises LocalServerError.
    """
    directory = directory.resolve()
    java = _tool("java", "Java 17 (Debian: openjdk-17-jre-headless)")
    jars = fetch(cache)
    with folder_lock(directory):
        running = _find(directory)
        if running is not None:
            return running
        chosen = _port(directory, port)
        _configure(directory, chosen, settings or {})
        _format(directory, java, jars)
        broker = _launch(directory, java, jars, chosen)
    if lifetime is Lifetime.WITH_STARTER:
        guard(broker.pid, with_signal=signal.SIGKILL)
    return broker


def stop(directory: Path) -> bool:
    """Stop the broker of this folder, whoever started it; False when none runs."""
    directory = directory.resolve()
    if not directory.exists():
        return False
    with folder_lock(directory):
        running = _find(directory)
        if running is None:
            return False
        word = str(_properties(directory))
        end(running.pid, word, with_signal=signal.SIGTERM, within_s=_STOP_WITHIN_S)
        dismiss_guard(running.pid)
        return True


def find(directory: Path) -> Broker | None:
    """Find the broker that runs under this folder; None when none does."""
    return _find(directory.resolve())


def fetch(cache: Path) -> Path:
    """Have Maven fetch the jars, unless they are there; return their folder.

    Raises LocalServerError when there is no Maven, or it cannot fetch them.
    """
    cache = cache.resolve()
    jars = cache / f"kafka-{VERSION}"
    if jars.exists():
        return jars
    with folder_lock(cache):
        if not jars.exists():
            _fetch(cache, jars)
    return jars


def _fetch(cache: Path, jars: Path) -> None:
    """Fetch into a folder beside it, so that half a set of jars is never taken for a whole one."""
    maven = _tool("mvn", "Maven (Debian: maven) to fetch it the first time")
    new = cache / "fetching"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    pom = files("gangline.cli").joinpath("local_kafka_pom.xml").read_text(encoding="utf-8")
    (new / "pom.xml").write_text(pom, encoding="utf-8")
    command = [
        maven, "--batch-mode", "--quiet", "--strict-checksums",
        f"-Dkafka.version={VERSION}", f"-DoutputDirectory={new / 'jars'}",
        "dependency:copy-dependencies",
    ]  # fmt: skip
    _run(command, folder=new, log=cache / "maven.log", within_s=_FETCH_WITHIN_S)
    (new / "jars").rename(jars)
    shutil.rmtree(new, ignore_errors=True)


def _tool(name: str, what: str) -> str:
    """Find a program, also under JAVA_HOME."""
    home = os.environ.get("JAVA_HOME")
    beside = shutil.which(name, path=str(Path(home) / "bin")) if home else None
    found = beside or shutil.which(name)
    if found is None:
        raise LocalServerError(f"a Kafka broker of its own needs {what}; there is no `{name}` here")
    return found


def _run(command: list[str], *, folder: Path, log: Path, within_s: float) -> None:
    """Run a tool to its end, its output going to `log`."""
    name = Path(command[0]).name
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=within_s,
            )
        except subprocess.TimeoutExpired:
            raise LocalServerError(f"{name} took over {within_s:.0f} s (see {log})") from None
    if done.returncode != 0:
        raise LocalServerError(f"{name} failed: {complaint(log)} (see {log})")


# ---------------------------------------------------------------- one folder's broker


def _properties(directory: Path) -> Path:
    """Name the settings' file, which also stands in the command line as the broker's identity."""
    return directory / "server.properties"


def _find(directory: Path) -> Broker | None:
    """Read server.json; None when its process is gone."""
    last = _last(directory)
    word = str(_properties(directory))
    return last if last is not None and is_ours(last.pid, word) else None


def _last(directory: Path) -> Broker | None:
    """Read server.json, whether or not its process runs."""
    try:
        return Broker(**json.loads((directory / "server.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise LocalServerError(f"{directory / 'server.json'} is damaged") from error


def _port(directory: Path, port: int) -> int:
    """Choose the port: the one asked for, else the last one, else any."""
    if port and not port_is_free(port):
        raise LocalServerError(f"Kafka cannot listen on port {port}: it is taken")
    last = _last(directory)
    if not port and last is not None and port_is_free(last.port):
        return last.port
    return port or free_port()


def _configure(directory: Path, port: int, settings: Mapping[str, str]) -> None:
    """Write server.properties."""
    controller = free_port()
    wanted = {
        **SETTINGS,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(directory / "data"),
        **settings,
    }
    lines = [f"{name}={value}\n" for name, value in sorted(wanted.items())]
    _properties(directory).write_text("".join(lines), encoding="utf-8")


def _format(directory: Path, java: str, jars: Path) -> None:
    """Format the data folder, once; a half-formatted one is formatted again."""
    if (directory / "data" / "meta.properties").exists():
        return
    shutil.rmtree(directory / "data", ignore_errors=True)
    # A cluster's id is sixteen bytes; a leading "-" would be read as an option.
    identity = "-"
    while identity.startswith("-"):
        identity = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    command = [
        java, "-XX:TieredStopAtLevel=1", *_SAY, "-cp", f"{jars}/*", "kafka.tools.StorageTool",
        "format", "-t", identity, "-c", str(_properties(directory)),
    ]  # fmt: skip
    log = directory / "kafka.log"
    _run(command, folder=directory, log=log, within_s=_FORMAT_WITHIN_S)


def _launch(directory: Path, java: str, jars: Path, port: int) -> Broker:
    """Start the broker and wait until it answers."""
    log = directory / "kafka.log"
    word = str(_properties(directory))
    command = [java, *_JVM, *_SAY, "-cp", f"{jars}/*", "kafka.Kafka", word]
    broker = Broker(pid=spawn(command, log=log, env=os.environ, user=None), port=port)
    new = directory / "server.json.new"
    new.write_text(json.dumps(asdict(broker)), encoding="utf-8")
    new.replace(directory / "server.json")
    wait_until(lambda: _answers(port) or not is_ours(broker.pid, word), within_s=_START_WITHIN_S)
    if not _answers(port):
        end(broker.pid, word, with_signal=signal.SIGKILL, within_s=5.0)
        raise LocalServerError(f"Kafka did not start: {complaint(log)} (see {log})")
    return broker


def _answers(port: int) -> bool:
    """Ask the broker which requests it knows (ApiVersions 0); an open port alone says too little.

    The request: length, key 18, version 0, correlation 1, no client id. The answer: length,
    correlation, error code, and the list.
    """
    request = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(request)
            head = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return head[4:] == struct.pack(">ih", 1, 0)
