"""Opening a writer: half a second is lost where the client has no broker to ask."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gangline.events.kafka import writer
from gangline.events.kafka.writer import KafkaWriter

if TYPE_CHECKING:
    from gangline.events.kafka import KafkaLog

BOOTSTRAP = -1
"""How an answer is marked that came over the address that the client was given."""


class Client:
    """Stands for librdkafka's producer: what it is asked, and who answers."""

    def __init__(self, answers: list[int]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    def list_topics(self, _topic: str, _timeout_s: float) -> Any:
        """The next answer."""
        self.asked.append("list_topics")
        return SimpleNamespace(orig_broker_id=self._answers.pop(0))

    def init_transactions(self) -> None:
        """Asked for."""
        self.asked.append("init_transactions")

    def poll(self, _timeout_s: float) -> int:
        """Nothing happened."""
        return 0


@pytest.mark.parametrize(
    ("answers", "times"), [([3], 1), ([BOOTSTRAP, 1], 2), ([BOOTSTRAP, BOOTSTRAP, 1], 3)]
)
def test_transactions_begin_over_a_connection_that_stays(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch, answers: list[int], times: int
) -> None:
    """The client drops the one to the given address when it has learnt the broker's name."""
    client = Client(answers)
    monkeypatch.setattr(writer, "Producer", lambda _: client)
    KafkaWriter(log._cluster, "scheduler")
    assert client.asked == ["list_topics"] * times + ["init_transactions"]


def test_a_real_client_is_connected_when_its_transactions_begin(log: KafkaLog, cell: str) -> None:
    """Whoever answered first, a broker that has a number answers at last."""
    for _ in range(10):
        opened = log.writer("scheduler")
        assert opened._producer is not None
        asked = opened._producer.list_topics(f"gangline.{cell}.decisions", 5)
        assert asked.orig_broker_id >= 0
        opened.close()


def test_the_wait_for_a_connection_ends(log: KafkaLog) -> None:
    """With a broker that never gets a number, opening goes on as it can."""
    client: Any = Client([BOOTSTRAP])
    writer._connect(client, log._cluster.name("decisions"), until=time.monotonic())
    assert client.asked == ["list_topics"]
