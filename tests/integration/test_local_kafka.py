"""A Kafka of our own belongs to a folder: anybody who knows it can find and stop the broker."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from gangline.cli import local_kafka
from gangline.cli.local_process import Lifetime, LocalServerError, free_port, wait_until
from tests.support.kafka import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a broker's folder; whatever runs there is stopped."""
    if shutil.which("java") is None and not os.environ.get("CI"):
        pytest.skip("a Kafka broker of its own needs Java 17")
    yield tmp_path / "kafka"
    local_kafka.stop(tmp_path / "kafka")


def _send(bootstrap: str, topic: str, value: bytes) -> None:
    """Write one record in a transaction of its own."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"writer-of-{topic}", "linger.ms": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value=value)
    producer.commit_transaction()


def _first(bootstrap: str, topic: str) -> bytes | None:
    """Read the first committed record of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(30)
        return message.value() if message is not None else None
    finally:
        consumer.close()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_folder_s_broker_is_started_found_restarted_and_stopped(folder: Path) -> None:
    """One broker's whole life: what is committed outlives it, its address stays the same."""
    broker = local_kafka.start(folder, cache=CACHE, lifetime=Lifetime.WITH_STARTER)
    assert local_kafka.start(folder, cache=CACHE) == broker
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(30)
    _send(broker.bootstrap, "kept", b"seven")

    assert local_kafka.stop(folder)
    assert local_kafka.find(folder) is None
    assert not local_kafka.stop(folder)

    again = local_kafka.start(folder, cache=CACHE, lifetime=Lifetime.WITH_STARTER)
    assert again.bootstrap == broker.bootstrap
    assert _first(again.bootstrap, "kept") == b"seven"

    os.kill(again.pid, 9)
    assert wait_until(lambda: local_kafka.find(folder) is None, within_s=10)
    third = local_kafka.start(folder, cache=CACHE, lifetime=Lifetime.WITH_STARTER)
    assert _first(third.bootstrap, "kept") == b"seven"


@pytest.mark.kafka
def test_a_wrong_setting_is_told_in_one_line(folder: Path) -> None:
    """What the broker says of its trouble is in the message, and nothing keeps running."""
    with pytest.raises(LocalServerError, match=r"process\.roles|process roles"):
        local_kafka.start(folder, cache=CACHE, settings={"process.roles": "bystander"})
    assert local_kafka.find(folder) is None


def test_without_java_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line names the missing program and its package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(LocalServerError, match="openjdk-17-jre-headless"):
        local_kafka.start(tmp_path / "kafka", cache=tmp_path)


def test_without_maven_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first start needs it; a half-fetched cache is never taken for a whole one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalServerError, match="Debian: maven"):
        local_kafka.fetch(tmp_path)
    assert not list(tmp_path.glob("kafka-*"))


def test_a_failing_maven_leaves_no_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last words are in the message, and the next try starts afresh."""
    fake = tmp_path / "bin" / "mvn"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho '[ERROR] the network is gone' && exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(LocalServerError, match=r"mvn failed: .*the network is gone"):
        local_kafka.fetch(tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("kafka-*"))


def test_a_taken_port_is_refused(folder: Path, kafka_bootstrap: str) -> None:
    """A port that somebody else has is one clear error, before anything is started."""
    port = int(kafka_bootstrap.rpartition(":")[2])
    assert port != free_port()
    with pytest.raises(LocalServerError, match=f"port {port}: it is taken"):
        local_kafka.start(folder, cache=CACHE, port=port)
