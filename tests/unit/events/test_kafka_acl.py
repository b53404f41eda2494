"""Rights on Kafka: who may write what."""

from __future__ import annotations

import ast
import shlex

import pytest

from gangline.events.kafka.settings import reader_settings, writer_settings
from gangline.events.kafka_acl import RIGHTS, Role, kafka_acl_commands, kafka_acls
from gangline.events.log import Topic
from gangline.scheduler.beats import BEATS_ROLE
from gangline.scheduler.takeover import WRITER_ROLE
from tests.support.sources import PACKAGE, parsed, python_files


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


def roles_of_writers() -> set[str]:
    """The names of what is handed to `Log.writer` anywhere in the sources."""
    calls = [
        node
        for path in python_files(PACKAGE)
        if not path.is_relative_to(PACKAGE / "replay")  # its logs are in memory
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("log.writer")
    ]
    return {ast.unparse(call.args[0]) for call in calls}


def test_everything_that_the_code_uses_is_in_the_script() -> None:
    """Every topic, the group that readers name, and the transactional id of each writer."""
    granted = {(acl.resource, acl.name, acl.pattern) for acl in kafka_acls("main")}
    for topic in Topic:
        assert ("topic", f"gangline.main.{topic}", "literal") in granted
    assert roles_of_writers() == {"WRITER_ROLE", "BEATS_ROLE"}
    ids = [writer_settings("main", role)["transactional.id"] for role in (WRITER_ROLE, BEATS_ROLE)]
    used = [("group", reader_settings("main")["group.id"])]
    used += [("transactional-id", each) for each in ids]
    for resource, name in used:
        assert any(
            str(name).startswith(prefix)
            for kind, prefix, pattern in granted
            if (kind, pattern) == (resource, "prefixed")
        ), f"nobody is granted {resource} {name}"


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
