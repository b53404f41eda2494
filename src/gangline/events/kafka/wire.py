"""What all clients of the Kafka log share: names, errors in our words, and deliveries."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from gangline.events import cloud_events
from gangline.events.kafka.settings import MESSAGE_TIMEOUT_MS
from gangline.events.layout import check_cell, place, topic_name
from gangline.events.log import (
    LogError,
    LogUnreachableError,
    Message,
    Position,
    Topic,
    TopicPartition,
    TopicsMissingError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from confluent_kafka import Message as KafkaMessage
    from confluent_kafka import Producer

    from gangline.events.kafka.framing import Framing

    Placed: TypeAlias = tuple[str, TopicPartition, Message]
    """A message with its topic's whole name and its partition."""

_T = TypeVar("_T")

_NO_OFFSET = -1001

# Errors that the client itself makes have names that begin with an underscore.
PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - see above
_TIMED_OUT = KafkaError._MSG_TIMED_OUT  # noqa: SLF001 - see above
_QUEUE_FULL = KafkaError._QUEUE_FULL  # noqa: SLF001 - see above
MISSING = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - see above
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - see above
}
FENCED = {
    KafkaError._FENCED,  # noqa: SLF001 - see above
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
}
LEADER_NOT_AVAILABLE = KafkaError.LEADER_NOT_AVAILABLE
MOVED = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
}
"""Another broker leads a partition, or is about to: who asks again is soon answered."""
UNANSWERED = {
    KafkaError._TRANSPORT,  # noqa: SLF001 - see above
    KafkaError._TIMED_OUT,  # noqa: SLF001 - see above
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - see above
}
"""These say that no answer came; error_cb was told why."""
UNCONFIRMED = {
    _TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
OUT_OF_RANGE = {
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - see above
    KafkaError.OFFSET_OUT_OF_RANGE,
}
FORBIDDEN = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001 - see above
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class SettingsError(LogError):
    """Kafka's client does not take a setting of the connection; the message says which, and why."""


class RegistryAwayError(LogUnreachableError):
    """A schema registry is needed and does not answer; the message says which, and why."""


class Cluster:
    """What all clients of one log share: where the brokers are, and the names of the topics.

    framing: gives values the header of a schema registry and takes it off; None leaves them.
    """

    def __init__(
        self,
        bootstrap: str,
        cell: str,
        settings: Mapping[str, str],
        *,
        framing: Framing | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.cell = check_cell(cell)
        self.framing = framing
        self._settings = settings
        self._process_id = os.getpid()
        self._names = {str(topic): topic_name(cell, topic) for topic in Topic}
        self._topics = {name: topic for topic, name in self._names.items()}

    def conf(self, ours: Mapping[str, Any]) -> dict[str, Any]:
        """A client's whole configuration; what exactly-once rests on wins."""
        if os.getpid() != self._process_id:
            raise LogError("a Kafka log was opened before a fork: open one in each process")
        return {**self._settings, **ours, "bootstrap.servers": self.bootstrap}

    def client(self, kind: Callable[[dict[str, Any]], _T], ours: Mapping[str, Any]) -> _T:
        """A client with our settings; SettingsError where it does not take those it was given."""
        try:
            return kind(self.conf(ours))
        except KafkaException as error:
            raise SettingsError(
                f"Kafka's client refuses a setting of its connection ({error.args[0].str()}): they "
                "come from GANGLINE_KAFKA_* and the file that GANGLINE_KAFKA_CONFIG names"
            ) from error

    def native(self, partition: TopicPartition, offset: int = _NO_OFFSET) -> KafkaPartition:
        """A partition, perhaps with an offset, in the client's own type."""
        return KafkaPartition(self._names[partition.topic], partition.partition, offset)

    def ours(self, topic: str | None, partition: int | None) -> TopicPartition:
        """The partition that a client means, by its short name."""
        return TopicPartition(self._topics[topic or ""], -1 if partition is None else partition)

    def name(self, topic: str) -> str:
        """A topic's whole name."""
        return self._names[topic]

    def place(self, messages: Sequence[Message]) -> list[Placed]:
        """Each message with its topic's whole name and its partition."""
        return [
            (self._names[partition.topic], partition, self._on_the_wire(message))
            for partition, message in zip(place(messages), messages, strict=True)
        ]

    def _on_the_wire(self, message: Message) -> Message:
        """The message as it is sent: framed, and with the headers that it does not bring."""
        value = message.value if self.framing is None else self.framing.framed(message.value)
        given = {name for name, _ in message.headers}
        added = cloud_events.attributes(message.value, cell=self.cell)
        headers = (*message.headers, *(each for each in added if each[0] not in given))
        return replace(message, value=value, headers=headers)

    def explain(self, error: KafkaException, heard: Sequence[KafkaError] = ()) -> LogError:
        """An error of Kafka's as the log's, in one line. heard: what error_cb was told."""
        reasons = [error.args[0], *heard]
        reason = next((each for each in reasons if each.code() in FORBIDDEN), None)
        if reason is None:
            reason = reasons[-1] if error.args[0].code() in UNANSWERED else error.args[0]
        code, text = reason.code(), reason.str()
        if code in MISSING:
            return TopicsMissingError(
                f"cell {self.cell} has no topics on {self.bootstrap}: `gangline init` makes them"
            )
        if code in FORBIDDEN:
            return LogError(
                f"Kafka at {self.bootstrap} forbids it ({text}): `gangline acl --print` shows what "
                "each role needs, GANGLINE_KAFKA_* says who we are"
            )
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            return LogError(
                f"Kafka at {self.bootstrap} takes no record of this size ({text}): "
                "`gangline init` says which topic has too small a max.message.bytes"
            )
        if code in UNCONFIRMED:
            return LogUnreachableError(
                f"Kafka at {self.bootstrap} does not confirm what is written ({text}): too few of "
                "its brokers are up and in sync; what was confirmed is kept"
            )
        return LogUnreachableError(
            f"Kafka at {self.bootstrap} is not reachable ({text}): start one with "
            "`make up BUS=kafka`, or name another one by --bus kafka://host:port"
        )


class Delivery:
    """The delivery reports of some messages, handed over by whatever thread serves the client."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self.complete = threading.Event()
        self.error: KafkaError | None = None
        self._offsets = [-1] * count
        self._missing = count

    def report(self, index: int, error: KafkaError | None, message: KafkaMessage) -> None:
        """One message's report. Calls no client: inside a callback that is not allowed."""
        with self._lock:
            if error is not None:
                self.error = self.error or error
            else:
                self._offsets[index] = message.offset() or 0
            self._missing -= 1
            if self._missing == 0:
                self.complete.set()

    def fail(self, error: KafkaError) -> None:
        """No more reports will come."""
        self.error = self.error or error
        self.complete.set()

    def positions(self, placed: Sequence[Placed]) -> list[Position]:
        """Where the messages stand, when all are there; else KafkaException."""
        if self.error is not None:
            raise KafkaException(self.error)
        if self._missing:
            raise KafkaException(KafkaError(_TIMED_OUT))
        return [
            Position(*each[1], offset) for each, offset in zip(placed, self._offsets, strict=True)
        ]


def produce(producer: Producer, placed: Sequence[Placed], delivery: Delivery) -> None:
    """Hand messages to a client; waits where its queue is full, KafkaException when it stays so."""
    deadline = time.monotonic() + MESSAGE_TIMEOUT_MS / 1000
    for index, (name, partition, message) in enumerate(placed):
        while True:
            try:
                producer.produce(
                    name,
                    value=message.value,
                    key=message.key,
                    partition=partition.partition,
                    headers=list(message.headers),
                    on_delivery=partial(delivery.report, index),
                )
                break
            except BufferError as full:
                if time.monotonic() > deadline:
                    raise KafkaException(KafkaError(_QUEUE_FULL)) from full
                producer.poll(0.01)
