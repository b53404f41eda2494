"""The floor that latencies are held against: one record produced, committed and consumed, bare.

Nothing of Gangline is in it but the settings, which are the quick ones: with librdkafka's own, each
transaction would take some 100 ms longer, and everything would look fast beside it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from gangline.events.kafka.settings import (
    admin_settings,
    reader_settings,
    settings_of,
    writer_settings,
)
from gangline.events.layout import check_cell
from gangline.events.log import LogUnreachableError

if TYPE_CHECKING:
    from collections.abc import Mapping

SEEN_WITHIN_S = 30.0


class BareLoop:
    """A transactional producer and a consumer of committed records, on a topic of their own."""

    def __init__(self, bootstrap: str, cell: str, *, environ: Mapping[str, str]) -> None:
        connection = {**settings_of(environ), "bootstrap.servers": bootstrap}
        self._topic = f"gangline.{check_cell(cell)}.floor"
        admin = AdminClient({**connection, **admin_settings()})
        (made,) = admin.create_topics([NewTopic(self._topic, 1, -1)]).values()
        made.result()
        self._producer = Producer({**connection, **writer_settings(cell, "floor")})
        self._producer.init_transactions()
        self._consumer = Consumer({**connection, **reader_settings(cell)})
        self._consumer.assign([KafkaPartition(self._topic, 0, 0)])
        self.round_s()  # the first one also connects

    def round_s(self) -> float:
        """One round, from before the record is produced until it is seen; in seconds."""
        began = time.monotonic()
        self._producer.begin_transaction()
        self._producer.produce(self._topic, value=b"x" * 200, partition=0)
        self._producer.commit_transaction()
        while time.monotonic() < began + SEEN_WITHIN_S:
            message = self._consumer.poll(1)
            if message is not None and message.error() is None:
                return time.monotonic() - began
        raise LogUnreachableError("a committed record was not seen")

    def close(self) -> None:
        """Let go of both clients."""
        self._consumer.close()
        self._producer.close()
