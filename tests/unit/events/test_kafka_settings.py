"""Each setting of Kafka's that something rests on, with the reason beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.events.kafka.settings import (
    MESSAGE_TIMEOUT_MS,
    SOCKET_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    Setting,
    admin_settings,
    config_differences,
    producer_settings,
    reader_settings,
    registry_settings_of,
    settings_of,
    topic_config,
    writer_settings,
)
from gangline.events.log import MAX_MESSAGE_BYTES, TOPIC_SETTINGS, Topic

if TYPE_CHECKING:
    from pathlib import Path

WRITER = writer_settings("main", "scheduler")
READER = reader_settings("main")


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (producer_settings(), "enable.idempotence", True),  # repeats do not double facts
        (producer_settings(), "acks", "all"),
        (producer_settings(), "partitioner", "murmur2_random"),  # not CRC32, as by default
        (WRITER, "transactional.id", "gangline.main.scheduler"),  # one a cell and role, for ever
        (WRITER, "transaction.timeout.ms", 10_000),  # a dead leader stalls readers so long
        (WRITER, "retry.backoff.ms", 2),  # 100 by default: in each transaction after another
        (WRITER, "retry.backoff.max.ms", 10),
        (WRITER, "linger.ms", 0),
        (WRITER, "log_level", 6),  # lost connections to the coordinator are told in no other way
        (READER, "isolation.level", "read_committed"),
        (READER, "auto.offset.reset", "error"),  # by default, to the end, and not a word
        (READER, "enable.auto.commit", False),  # progress is what the last batch has consumed
        (READER, "enable.auto.offset.store", False),
        (READER, "enable.partition.eof", True),  # offsets have holes
        (READER, "check.crcs", True),  # off by default
        (admin_settings(), "allow.auto.create.topics", False),
    ],
)
def test_a_setting_that_something_rests_on(
    settings: dict[str, Setting], name: str, value: Setting
) -> None:
    """The reason stands beside the row, and with more words beside the setting."""
    assert settings[name] == value


def test_timeouts_are_nested() -> None:
    """A message does not outlive its transaction, and a request is given up before both are."""
    assert WRITER["message.timeout.ms"] == MESSAGE_TIMEOUT_MS <= TRANSACTION_TIMEOUT_MS
    assert WRITER["socket.timeout.ms"] == SOCKET_TIMEOUT_MS == TRANSACTION_TIMEOUT_MS - 100


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_small_cluster_has_no_second_replica_to_wait_for(brokers: int) -> None:
    """With one copy in sync enough, a laptop's broker takes writes."""
    assert topic_config(Topic.JOBS, replicas=brokers)["min.insync.replicas"] == "1"


def test_three_replicas_lose_nothing_with_one_broker() -> None:
    """Durability stands on the topic: two copies before "done", and no leader that missed some."""
    config = topic_config(Topic.JOBS, replicas=3)
    assert config["min.insync.replicas"] == "2"
    assert config["unclean.leader.election.enable"] == "false"


@pytest.mark.parametrize("topic", list(Topic))
def test_topics_are_kept_as_their_settings_say(topic: Topic) -> None:
    """For ever, for a time or by key; what is to go must not hide in an open segment."""
    settings, config = TOPIC_SETTINGS[topic], topic_config(topic, replicas=1)
    assert config["retention.ms"] == str(settings.retention_ms)
    assert config["cleanup.policy"] == ("compact" if settings.compacted else "delete")
    forgets = settings.compacted or settings.retention_ms >= 0
    assert ("segment.ms" in config) == forgets
    assert int(config["max.message.bytes"]) > MAX_MESSAGE_BYTES + 10_000


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("retention.ms", "-1", ""),  # longer is the operator's choice
        ("retention.ms", "60000", "retention.ms is 60000, less than 259200000"),
        ("retention.bytes", "1000", "retention.bytes is 1000, less than -1"),
        ("min.insync.replicas", "3", ""),
        ("min.insync.replicas", "1", "min.insync.replicas is 1, less than 2"),
        ("cleanup.policy", "compact,delete", "cleanup.policy is compact,delete, not delete"),
        ("message.timestamp.type", "CreateTime", "message.timestamp.type is CreateTime, not "),
        ("unclean.leader.election.enable", "true", "unclean.leader.election.enable is true"),
    ],
)
def test_an_existing_topic_is_judged(name: str, value: str, problem: str) -> None:
    """More is allowed, less and other is not."""
    wanted = topic_config(Topic.HEARTBEATS, replicas=3)
    differences = config_differences(wanted, {**wanted, name: value})
    assert [each.startswith(problem) for each in differences] == ([True] if problem else [])


def test_compacted_topics_may_have_any_retention() -> None:
    """The broker does not look at it."""
    wanted = topic_config(Topic.SNAPSHOTS, replicas=1)
    assert config_differences(wanted, {**wanted, "retention.ms": "604800000"}) == []


def test_the_connection_is_told_by_environment_and_file(tmp_path: Path) -> None:
    """Both are librdkafka's own names; the environment wins, other variables are not looked at."""
    file = tmp_path / "kafka.properties"
    file.write_text("# of the cluster\n\nsecurity.protocol = SASL_SSL\nsasl.username=file\n")
    assert settings_of(
        {
            "GANGLINE_KAFKA_CONFIG": str(file),
            "GANGLINE_KAFKA_SASL_USERNAME": "environment",
            "GANGLINE_KAFKA_SASL_PASSWORD": "a=b",
            "GANGLINE_URL": "http://elsewhere",
        }
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "environment",
        "sasl.password": "a=b",
    }
    assert settings_of({}) == {}


def test_what_exactly_once_rests_on_is_not_configured() -> None:
    """The error names the setting and what may be set."""
    with pytest.raises(ValueError, match=r"isolation\.level is not .*sasl\."):
        settings_of({"GANGLINE_KAFKA_ISOLATION_LEVEL": "read_uncommitted"})


def test_the_registry_is_told_by_the_environment() -> None:
    """Names are those of Confluent's client; settings without an address are a mistake."""
    assert registry_settings_of({"GANGLINE_KAFKA_SASL_USERNAME": "me"}) == {}
    assert registry_settings_of(
        {
            "GANGLINE_SCHEMA_REGISTRY_URL": "https://registry:8081",
            "GANGLINE_SCHEMA_REGISTRY_SSL_CA_LOCATION": "/etc/ssl/ca.pem",
            "GANGLINE_SCHEMA_REGISTRY_MAX_RETRIES": "5",
        }
    ) == {"url": "https://registry:8081", "ssl.ca.location": "/etc/ssl/ca.pem", "max.retries": 5}
    with pytest.raises(ValueError, match="GANGLINE_SCHEMA_REGISTRY_URL is missing"):
        registry_settings_of({"GANGLINE_SCHEMA_REGISTRY_MAX_RETRIES": "5"})


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    """File and line, and what would be right."""
    file = tmp_path / "kafka.properties"
    file.write_text("sasl.username=me\nnonsense\n")
    with pytest.raises(ValueError, match=r"kafka\.properties:2: expected name=value"):
        settings_of({"GANGLINE_KAFKA_CONFIG": str(file)})
