"""The same against a registry that is not ours, which GANGLINE_TEST_REGISTRY names.

It gets our subjects, so take an empty one. docs/kafka.md says which was tried and how to start it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from gangline.events import codec
from gangline.events.bus import open_log
from gangline.events.kafka import KafkaLog
from gangline.events.log import TopicsMissingError
from gangline.events.reading import read_to_ends
from tests.kafka.test_registry import JOBS, SUBMITTED, as_a_stranger_reads, submission

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = os.environ.get("GANGLINE_TEST_REGISTRY", "")

pytestmark = pytest.mark.skipif(not URL, reason="GANGLINE_TEST_REGISTRY names no schema registry")


@pytest.fixture
def client() -> Iterator[SchemaRegistryClient]:
    """Give Confluent's own client of it."""
    with SchemaRegistryClient({"url": URL}) as client:
        yield client


@pytest.fixture
def framed(kafka_bootstrap: str, cell: str) -> Iterator[KafkaLog]:
    """Give a log with its topics, and all schemas registered."""
    log = initialized(kafka_bootstrap, cell)
    yield log
    log.close()


def initialized(bootstrap: str, cell: str) -> KafkaLog:
    """What `gangline init` does, as a new process would."""
    environ = {"GANGLINE_SCHEMA_REGISTRY_URL": URL}
    log = open_log(f"kafka://{bootstrap}", cell, environ=environ)
    assert isinstance(log, KafkaLog)
    log.create_topics()
    return log


def test_a_stock_decoder_reads_what_it_has_given_ids(
    framed: KafkaLog, kafka_bootstrap: str, cell: str, client: SchemaRegistryClient
) -> None:
    """A stranger's client shows every field, and our own gets back the bytes that were sent."""
    framed.append([submission()])
    value = as_a_stranger_reads(kafka_bootstrap, f"gangline.{cell}.jobs").value() or b""
    where = SerializationContext(f"gangline.{cell}.jobs", MessageField.VALUE)
    decoded: Any = AvroDeserializer(client)(value, where)
    assert decoded["envelope"]["id"] == "1"
    assert decoded["body"]["spec"]["gpus"] == 8
    assert [record.value for record in read_to_ends(framed, JOBS_FROM_THE_START)] == [
        codec.encode(SUBMITTED)
    ]


@pytest.mark.usefixtures("framed")
def test_registering_again_changes_nothing(
    kafka_bootstrap: str, cell: str, client: SchemaRegistryClient
) -> None:
    """`gangline init` may be run at any time."""
    before = {name: client.get_versions(name) for name in ours(client)}
    initialized(kafka_bootstrap, cell).close()
    assert {name: client.get_versions(name) for name in ours(client)} == before
    assert len(before) == len(codec.ENVELOPED)


@pytest.mark.usefixtures("framed")
def test_it_refuses_what_old_logs_would_not_survive(client: SchemaRegistryClient) -> None:
    """Every subject is FULL_TRANSITIVE, and it means that: a field without a default."""
    assert {client.get_compatibility(name) for name in ours(client)} == {"FULL_TRANSITIVE"}
    subject = "gangline.JobSubmittedEvent"
    text = client.get_latest_version(subject).schema.schema_str
    assert text is not None
    broken = json.loads(text)
    broken["fields"].append({"name": "more", "type": "long"})
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema(subject, Schema(json.dumps(broken), "AVRO"))
    assert caught.value.http_status_code == 409


def test_noise_comes_through_as_it_is(framed: KafkaLog, kafka_bootstrap: str, cell: str) -> None:
    """An id that it has never given is nobody's, and no reason to wait."""
    stranger = Producer({"bootstrap.servers": kafka_bootstrap})
    noise = b"\0\x7f\xff\xff\xffnoise"
    stranger.produce(f"gangline.{cell}.jobs", value=noise, partition=0)
    assert stranger.flush(10) == 0
    assert [record.value for record in read_to_ends(framed, JOBS_FROM_THE_START)] == [noise]


def test_what_is_not_registered_is_said(
    framed: KafkaLog, kafka_bootstrap: str, cell: str, client: SchemaRegistryClient
) -> None:
    """Somebody has removed a subject: who writes is told who makes it, and then can."""
    client.delete_subject("gangline.JobSubmittedEvent")
    with pytest.raises(TopicsMissingError, match="gangline init"):
        framed.append([submission()])
    initialized(kafka_bootstrap, cell).close()
    framed.append([submission()])


JOBS_FROM_THE_START = {JOBS: 0}


def ours(client: SchemaRegistryClient) -> list[str]:
    """Our subjects."""
    return [name for name in client.get_subjects() if name.startswith("gangline.")]
