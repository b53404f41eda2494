"""The settings of Kafka's clients and topics, each with its reason. Nothing here speaks Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gangline.events.log import TOPIC_SETTINGS, Topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Setting = str | int | bool

TRANSACTION_TIMEOUT_MS = 10_000
"""A leader that dies inside a transaction stalls readers of what is committed no longer than this
(the default is a minute)."""
SOCKET_TIMEOUT_MS = TRANSACTION_TIMEOUT_MS - 100
"""librdkafka wants a request to time out before its transaction does. A request that times out is
repeated by it unasked, which is why a commit that takes longer counts as unknown."""
MESSAGE_TIMEOUT_MS = TRANSACTION_TIMEOUT_MS
"""A message must not outlive the transaction that it belongs to."""

_COMMON: Mapping[str, Setting] = {
    "client.id": "gangline",
    # Errors are told once, in one line, by whoever called us; librdkafka would write to stderr.
    # Even at the lowest level it writes fatal ones, unless into a queue (that nobody reads).
    "log_level": 0,
    "log.queue": True,
    "allow.auto.create.topics": False,
    "socket.keepalive.enable": True,
    "socket.timeout.ms": SOCKET_TIMEOUT_MS,
    # After a broker's restart, be back within a second, not within ten.
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
}

_PRODUCER: Mapping[str, Setting] = {
    # Repeats are filtered and order kept by the broker, and "done" means on all replicas in sync.
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 0,
    "message.timeout.ms": MESSAGE_TIMEOUT_MS,
    # We name the partition of every message; should that ever be forgotten, a key must still go
    # where Java clients put it, and not where librdkafka's own default (CRC32) would.
    "partitioner": "murmur2_random",
}

_WRITER: Mapping[str, Setting] = {
    # A connection to the coordinator that is lost is told as information only, never to error_cb.
    "log_level": 6,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    # A transaction that begins while the one before is being finished is refused and repeated
    # after this time. The default costs some 100 ms in every transaction.
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 10,
}

_READER: Mapping[str, Setting] = {
    "isolation.level": "read_committed",
    # Progress is what the last batch says it has consumed. A group's offsets may be pending or
    # wrong after a takeover, so none are ever stored.
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # The default is the end: an offset that is gone would silently skip all that is still there.
    "auto.offset.reset": "error",
    # Offsets have holes where markers and aborted records stand: only this tells that a reader
    # has come to the end.
    "enable.partition.eof": True,
    # Off by default; what `replay verify` proves should begin with the bytes.
    "check.crcs": True,
    "fetch.wait.max.ms": 250,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,
    # Small fetches, so that no partition's backlog stands long before another's records.
    "fetch.message.max.bytes": 262_144,
    "queued.min.messages": 2_000,
    "queued.max.messages.kbytes": 16_384,
}

_PASSED_ON = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "client.", "broker.")
_ENVIRONMENT = "GANGLINE_KAFKA_"
_FILE = "GANGLINE_KAFKA_CONFIG"
_REGISTRY = "GANGLINE_SCHEMA_REGISTRY_"


def producer_settings() -> dict[str, Setting]:
    """For a client that appends facts."""
    return {**_COMMON, **_PRODUCER}


def writer_settings(cell: str, role: str) -> dict[str, Setting]:
    """For the fenced, transactional client of a role: one id a cell and role, for ever."""
    return {**_COMMON, **_PRODUCER, **_WRITER, "transactional.id": f"gangline.{cell}.{role}"}


def reader_settings(cell: str) -> dict[str, Setting]:
    """For a client that reads; the group is only a name, nobody ever joins it."""
    return {**_COMMON, **_READER, "group.id": f"gangline.{cell}.readers"}


def admin_settings() -> dict[str, Setting]:
    """For a client that makes topics and asks for offsets."""
    return dict(_COMMON)


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Settings of the connection (TLS, SASL) from the environment and the file it names.

    GANGLINE_KAFKA_SASL_USERNAME is librdkafka's `sasl.username`; GANGLINE_KAFKA_CONFIG names a file
    with lines like `sasl.username=gangline`. Everything else is ours to choose, since exactly-once
    rests on it: `ValueError` says which setting was meant.
    """
    found = dict(_file_lines(environ[_FILE])) if environ.get(_FILE) else {}
    for name, value in sorted(environ.items()):
        if name.startswith(_ENVIRONMENT) and name != _FILE:
            found[name.removeprefix(_ENVIRONMENT).lower().replace("_", ".")] = value
    for name in found:
        if not name.startswith(_PASSED_ON):
            raise ValueError(
                f"{name} is not a setting of Kafka that is passed on; "
                f"those begin with {', '.join(_PASSED_ON)}"
            )
    return found


