"""Three real brokers on this machine, each in a folder of its own, that a test may kill and start.

They are set up as `docs/kafka.md` tells operators to, only that a dead broker is missed sooner.
"""

from __future__ import annotations

import base64
import os
import secrets
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gangline.cli import local_kafka
from gangline.cli.local_process import Lifetime, LocalServerError, free_port
from tests.support.kafka import CACHE, no_broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NODES = (1, 2, 3)
AS_DOCUMENTED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
    "transactional.id.expiration.ms": "604800000",
}
_SOONER = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


class KafkaCluster:
    """Brokers 1 to 3, each also a controller; addresses stay the same through restarts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = {node: free_port() for node in NODES}
        self._controllers = {node: free_port() for node in NODES}
        self._identity = "g" + base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]

    @property
    def bootstrap(self) -> str:
        """Where clients are to connect: all three."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def start(self, *nodes: int) -> None:
        """Start these brokers (all, where none is named) at the same time, and wait for them.

        One alone would not answer: a majority must be there first.
        """
        chosen = nodes or NODES
        with ThreadPoolExecutor(len(chosen)) as pool:
            list(pool.map(self._start, chosen))

    def kill(self, node: int) -> None:
        """End a broker as a power cut would, as far as its process goes."""
        self._signal(node, signal.SIGKILL)
        local_kafka.stop(self._folder(node))

    def pause(self, node: int) -> None:
        """Have a broker stand still; its connections stay open."""
        self._signal(node, signal.SIGSTOP)

    def go_on(self, node: int) -> None:
        """Let a paused broker go on."""
        self._signal(node, signal.SIGCONT)

    def running(self) -> list[int]:
        """The brokers whose processes are there."""
        return [node for node in NODES if local_kafka.find(self._folder(node))]

    def close(self) -> None:
        """Kill all of them: what they would tidy up goes with their folders."""
        for node in self.running():
            self.kill(node)

    def _folder(self, node: int) -> Path:
        return self._directory / f"broker-{node}"

    def _signal(self, node: int, number: signal.Signals) -> None:
        broker = local_kafka.find(self._folder(node))
        if broker is not None:
            os.kill(broker.pid, number)

    def _start(self, node: int) -> None:
        folder = self._folder(node)
        folder.mkdir(exist_ok=True)
        settings = self._settings(node)
        self._format(node, settings)
        local_kafka.start(
            folder,
            cache=CACHE,
            port=self._ports[node],
            settings=settings,
            lifetime=Lifetime.WITH_STARTER,
        )

    def _settings(self, node: int) -> dict[str, str]:
        here, controller = self._ports[node], self._controllers[node]
        voters = [f"{each}@127.0.0.1:{port}" for each, port in self._controllers.items()]
        return {
            **AS_DOCUMENTED,
            **_SOONER,
            "node.id": str(node),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://127.0.0.1:{here},CONTROLLER://127.0.0.1:{controller}",
        }

    def _format(self, node: int, settings: Mapping[str, str]) -> None:
        """Format a new folder with the cluster's id, which all three must share."""
        folder = self._folder(node)
        if (folder / "data" / "meta.properties").exists():
            return
        file = folder / "format.properties"
        wanted = {**local_kafka.SETTINGS, **settings, "log.dirs": str(folder / "data")}
        file.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
        jars = local_kafka.fetch(CACHE)
        command = [local_kafka._tool("java", "Java 17"), "-cp", f"{jars}/*"]
        command += ["kafka.tools.StorageTool", "format", "-t", self._identity, "-c", str(file)]
        local_kafka._run(command, folder=folder, log=folder / "kafka.log", within_s=180)


@contextmanager
def started(directory: Path) -> Iterator[KafkaCluster]:
    """Three running brokers; the test is skipped where there are none to be had."""
    cluster = KafkaCluster(directory)
    try:
        cluster.start()
    except LocalServerError as error:
        no_broker(error)
    else:
        yield cluster
    finally:
        cluster.close()
