"""Topics as `gangline init` makes them, and what it says of those it finds."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from gangline.events.kafka import KafkaLog
from gangline.events.kafka import settings as kafka_settings
from gangline.events.kafka.reader import KafkaReader
from gangline.events.kafka.wire import SettingsError
from gangline.events.kafka.writer import Appender, KafkaWriter
from gangline.events.log import (
    TOPIC_SETTINGS,
    LogError,
    LogUnreachableError,
    Message,
    Topic,
    TopicPartition,
    TopicsMissingError,
)


def config_of(bootstrap: str, cell: str, topic: Topic) -> dict[str, str]:
    """A topic's settings as the broker has them."""
    resource = ConfigResource(ResourceType.TOPIC, f"gangline.{cell}.{topic}")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entries = admin.describe_configs([resource])[resource].result()
    return {name: entry.value for name, entry in entries.items()}


def alter(bootstrap: str, cell: str, topic: Topic, **settings: str) -> None:
    """Change settings as an operator would."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(
        ResourceType.TOPIC, f"gangline.{cell}.{topic}", incremental_configs=entries
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result()


@pytest.mark.usefixtures("log")
def test_topics_are_laid_out_as_the_design_says(kafka_bootstrap: str, cell: str) -> None:
    """Partitions, time by the log, compaction and retention, each topic its own."""
    topics = AdminClient({"bootstrap.servers": kafka_bootstrap}).list_topics(timeout=10).topics
    for topic, settings in TOPIC_SETTINGS.items():
        assert len(topics[f"gangline.{cell}.{topic}"].partitions) == settings.partitions
        found = config_of(kafka_bootstrap, cell, topic)
        assert found["message.timestamp.type"] == "LogAppendTime"
        assert found["cleanup.policy"] == ("compact" if settings.compacted else "delete")
        assert found["retention.ms"] == str(settings.retention_ms)
        assert found["unclean.leader.election.enable"] == "false"


def test_an_operator_may_keep_more_but_not_less(
    log: KafkaLog, kafka_bootstrap: str, cell: str
) -> None:
    """Everything that is wrong is said at once, and what to do about it."""
    alter(kafka_bootstrap, cell, Topic.HEARTBEATS, retention_ms="-1")
    log.create_topics()
    alter(kafka_bootstrap, cell, Topic.JOBS, retention_ms="1000", cleanup_policy="compact")
    alter(kafka_bootstrap, cell, Topic.NODES, message_timestamp_type="CreateTime")
    with pytest.raises(TopicsMissingError) as caught:
        log.create_topics()
    text = str(caught.value)
    assert f"gangline.{cell}.jobs: cleanup.policy is compact, not delete" in text
    assert f"gangline.{cell}.jobs: retention.ms is 1000, less than -1" in text
    assert "nodes: message.timestamp.type is CreateTime, not LogAppendTime" in text
    assert "heartbeats" not in text


def test_a_topic_with_other_partitions_is_not_used(kafka_bootstrap: str, cell: str) -> None:
    """Keys would go elsewhere; partitions are never added to a topic with keys."""
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    name = f"gangline.{cell}.nodes"
    admin.create_topics([NewTopic(name, 7, 1)])[name].result()
    log = KafkaLog(kafka_bootstrap, cell)
    with pytest.raises(TopicsMissingError, match=rf"{name} on .* has 7 partitions, not 4"):
        log.append([Message(topic=Topic.NODES, key=b"n", value=b"x")])
    with pytest.raises(TopicsMissingError, match="has 7 partitions, not 4"):
        log.create_topics()


@pytest.mark.parametrize(
    ("topic", "setting", "wrong"),
    [
        (Topic.DECISIONS, {"cleanup_policy": "compact"}, "cleanup.policy is compact"),
        (Topic.JOBS, {"retention_ms": "60000"}, "retention.ms is 60000"),
        (Topic.NODES, {"message_timestamp_type": "CreateTime"}, "message.timestamp.type is"),
        (Topic.DECISIONS, {"max_message_bytes": "1000"}, "max.message.bytes is 1000"),
    ],
)
@pytest.mark.usefixtures("log")
def test_nobody_leads_where_records_are_forgotten(
    kafka_bootstrap: str, cell: str, topic: Topic, setting: dict[str, str], wrong: str
) -> None:
    """A leader would write decisions that are gone tomorrow; mended, it begins."""
    log = KafkaLog(kafka_bootstrap, cell)
    right = config_of(kafka_bootstrap, cell, topic)
    alter(kafka_bootstrap, cell, topic, **setting)
    with pytest.raises(TopicsMissingError, match=f"{topic}: {wrong}"):
        log.writer("scheduler")
    alter(kafka_bootstrap, cell, topic, **{name: right[name.replace("_", ".")] for name in setting})
    log.writer("scheduler").close()
    log.close()


def test_a_record_that_the_broker_finds_too_large(
    log: KafkaLog, kafka_bootstrap: str, cell: str
) -> None:
    """Not taken for a broker that is away, and the next one is appended."""
    alter(kafka_bootstrap, cell, Topic.JOBS, max_message_bytes="1000")
    with pytest.raises(LogError, match=r"no record of this size .* `gangline init`") as caught:
        log.append([Message(topic=Topic.JOBS, value=b"x" * 5_000)])
    assert not isinstance(caught.value, LogUnreachableError)
    log.append([Message(topic=Topic.JOBS, value=b"x")])


def test_a_topic_that_was_deleted_is_said_to_be_missing(
    log: KafkaLog, kafka_bootstrap: str, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who appends finds out by the first record that nobody takes."""
    name = f"gangline.{cell}.jobs"
    log.append([Message(topic=Topic.JOBS, value=b"x")])
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    admin.delete_topics([name])[name].result()
    # Impatient only now: on a busy broker the first record may well take a second.
    impatient = {**kafka_settings._PRODUCER, "message.timeout.ms": 1_000}
    monkeypatch.setattr(kafka_settings, "_PRODUCER", impatient)
    assert log._appender is not None
    log._appender.retire()
    log._appender = None
    # Brokers may show it for a moment yet.
    assert TopicsMissingError in (refusal(log) for _ in range(20))


