"""Values in Confluent's format: what its own decoder makes of them, and what we read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from gangline.events import codec, facts
from gangline.events.bus import open_log
from gangline.events.envelope import Event
from gangline.events.kafka import KafkaLog
from gangline.events.kafka.framing import Framing
from gangline.events.log import (
    LogError,
    LogUnreachableError,
    Message,
    Topic,
    TopicPartition,
    TopicsMissingError,
)
from gangline.events.reading import read_to_ends
from gangline.events.spec import Spec
from tests.support.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message as KafkaMessage

JOBS = TopicPartition(Topic.JOBS, 0)
SUBMITTED = Event(
    envelope=codec.envelope_for(
        facts.JobSubmitted(job="a", spec=Spec(team="t", gpus=8)), id="1", actor="user:zoë lee"
    ),
    body=facts.JobSubmitted(job="a", spec=Spec(team="t", gpus=8)),
)


@pytest.fixture
def registry() -> Iterator[Registry]:
    """Give an empty registry."""
    with Registry() as registry:
        yield registry


@pytest.fixture
def framed(kafka_bootstrap: str, cell: str, registry: Registry) -> Iterator[KafkaLog]:
    """Give a log with its topics, and all schemas registered."""
    environ = {"GANGLINE_SCHEMA_REGISTRY_URL": registry.url}
    log = open_log(f"kafka://{kafka_bootstrap}", cell, environ=environ)
    assert isinstance(log, KafkaLog)
    log.create_topics()
    yield log
    log.close()


def submission(event: Event = SUBMITTED) -> Message:
    """A message as a service appends it."""
    return Message(topic=Topic.JOBS, value=codec.encode(event))


def as_a_stranger_reads(bootstrap: str, topic: str) -> KafkaMessage:
    """The first record of a topic, by a client that knows nothing of ours."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "stranger"})
    try:
        consumer.assign([KafkaPartition(topic, 0, 0)])
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()


def test_a_stock_decoder_reads_our_values(
    framed: KafkaLog, kafka_bootstrap: str, cell: str, registry: Registry
) -> None:
    """Confluent's own deserializer, which has only the registry's address, shows every field."""
    framed.append([submission()])
    message = as_a_stranger_reads(kafka_bootstrap, f"gangline.{cell}.jobs")
    value = message.value()
    assert value is not None
    assert value[0] == 0
    decode = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    where = SerializationContext(f"gangline.{cell}.jobs", MessageField.VALUE)
    decoded: Any = decode(value, where)
    assert decoded["envelope"]["id"] == "1"
    assert decoded["body"]["job"] == "a"
    assert decoded["body"]["spec"]["gpus"] == 8


def test_headers_are_cloud_events(framed: KafkaLog, kafka_bootstrap: str, cell: str) -> None:
    """Tools that know no Avro see id, type and source, in Kafka's binary mode."""
    framed.append([submission()])
    message = as_a_stranger_reads(kafka_bootstrap, f"gangline.{cell}.jobs")
    assert dict(message.headers() or []) == {
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_type": b"gangline.JobSubmitted.v%d" % SUBMITTED.envelope.version,
        "ce_source": f"/gangline/{cell}/user:zo%C3%AB%20lee".encode(),
        "content-type": b"application/avro",
    }


def test_we_read_both_formats(framed: KafkaLog, log: KafkaLog) -> None:
    """What was written before a registry was named, and after: the same bytes to everybody."""
    log.append([submission()])
    framed.append([submission()])
    framed.append([Message(topic=Topic.JOBS, value=noise) for noise in (b"\0", b"\0\0\0\xff\xffx")])
    plain, unframed, *garbage = read_to_ends(framed, {JOBS: 0})
    assert plain.value == unframed.value == codec.encode(SUBMITTED)
    assert [record.value for record in garbage] == [b"\0", b"\0\0\0\xff\xffx"]
    with pytest.raises(codec.UndecodableError):
        codec.decode(garbage[1].value)


def test_a_writers_records_are_framed_too(
    framed: KafkaLog, log: KafkaLog, kafka_bootstrap: str, cell: str
) -> None:
    """And a program that was not told of the registry says so: skipping decisions is no choice."""
    value = codec.encode(SUBMITTED)
    framed.writer("scheduler").commit([Message(topic=Topic.DECISIONS, value=value)])
    framed.writer("scheduler").close()
    assert (as_a_stranger_reads(kafka_bootstrap, f"gangline.{cell}.decisions").value() or b"")[
        0
    ] == 0
    decisions = TopicPartition(Topic.DECISIONS, 0)
    assert [record.value for record in read_to_ends(framed, {decisions: 0})] == [value]
    with pytest.raises(LogError, match="GANGLINE_SCHEMA_REGISTRY_URL"):
        list(read_to_ends(log, {decisions: 0}))


@pytest.mark.usefixtures("framed")
def test_the_registry_refuses_what_old_logs_would_not_survive(registry: Registry) -> None:
    """Every subject is FULL_TRANSITIVE, and a field without a default is turned away."""
    assert set(registry.modes.values()) == {"FULL_TRANSITIVE"}
    assert registry.modes.keys() == registry.subjects.keys()
    assert len(registry.modes) == len(codec.ENVELOPED)
    subject = "gangline.JobSubmittedEvent"
    broken = json.loads(registry.schemas[registry.subjects[subject][-1] - 1])
    broken["fields"].append({"name": "more", "type": "long"})
    client = SchemaRegistryClient({"url": registry.url})
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema(subject, Schema(json.dumps(broken), "AVRO"))
    assert caught.value.http_status_code == 409


def test_only_init_writes_to_the_registry(kafka_bootstrap: str, cell: str, log: KafkaLog) -> None:
    """Anybody else asks; what is not registered is an error that says who does it."""
    with Registry() as empty:
        service = KafkaLog(kafka_bootstrap, cell, framing=Framing({"url": empty.url}))
        with pytest.raises(TopicsMissingError, match="gangline init"):
            service.append([submission()])
        assert empty.subjects == {}
        service.close()
    assert list(read_to_ends(log, {JOBS: 0})) == []


def test_a_registry_that_is_away_hides_nothing(
    framed: KafkaLog, registry: Registry, kafka_bootstrap: str, cell: str
) -> None:
    """Readers wait for it, as for a broker; who would write is told in one line."""
    framed.append([submission()])
    impatient = Framing({"url": registry.url, "max.retries": 0})
    stranger = KafkaLog(kafka_bootstrap, cell, framing=impatient)
    registry.away = True
    reader = stranger.reader({JOBS: 0})
    assert reader.poll(1) == ()
    with pytest.raises(LogUnreachableError, match=r"schema registry http://127\.0") as caught:
        stranger.append([submission()])
    assert "\n" not in str(caught.value)
    registry.away = False
    assert [record.value for record in reader.poll(10)] == [codec.encode(SUBMITTED)]
    reader.close()
    stranger.close()


def test_ids_of_nobodys_are_asked_for_once(
    framed: KafkaLog, registry: Registry, kafka_bootstrap: str, cell: str
) -> None:
    """A partition full of one stranger's format does not become a flood of questions."""
    stranger = Producer({"bootstrap.servers": kafka_bootstrap})
    for _ in range(50):
        stranger.produce(f"gangline.{cell}.jobs", value=b"\0\0\0\1\0theirs", partition=0)
    assert stranger.flush(10) == 0
    assert len(list(read_to_ends(framed, {JOBS: 0}))) == 50
    assert registry.asked.count("GET schemas/ids/256") == 1
