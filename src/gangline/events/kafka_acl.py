"""Who may do what on Kafka: the rights of each role, as commands of Kafka's own tool.

The topics are separate so that rights can hold their writers apart: nobody but a scheduler can
state a decision, an agent cannot submit jobs, and a view can only read. Pure; `gangline acl
--print` prints it.
"""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from gangline.events.layout import check_cell, topic_name
from gangline.events.log import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Role(StrEnum):
    """The kinds of programs that have a principal of their own."""

    SCHEDULER = "scheduler"
    AGENT = "agent"
    API = "api"
    PROJECTOR = "projector"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    AUDITOR = "auditor"


class Rights(NamedTuple):
    """Topics that a role reads and appends to. also: operations on the cell's topics or writers."""

    reads: Sequence[Topic] = ()
    appends: Sequence[Topic] = ()
    also: Sequence[tuple[str, str]] = ()


_EVERYTHING = tuple(Topic)

RIGHTS: Mapping[Role, Rights] = {
    # Decisions, assignments, beats and snapshots have no other author.
    Role.SCHEDULER: Rights(
        reads=_EVERYTHING,
        appends=(Topic.DECISIONS, Topic.ASSIGNMENTS, Topic.LEADER, Topic.SNAPSHOTS),
        # A leader looks whether its topics keep what it writes.
        also=(
            ("Describe", "transactional-id"),
            ("Write", "transactional-id"),
            ("DescribeConfigs", "topic"),
        ),
    ),
    Role.AGENT: Rights(reads=(Topic.ASSIGNMENTS,), appends=(Topic.NODES, Topic.HEARTBEATS)),
    # The API hands on what services and operators ask for, and waits until it is in a view.
    Role.API: Rights(reads=_EVERYTHING, appends=(Topic.JOBS, Topic.CONTROL)),
    Role.PROJECTOR: Rights(reads=_EVERYTHING),
    Role.SUBMITTER: Rights(reads=(Topic.DECISIONS,), appends=(Topic.JOBS,)),
    # `gangline init` makes topics and checks their settings.
    Role.OPERATOR: Rights(
        reads=_EVERYTHING,
        appends=(Topic.CONTROL,),
        also=(("Create", "topic"), ("Describe", "topic"), ("DescribeConfigs", "topic")),
    ),
    Role.AUDITOR: Rights(reads=_EVERYTHING),
}


class Acl(NamedTuple):
    """One permission. resource: `topic`, `group` or `transactional-id`; pattern: of its name."""

    principal: str
    operation: str
    resource: str
    name: str
    pattern: str = "literal"


def kafka_acls(cell: str, *, principal: str = "User:gangline-{role}") -> list[Acl]:
    """All permissions of a cell, in order of role. principal: a pattern in which {role} stands."""
    check_cell(cell)
    return [
        acl
        for role, rights in RIGHTS.items()
        for acl in _acls(cell, principal.format(role=role), rights)
    ]


def kafka_acl_commands(
    cell: str, *, bootstrap: str, principal: str = "User:gangline-{role}"
) -> list[str]:
    """The same as lines of a shell script that a person reads before running it."""
    lines = ["#!/bin/sh", f"# Rights of the roles of cell {cell}.", "set -eu"]
    for acl in kafka_acls(cell, principal=principal):
        words = [
            "kafka-acls.sh", "--bootstrap-server", bootstrap, "--add",
            "--allow-principal", acl.principal, "--operation", acl.operation,
        ]  # fmt: skip
        words += [f"--{acl.resource}", acl.name, "--resource-pattern-type", acl.pattern]
        lines.append(shlex.join(words))
    return lines


def _acls(cell: str, principal: str, rights: Rights) -> Iterator[Acl]:
    """One role's permissions."""
    for topic in sorted({*rights.reads, *rights.appends}):
        name = topic_name(cell, topic)
        yield Acl(principal, "Describe", "topic", name)
        if topic in rights.reads:
            yield Acl(principal, "Read", "topic", name)
        if topic in rights.appends:
            yield Acl(principal, "Write", "topic", name)
    # Readers join no group and store no offsets, but their client asks for the group's broker.
    yield Acl(principal, "Describe", "group", f"gangline.{cell}.", "prefixed")
    for operation, resource in rights.also:
        yield Acl(principal, operation, resource, f"gangline.{cell}.", "prefixed")
