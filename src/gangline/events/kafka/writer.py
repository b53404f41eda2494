"""Writing to Kafka: facts by an idempotent producer, a leader's batches in transactions."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, Producer

from gangline.events.kafka.settings import (
    MESSAGE_TIMEOUT_MS,
    SOCKET_TIMEOUT_MS,
    producer_settings,
    writer_settings,
)
from gangline.events.kafka.wire import FENCED, Delivery, produce
from gangline.events.log import (
    CommitUnknownError,
    FencedError,
    LogError,
    LogUnreachableError,
    Topic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import KafkaError

    from gangline.events.kafka.wire import Cluster, Placed
    from gangline.events.log import Message, Position

ANSWER_TIMEOUT_S = 5.0
WRITER_TIMEOUT_S = 30.0
"""How long opening a writer is tried: a transaction of a dead leader may have to time out first."""
OPENINGS = 3


class Appender:
    """An idempotent producer for any number of threads, and the thread that serves its reports."""

    def __init__(self, cluster: Cluster) -> None:
        self._producer = cluster.client(Producer, producer_settings())
        self._retired = threading.Event()
        self._lock = threading.Lock()
        self._pending: list[Delivery] = []
        self._broken: KafkaError | None = None
        self._thread = threading.Thread(target=self._serve, name="log-reports", daemon=True)
        self._thread.start()

    def append(self, placed: Sequence[Placed]) -> Sequence[Position]:
        """Append, and wait for every report; KafkaException for the first that is an error."""
        delivery = Delivery(len(placed))
        with self._lock:
            if self._broken is not None:
                raise KafkaException(self._broken)
            self._pending.append(delivery)
        try:
            produce(self._producer, placed, delivery)
            delivery.complete.wait(MESSAGE_TIMEOUT_MS / 1000 + 2)
        finally:
            with self._lock:
                self._pending.remove(delivery)
        return delivery.positions(placed)

    def retire(self) -> None:
        """Serve what is under way and end; returns at once where nothing is."""
        self._retired.set()
        if not len(self._producer):
            self._thread.join()

    def _serve(self) -> None:
        """Take reports as they come: unserved, they fill the client's queue."""
        try:
            while len(self._producer) or not self._retired.is_set():
                self._producer.poll(0.1)
            self._producer.close()
        except KafkaException as error:
            # Fatal for an idempotent client, such as the lack of a right: no report will follow.
            with self._lock:
                self._broken = error.args[0]
                for delivery in self._pending:
                    delivery.fail(error.args[0])


class _Ear:
    """Hears everything that tells of a request which the client may have sent twice.

    librdkafka repeats an EndTxn after a time-out and after a lost connection, and then says "ok". A
    time-out can be measured. Of a lost connection to the coordinator only a line of its log tells
    (with one request under way, not even error_cb is called), so the log is listened to.
    """

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.repeats: list[str] = []

    def error(self, error: KafkaError) -> None:
        """What librdkafka calls for errors of its own."""
        self.errors.append(error.str())

    def log(self, level: int, form: str, *parts: object) -> None:
        """What librdkafka calls for each line, as it would a logger: facility, client, text."""
        line = form % parts
        if line.startswith(("FAIL", "REQTMOUT")) and "TxnCoordinator" in line:
            self.repeats.append(line.rpartition("]: ")[2])


class KafkaWriter:
    """The `Writer` of a role: one transactional client. After any trouble it is done."""

    def __init__(self, cluster: Cluster, role: str) -> None:
        self._cluster = cluster
        self._role = role
        self._producer: Producer | None = None
        for _ in range(OPENINGS):
            self._ear = _Ear()
            self._producer = self._open(self._ear)
            if not self._ear.repeats:
                break
            # The same trouble once more would not be told again within half a minute.
            self._producer = None
        if self._producer is None:
            raise LogUnreachableError(
                f"Kafka at {cluster.bootstrap} keeps losing connections: {self._ear.repeats[0]}"
            )
        # A broker that is down says so while the client looks around; that is no trouble of ours.
        self._ear.errors.clear()

    def commit(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Make all of them visible, or none; FencedError and CommitUnknownError end the writer.

        Fenced says that a newer writer exists; as after unknown, the log says what is in it.
        """
        if self._producer is None:
            raise LogError("this writer is closed or has seen trouble: open a new one")
        if not messages:
            return ()
        placed = self._cluster.place(messages)
        try:
            positions, took_ms = _transact(self._producer, placed)
        except KafkaException as error:
            raise self._ended_by(error.args[0]) from error
        heard = [*self._ear.repeats, *self._ear.errors]
        if took_ms >= SOCKET_TIMEOUT_MS or heard:
            # Its request may have been sent twice, and one copy may still be on its way.
            self.close()
            reason = heard[0] if heard else f"the answer took {took_ms:.0f} ms"
            raise CommitUnknownError(f"a commit's outcome is not known: {reason}")
        return positions

    def close(self) -> None:
        """Drop the client as it is; further calls are errors. The next writer aborts for it."""
        # Its own close() would first abort and flush: to be polite to a broker that may be gone,
        # and to send what must not be sent. Without a reference it is destroyed as it stands.
        self._producer = None

    def _open(self, ear: _Ear) -> Producer:
        """A client that has settled and fenced the older writer's."""
        settings = writer_settings(self._cluster.cell, self._role)
        producer = self._cluster.client(
            Producer, {**settings, "error_cb": ear.error, "logger": ear}
        )
        deadline = time.monotonic() + WRITER_TIMEOUT_S
        while True:
            try:
                _connect(producer, self._cluster.name(Topic.DECISIONS), until=deadline)
                # Without a time of ours: others put the client out of step with the broker.
                producer.init_transactions()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise self._cluster.explain(error) from error
            else:
                producer.poll(0)
                return producer

    def _ended_by(self, error: KafkaError) -> LogError:
        """What to raise after an error; drops the client."""
        self.close()
        if error.code() in FENCED:
            return FencedError(f"a newer {self._role} writes to cell {self._cluster.cell}")
        return CommitUnknownError(f"a commit's outcome is not known: {error.str()}")


def _connect(producer: Producer, topic: str, *, until: float) -> None:
    """Connect to a broker under its own name; KafkaException where there is none.

    Where init_transactions finds no broker it looks again only after half a second. The first
    answer may come over the connection to the address that we were given, which the client gives up
    as soon as it knows the broker's name: it shows no number then, and the next one is asked for.
    """
    while producer.list_topics(topic, ANSWER_TIMEOUT_S).orig_broker_id < 0:
        if time.monotonic() > until:
            return


def _transact(producer: Producer, placed: Sequence[Placed]) -> tuple[Sequence[Position], float]:
    """One transaction; positions, and how long its commit took in milliseconds."""
    delivery = Delivery(len(placed))
    producer.begin_transaction()
    produce(producer, placed, delivery)
    deadline = time.monotonic() + MESSAGE_TIMEOUT_MS / 1000 + 2
    while not delivery.complete.is_set() and time.monotonic() < deadline:
        # Not flush(): after a fatal error it goes on to call us back, with the error pending.
        producer.poll(0.1)
    positions = delivery.positions(placed)
    began = time.monotonic()
    producer.commit_transaction()
    took_ms = (time.monotonic() - began) * 1000
    producer.poll(0)  # what happened on the way is told here
    return positions, took_ms
