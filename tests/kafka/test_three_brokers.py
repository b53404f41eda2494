"""Three brokers as in production: one may go, two may not, and nothing acknowledged is lost."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from gangline.events.kafka import KafkaLog
from gangline.events.log import Topic
from tests.kafka.history import Clients, judge
from tests.kafka.test_topics import config_of
from tests.support.kafka_cluster import NODES, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    """Give three running brokers."""
    directory = Path(tempfile.mkdtemp(prefix="gangline-kafka-3-"))
    with started(directory) as cluster:
        yield cluster
    shutil.rmtree(directory, ignore_errors=True)


def leader_of(bootstrap: str, topic: str) -> int:
    """The broker that leads the topic's first partition."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic=topic, timeout=10)
    return int(found.topics[topic].partitions[0].leader)


def test_one_may_go_and_two_may_not(cluster: KafkaCluster) -> None:
    """With one away writes go on; with two away they stop, said in one line; then they go on."""
    log = KafkaLog(cluster.bootstrap, "main")
    log.create_topics()
    for topic in Topic:
        assert config_of(cluster.bootstrap, "main", topic)["min.insync.replicas"] == "2"
    first = leader_of(cluster.bootstrap, "gangline.main.decisions")
    second = next(node for node in NODES if node != first)
    with Clients(log) as clients:
        clients.progress()
        cluster.kill(first)
        clients.progress()

        cluster.kill(second)
        clients.complaint()
        known = len(clients.facts), len(clients.batches)
        line = clients.complaint()
        assert "\n" not in line
        assert "too few of its brokers" in line
        assert (len(clients.facts), len(clients.batches)) == known

        cluster.start(first, second)
        clients.progress()
    judge(log, clients)
    log.close()
