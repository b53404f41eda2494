"""A real Kafka for tests, from the first of these that there is.

1. The broker that GANGLINE_TEST_KAFKA names (`host:port`).
2. A container, where a Docker engine answers.
3. Apache Kafka from its jars, kept in `.cache/kafka`; needs Java 17, and Maven the first time.

Where none can be had, tests that need it are skipped on a laptop, and fail under CI.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gangline.cli import local_kafka
from gangline.cli.local_process import Lifetime, LocalServerError, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "kafka"


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """Give the address of a broker that is up; topics are the test's own to name."""
    named = os.environ.get("GANGLINE_TEST_KAFKA")
    if named:
        yield named
        return
    try:
        with _container() if _docker_answers() else _broker() as bootstrap:
            yield bootstrap
    except LocalServerError as error:
        no_broker(error)


def no_broker(error: LocalServerError) -> NoReturn:
    """Skip the test on a laptop; under CI, and where chaos was asked for, it fails."""
    if os.environ.get("CI") or os.environ.get("GANGLINE_CHAOS_SEEDS"):
        pytest.fail(str(error))
    pytest.skip(str(error))


@contextmanager
def _broker() -> Iterator[str]:
    """Run a broker from the jars, in a folder that goes with it."""
    directory = Path(tempfile.mkdtemp(prefix="gangline-kafka-"))
    try:
        broker = local_kafka.start(directory, cache=CACHE, lifetime=Lifetime.WITH_STARTER)
        yield broker.bootstrap
    finally:
        local_kafka.stop(directory)
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _container() -> Iterator[str]:
    """Run the same version in a container, on a port of this machine that it can advertise."""
    # Imported where it is used: it is slow, and most machines that run tests have no Docker.
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415
    from testcontainers.core.waiting_utils import wait_for_logs  # noqa: PLC0415

    port = free_port()
    container = (
        DockerContainer(f"apache/kafka:{local_kafka.VERSION}")
        .with_bind_ports(9092, port)
        .with_env("KAFKA_LISTENERS", "PLAINTEXT://:9092,CONTROLLER://:9093")
        .with_env("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://127.0.0.1:{port}")
    )
    settings = local_kafka.SETTINGS | {"controller.quorum.voters": "1@localhost:9093"}
    for name, value in settings.items():
        container.with_env("KAFKA_" + name.upper().replace(".", "_"), value)
    with container:
        wait_for_logs(container, "Kafka Server started", timeout=60)
        yield f"127.0.0.1:{port}"


def _docker_answers() -> bool:
    """Tell whether there is a Docker engine to ask for a container: it answers a ping."""
    kind, _, where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    host, _, port = where.partition(":")
    try:
        with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as connection:
            connection.settimeout(5)
            connection.connect(where if kind == "unix" else (host, int(port or 2375)))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except (OSError, ValueError):
        return False
