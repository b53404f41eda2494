"""A broker with passwords and rights: each role can do its work with what `kafka_acls` grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from gangline.cli import local_kafka
from gangline.cli.local_process import Lifetime, LocalServerError, free_port
from gangline.events.kafka import KafkaLog
from gangline.events.kafka_acl import Role, kafka_acls
from gangline.events.log import CommitUnknownError, LogError, Message, Topic
from gangline.events.reading import from_the_start, read_to_ends
from tests.support.kafka import CACHE, no_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
_PATTERNS = {"literal": ResourcePatternType.LITERAL, "prefixed": ResourcePatternType.PREFIXED}


def credentials(user: str) -> dict[str, str]:
    """The connection's settings, as GANGLINE_KAFKA_* would give them."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"password of {user}",
    }


def guarded_broker(directory: Path) -> str:
    """Start a broker that asks for passwords and rights; its address."""
    users = ["admin", *(f"gangline-{role}" for role in Role)]
    entries = " ".join(f'user_{user}="password of {user}"' for user in users)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    port, controller = free_port(), free_port()
    settings = {
        "listeners": f"CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"CLIENT://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": (
            f'{module} username="admin" password="password of admin" {entries};'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    broker = local_kafka.start(
        directory, cache=CACHE, port=port, settings=settings, lifetime=Lifetime.WITH_STARTER
    )
    return broker.bootstrap


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], KafkaLog]]:
    """Give a way to open the log as a user, on a broker where the rights have been granted."""
    directory = tmp_path_factory.mktemp("kafka")
    try:
        bootstrap = guarded_broker(directory)
    except LocalServerError as error:
        no_broker(error)
    quiet = {"log_level": 0}
    admin = AdminClient({"bootstrap.servers": bootstrap, **credentials("admin"), **quiet})
    bindings = [
        AclBinding(
            _RESOURCES[acl.resource],
            acl.name,
            _PATTERNS[acl.pattern],
            acl.principal,
            "*",
            _OPERATIONS[acl.operation],
            AclPermissionType.ALLOW,
        )
        for acl in kafka_acls("main")
    ]
    for future in admin.create_acls(bindings).values():
        future.result()
    yield lambda user: KafkaLog(bootstrap, "main", settings=credentials(user))
    local_kafka.stop(directory)


def message(topic: Topic) -> Message:
    """Something for a topic."""
    return Message(topic=topic, key=b"k", value=b"v")


def test_each_role_can_do_its_work(cluster: Callable[[str], KafkaLog]) -> None:
    """From making the topics to a commit that an agent sees."""
    cluster("gangline-operator").create_topics()
    cluster("gangline-api").append([message(Topic.JOBS), message(Topic.CONTROL)])
    cluster("gangline-submitter").append([message(Topic.JOBS)])
    cluster("gangline-agent").append([message(Topic.NODES), message(Topic.HEARTBEATS)])
    leader = cluster("gangline-scheduler").writer("scheduler")
    leader.commit([message(Topic.DECISIONS), message(Topic.ASSIGNMENTS), message(Topic.SNAPSHOTS)])
    cluster("gangline-scheduler").writer("scheduler").close()
    for role in ("scheduler", "projector", "auditor"):
        found = list(read_to_ends(cluster(f"gangline-{role}"), from_the_start(Topic)))
        assert len(found) == 8
    seen = read_to_ends(cluster("gangline-agent"), from_the_start([Topic.ASSIGNMENTS]))
    assert [record.value for record in seen] == [b"v"]


@pytest.mark.parametrize(
    ("role", "topic"),
    [
        (Role.AGENT, Topic.JOBS),
        (Role.AGENT, Topic.ASSIGNMENTS),
        (Role.API, Topic.DECISIONS),
        (Role.SUBMITTER, Topic.CONTROL),
        (Role.PROJECTOR, Topic.NODES),
        (Role.AUDITOR, Topic.JOBS),
    ],
)
def test_no_role_can_do_anothers(
    cluster: Callable[[str], KafkaLog], role: Role, topic: Topic
) -> None:
    """The refusal is one line, and says where rights are listed."""
    cluster("gangline-operator").create_topics()
    with pytest.raises(LogError, match="gangline acl --print"):
        cluster(f"gangline-{role}").append([message(topic)])


def test_nobody_else_can_fence_the_leader(cluster: Callable[[str], KafkaLog]) -> None:
    """A writer needs the transactional id, which only schedulers may use."""
    cluster("gangline-operator").create_topics()
    with pytest.raises(LogError, match="forbids it"):
        cluster("gangline-api").writer("scheduler")
    leader = cluster("gangline-scheduler").writer("scheduler")
    with pytest.raises(CommitUnknownError):
        leader.commit([message(Topic.JOBS)])


def test_a_wrong_password_is_one_line(cluster: Callable[[str], KafkaLog]) -> None:
    """Not a time-out without a reason."""
    log = cluster("gangline-api")
    log._cluster._settings = {**credentials("gangline-api"), "sasl.password": "wrong"}
    with pytest.raises(LogError, match="GANGLINE_KAFKA_") as caught:
        log.ends([Topic.JOBS])
    assert "\n" not in str(caught.value)