def registry_settings_of(environ: Mapping[str, str]) -> dict[str, str | int]:
    """Settings of the schema registry's client; empty where no registry is named.

    GANGLINE_SCHEMA_REGISTRY_URL is its `url`, GANGLINE_SCHEMA_REGISTRY_SSL_CA_LOCATION its
    `ssl.ca.location`, and so on. `ValueError` where there are settings but no url.
    """
    found = {
        name.removeprefix(_REGISTRY).lower().replace("_", "."): (
            int(value) if value.isdecimal() else value
        )
        for name, value in sorted(environ.items())
        if name.startswith(_REGISTRY) and value
    }
    if found and "url" not in found:
        raise ValueError(f"{_REGISTRY}URL is missing: the registry has settings but no address")
    return found


def _file_lines(path: str) -> Iterator[tuple[str, str]]:
    """Name and value of each line; `ValueError` names file and line of a bad one."""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        name, equals, value = line.strip().partition("=")
        if not equals and name and not name.startswith("#"):
            raise ValueError(f"{path}:{number}: expected name=value, got {line.strip()!r}")
        if equals and not name.startswith("#"):
            yield name.strip(), value.strip()


def topic_config(topic: Topic, *, replicas: int) -> dict[str, str]:
    """How a topic is to be kept, in Kafka's words."""
    settings = TOPIC_SETTINGS[topic]
    config = {
        # Age and waiting count from the log's time, not from a client's clock.
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "compact" if settings.compacted else "delete",
        "retention.ms": str(settings.retention_ms),
        "retention.bytes": "-1",
        # One record may be as large as MAX_MESSAGE_BYTES and its framing.
        "max.message.bytes": "1048588",
        # An acknowledged record survives the loss of one broker, and no broker that missed it is
        # made leader. Both stand on the topic, where no client can forget them.
        "min.insync.replicas": "2" if replicas >= 3 else "1",
        "unclean.leader.election.enable": "false",
    }
    if settings.compacted or settings.retention_ms >= 0:
        # Only closed segments are compacted or dropped; by default they stay open for a week.
        config["segment.ms"] = "3600000"
    return config


_AT_LEAST = ("retention.ms", "retention.bytes", "max.message.bytes", "min.insync.replicas")
_EXACTLY = ("message.timestamp.type", "cleanup.policy", "unclean.leader.election.enable")


def config_differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """What is wrong with an existing topic, a phrase each. An operator may keep more, not less."""
    wrong = [
        f"{name} is {found.get(name)}, not {wanted[name]}"
        for name in _EXACTLY
        if found.get(name) != wanted[name]
    ]
    for name in _AT_LEAST:
        ignored = name.startswith("retention") and wanted["cleanup.policy"] == "compact"
        if not ignored and _amount(found.get(name, "0")) < _amount(wanted[name]):
            wrong.append(f"{name} is {found.get(name)}, less than {wanted[name]}")
    return wrong


def _amount(text: str) -> float:
    """A number of Kafka's, where -1 means without end."""
    return float("inf") if text == "-1" else float(text)
