"""A cell of its own on the broker, and the broker behind a proxy."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from gangline.events.kafka import KafkaLog
from tests.support.kafka_proxy import KafkaProxy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cell() -> str:
    """Give a name that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def log(kafka_bootstrap: str, cell: str) -> Iterator[KafkaLog]:
    """Give a log with its topics."""
    log = KafkaLog(kafka_bootstrap, cell)
    log.create_topics()
    yield log
    log.close()


@pytest.fixture
def proxy(kafka_bootstrap: str) -> Iterator[KafkaProxy]:
    """Give a proxy in front of the broker."""
    proxy = KafkaProxy.before(kafka_bootstrap)
    yield proxy
    proxy.close()


@pytest.fixture
def proxied(proxy: KafkaProxy, cell: str) -> Iterator[KafkaLog]:
    """Give a second client of the same cell, which speaks through the proxy."""
    client = KafkaLog(proxy.bootstrap, cell)
    yield client
    client.close()
