"""Rights on Kafka: who may write what."""

from __future__ import annotations

import shlex

import pytest

from gangline.events.kafka_acl import RIGHTS, Role, kafka_acl_commands, kafka_acls
from gangline.events.log import Topic


@pytest.mark.parametrize(
    ("topic", "authors"),
    [
        (Topic.DECISIONS, {Role.SCHEDULER}),
        (Topic.ASSIGNMENTS, {Role.SCHEDULER}),
        (Topic.LEADER, {Role.SCHEDULER}),
        (Topic.SNAPSHOTS, {Role.SCHEDULER}),
        (Topic.NODES, {Role.AGENT}),
        (Topic.HEARTBEATS, {Role.AGENT}),
        (Topic.JOBS, {Role.API, Role.SUBMITTER}),
        (Topic.CONTROL, {Role.API, Role.OPERATOR}),
    ],
)
def test_each_topic_has_its_authors(topic: Topic, authors: set[Role]) -> None:
    """Nobody but the scheduler can forge a placement; agents cannot submit."""
    writers = {
        acl.principal
        for acl in kafka_acls("main")
        if (acl.operation, acl.resource, acl.name) == ("Write", "topic", f"gangline.main.{topic}")
    }
    assert writers == {f"User:gangline-{role}" for role in authors}


def test_only_a_scheduler_has_transactional_writers() -> None:
    """Who may use a transactional id of the cell can fence its leader."""
    principals = {a.principal for a in kafka_acls("main") if a.resource == "transactional-id"}
    assert principals == {"User:gangline-scheduler"}
    assert set(RIGHTS) == set(Role)


def test_nothing_is_granted_outside_the_cell() -> None:
    """Every name and every prefix is the cell's own."""
    assert all(acl.name.startswith("gangline.cell-7.") for acl in kafka_acls("cell-7"))


def test_the_script_can_be_read_and_run() -> None:
    """A line a permission, quoted for the shell; principals by the operator's own pattern."""
    lines = kafka_acl_commands(
        "main", bootstrap="kafka:9092", principal="User:CN={role},O=Our Company"
    )
    assert lines[0] == "#!/bin/sh"
    commands = [shlex.split(line) for line in lines if line.startswith("kafka-acls.sh")]
    assert len(commands) == len(kafka_acls("main"))
    assert commands[0] == [
        "kafka-acls.sh", "--bootstrap-server", "kafka:9092", "--add",
        "--allow-principal", "User:CN=scheduler,O=Our Company", "--operation", "Describe",
        "--topic", "gangline.main.assignments", "--resource-pattern-type", "literal",
    ]  # fmt: skip
