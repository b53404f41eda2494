"""One cell's topics on Kafka: made, checked, and asked for their offsets."""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from gangline.events.kafka.reader import KafkaReader
from gangline.events.kafka.settings import (
    admin_settings,
    config_differences,
    reader_settings,
    topic_config,
)
from gangline.events.kafka.wire import FORBIDDEN, LEADER_NOT_AVAILABLE, MOVED, Cluster
from gangline.events.kafka.writer import Appender, KafkaWriter
from gangline.events.layout import check_cursors, partitions_of, resolve_cursor
from gangline.events.log import (
    TOPIC_SETTINGS,
    LogError,
    LogUnreachableError,
    Topic,
    TopicsMissingError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gangline.events.kafka.framing import Framing
    from gangline.events.log import Message, Position, TopicPartition

_T = TypeVar("_T")

ANSWER_TIMEOUT_S = 5.0
MADE_WITHIN_S = 30.0
"""How long new topics may take until each partition has a leader, on brokers that are busy."""
TRY_TIMEOUT_S = 2.0
QUICK_TIMEOUT_S = 1.0
_END_OF_TIME = -1
_COMMITTED = IsolationLevel.READ_COMMITTED
_WRITTEN = IsolationLevel.READ_UNCOMMITTED
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class KafkaLog:
    """A `Log` on the brokers at `bootstrap` (host:port, separated by commas).

    settings: of the connection, such as TLS and SASL (`settings.settings_of`). framing: values
    carry the header of a schema registry. Nothing is contacted before it is needed.
    """

    def __init__(
        self,
        bootstrap: str,
        cell: str,
        *,
        settings: Mapping[str, str] | None = None,
        framing: Framing | None = None,
    ) -> None:
        self._cluster = Cluster(bootstrap, cell, settings or {}, framing=framing)
        self._lock = threading.Lock()
        self._found: set[str] = set()
        self._checked = False
        self._admin: AdminClient | None = None
        self._asker: Consumer | None = None
        self._heard: deque[KafkaError] = deque(maxlen=8)
        self._appender: Appender | None = None

    def create_topics(self) -> None:
        """Make what is missing; TopicsMissingError where one exists and is laid out otherwise."""
        metadata = self._ask(lambda admin: admin.list_topics(timeout=ANSWER_TIMEOUT_S))
        for each in Topic:
            if found := metadata.topics.get(self._cluster.name(each)):
                self._check_partitions(each, len(found.partitions))
        replicas = min(3, len(metadata.brokers))
        configs = {each: topic_config(each, replicas=replicas) for each in Topic}
        missing = [
            NewTopic(
                self._cluster.name(each),
                TOPIC_SETTINGS[each].partitions,
                replicas,
                config=configs[each],
            )
            for each in Topic
            if self._cluster.name(each) not in metadata.topics
        ]
        if missing:
            self._ask(lambda admin: _results(admin.create_topics(missing)))
        self._await_leaders()
        self._check_configs(configs)
        if self._cluster.framing is not None:
            self._cluster.framing.register()

    def append(self, messages: Sequence[Message]) -> Sequence[Position]:
        """Append facts; durable when every delivery report is in."""
        if not messages:
            return ()
        placed = self._cluster.place(messages)
        self._require({message.topic for message in messages})
        with self._lock:
            if self._appender is None:
                self._appender = Appender(self._cluster)
            appender = self._appender
        try:
            return appender.append(placed)
        except KafkaException as error:
            # After a failed delivery the client's sequence may have a gap: begin a new one.
            with self._lock:
                if self._appender is appender:
                    self._appender = None
            appender.retire()
            # Perhaps a topic is gone: the next one to append is told so.
            self._found.clear()
            raise self._cluster.explain(error) from error

    def reader(self, cursors: Mapping[TopicPartition, int]) -> KafkaReader:
        """A reader of exactly these partitions from these offsets on."""
        return KafkaReader(self._cluster, self._resolve(cursors), self._resolve)

    def ends(self, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
        """For each partition the last stable offset: every transaction before it is settled."""
        self._require(topics)
        partitions = list(partitions_of(topics))
        return self._ends_at_once(partitions) or self._offsets(partitions, _LATEST, _COMMITTED)

    def unsettled(self, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
        """For each partition, how far its end lies beyond what readers can see.

        A transaction that hangs stops all readers without an error: alert when this stays above 0.
        """
        stable = self.ends(topics)
        ends = self._offsets(stable, _LATEST, _WRITTEN)
        return {each: ends[each] - stable[each] for each in stable}

    def writer(self, role: str) -> KafkaWriter:
        """A new writer of the role; settles the transaction of an older one and fences it."""
        self._require(Topic)
        self._refuse_forgetful()
        return KafkaWriter(self._cluster, role)

    def close(self) -> None:
        """Let go of the clients; who opened a reader or a writer closes it."""
        with self._lock:
            appender, self._appender, self._admin = self._appender, None, None
            self._asker = None
        if appender is not None:
            appender.retire()
        if self._cluster.framing is not None:
            self._cluster.framing.close()

    def _resolve(self, cursors: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where reading really begins. Kafka itself would take any offset without a look."""
        wanted = check_cursors(cursors)
        self._require({each.topic for each in wanted})
        starts = self._offsets(wanted, _EARLIEST, _WRITTEN)
        ends = self._offsets(wanted, _LATEST, _WRITTEN)
        return {
            each: resolve_cursor(each, offset, start=starts[each], end=ends[each])
            for each, offset in wanted.items()
        }

    def _ends_at_once(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends by one request to each broker; nothing where any of it went wrong.

        A leader asks with each step, and the admin client takes twice as long: it looks for the
        brokers each time. Asked for the offset at the time -1, a broker says the end, for
        a client that reads committed records the last stable one.
        """
        with self._lock:
            if self._asker is None:
                self._asker = self._cluster.client(Consumer, reader_settings(self._cluster.cell))
            asker = self._asker
        natives = [self._cluster.native(each, _END_OF_TIME) for each in partitions]
        try:
            found = asker.offsets_for_times(natives, timeout=QUICK_TIMEOUT_S)
        except KafkaException:
            found = []
        offsets = {
            self._cluster.ours(each.topic, each.partition): each.offset
            for each in found
            if each.error is None and each.offset >= 0
        }
        if len(offsets) == len(partitions):
            return offsets
        with self._lock:
            self._asker = None
        return {}

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, level: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """One request to each broker for an offset of each partition, repeated while need be.

        For a partition whose leader it cannot reach, the client answers with no error but with an
        offset below 0, and it goes on asking that broker after another one leads. A new client does
        not.
        """
        wanted = {self._cluster.native(each): spec for each in partitions}
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while wanted:
            try:
                found = self._ask(partial(_listed, wanted=wanted, level=level))
            except LogUnreachableError as error:
                if not _has_moved(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
                continue
            offsets = {
                self._cluster.ours(native.topic, native.partition): result.offset
                for native, result in found.items()
            }
            if all(offset >= 0 for offset in offsets.values()):
                return offsets
            self._forget_admin()
            if time.monotonic() > deadline:
                away = KafkaError(LEADER_NOT_AVAILABLE)
                raise self._cluster.explain(KafkaException(away), tuple(self._heard))
        return {}

    def _require(self, topics: Iterable[str]) -> None:
        """Look once that topics exist: a missing one is else an error only after long retries."""
        for topic in {str(Topic(topic)) for topic in topics} - self._found:
            name = self._cluster.name(topic)
            found = self._ask(partial(_partition_count, name=name, timeout_s=ANSWER_TIMEOUT_S))
            self._check_partitions(Topic(topic), found)
            self._found.add(topic)

    def _check_partitions(self, topic: Topic, found: int) -> None:
        """TopicsMissingError where keys would go elsewhere than they should."""
        wanted = TOPIC_SETTINGS[topic].partitions
        if found != wanted:
            raise TopicsMissingError(
                f"{self._cluster.name(topic)} on {self._cluster.bootstrap} has {found} partitions, "
                f"not {wanted}: `gangline init` makes topics, in a cell of another name if need be"
            )

    def _await_leaders(self) -> None:
        """Wait until every partition can be used; a topic just made has no leaders yet."""
        deadline = time.monotonic() + MADE_WITHIN_S
        while True:
            try:
                self.ends(list(Topic))
            except LogError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def _check_configs(self, wanted: Mapping[Topic, Mapping[str, str]]) -> None:
        """TopicsMissingError says everything that is wrong with existing topics."""
        names = {self._cluster.name(each): each for each in wanted}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        found = self._ask(lambda admin: _results(admin.describe_configs(resources)))
        wrong = [
            f"{resource.name}: {difference}"
            for resource, entries in found.items()
            for difference in config_differences(
                wanted[names[resource.name]],
                {name: str(entry.value) for name, entry in entries.items()},
            )
        ]
        if wrong:
            raise TopicsMissingError("; ".join(sorted(wrong)))

    def _refuse_forgetful(self) -> None:
        """No leader begins where records are forgotten or stamped otherwise; looked at once.

        Where we may not look, the operator's `gangline init` must do.
        """
        if self._checked:
            return
        try:
            self._check_configs({each: topic_config(each, replicas=1) for each in Topic})
        except LogError as error:
            cause = error.__cause__
            if not isinstance(cause, KafkaException) or cause.args[0].code() not in FORBIDDEN:
                raise
        self._checked = True

    def _ask(self, question: Callable[[AdminClient], _T]) -> _T:
        """An answer of the admin client, errors explained."""
        with self._lock:
            if self._admin is None:
                settings = {**admin_settings(), "error_cb": self._heard.append}
                self._admin = self._cluster.client(AdminClient, settings)
            admin = self._admin
        self._heard.clear()
        try:
            return question(admin)
        except KafkaException as error:
            admin.poll(0)
            self._forget_admin()
            raise self._cluster.explain(error, tuple(self._heard)) from error

    def _forget_admin(self) -> None:
        """Ask with a new client from now on: what this one knows of the brokers may be old."""
        with self._lock:
            self._admin = None


def _results(futures: Mapping[Any, Any]) -> dict[Any, Any]:
    """All results; a topic that somebody else has just made is as good as ours."""
    results = {}
    for key, future in futures.items():
        try:
            results[key] = future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    return results


def _listed(
    admin: AdminClient, *, wanted: Mapping[Any, Any], level: IsolationLevel
) -> dict[Any, Any]:
    """The answer of each partition's leader."""
    asked = admin.list_offsets(dict(wanted), isolation_level=level, request_timeout=TRY_TIMEOUT_S)
    return _results(asked)


def _has_moved(error: LogError) -> bool:
    """Whether the client asked a broker that no longer leads."""
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in MOVED


def _partition_count(admin: AdminClient, *, name: str, timeout_s: float) -> int:
    """How many partitions a topic has; KafkaException where it does not exist."""
    topic = admin.list_topics(topic=name, timeout=timeout_s).topics[name]
    if topic.error is not None:
        raise KafkaException(topic.error)
    return len(topic.partitions)