def refusal(log: KafkaLog) -> type[LogError] | None:
    """What an append is told."""
    try:
        log.append([Message(topic=Topic.JOBS, value=b"x")])
    except LogError as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocol": "bogus"}, "security.protocol"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "NOPE"}, "NOPE"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such.pem"}, "ssl.ca.location"),
        ({"sasl.nonsense": "x"}, "sasl.nonsense"),
    ],
)
def test_a_wrong_setting_of_the_connection_is_one_line(given: dict[str, str], said: str) -> None:
    """Whatever is asked first: each kind of client names it, and where it comes from."""
    log = KafkaLog("127.0.0.1:1", "main", settings=given)
    cluster, first = log._cluster, {TopicPartition(Topic.JOBS, 0): 0}
    for ask in (
        lambda: log.ends([Topic.JOBS]),
        lambda: log.append([Message(topic=Topic.JOBS, value=b"x")]),
        lambda: KafkaReader(cluster, first, dict),
        lambda: Appender(cluster),
        lambda: KafkaWriter(cluster, "scheduler"),
    ):
        with pytest.raises(SettingsError, match=r"GANGLINE_KAFKA_\*") as caught:
            ask()
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_topic_is_never_made_by_accident(kafka_bootstrap: str, cell: str) -> None:
    """Asking for what is not there does not make it, with whatever settings a broker has."""
    log = KafkaLog(kafka_bootstrap, cell)
    with pytest.raises(TopicsMissingError):
        log.append([Message(topic=Topic.JOBS, value=b"x")])
    topics = AdminClient({"bootstrap.servers": kafka_bootstrap}).list_topics(timeout=10).topics
    assert f"gangline.{cell}.jobs" not in topics


def test_no_broker_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    """It says what, where and how to start it, and nothing else is printed by anybody."""
    log = KafkaLog("127.0.0.1:1", "main")
    with pytest.raises(LogUnreachableError, match="make up BUS=kafka") as caught:
        log.create_topics()
    assert "Kafka at 127.0.0.1:1 is not reachable" in str(caught.value)
    assert "\n" not in str(caught.value)
    log.close()
    assert capfd.readouterr() == ("", "")
