"""What a scenario file can say, as data: one class a command, each with the line it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gangline.agents.simulated_gang import Program
from gangline.events.facts import NodeAdmitted, TeamSet
from gangline.events.spec import JobClass, Spec


class Place(NamedTuple):
    """A node: by its name, or as the `member`-th node of the place that a job has, or had last."""

    node: str
    job: str = ""
    member: int = 0

    def __str__(self) -> str:
        return self.node or f"{self.job}#{self.member}"


class Check(NamedTuple):
    """One thing that is expected: `key`, one of `= <= >= < >`, and a value. text: as written."""

    key: str
    operator: str
    value: int | str | Place
    text: str

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a file. line: where it stands, from 1."""

    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeFleet(Command):
    """Nodes join the fleet."""

    nodes: tuple[NodeAdmitted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPolicy(Command):
    """Policy keys get other values."""

    values: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTeam(Command):
    """A team is made or changed."""

    team: TeamSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit(Command):
    """A job is submitted. program: what it really does."""

    job: str
    spec: Spec
    program: Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Command):
    """A submission is repeated. template: its words, with `{i}` in them."""

    count: int
    every_ms: int
    template: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Command):
    """A user wants a job to end."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(Command):
    """A job is not to start."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Command):
    """A held job may start."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePriority(Command):
    """A job gets another class."""

    job: str
    job_class: JobClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Command):
    """Time passes."""

    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUntil(Command):
    """Time passes until a job is in a state."""

    job: str
    state: str
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(Command):
    """A machine dies. for_ms: None for ever."""

    place: Place
    for_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(Command):
    """A node cannot be reached. for_ms: None for ever."""

    place: Place
    for_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Command):
    """A GPU is out from now on."""

    place: Place
    gpu: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(Command):
    """A node is ready late. ready_ms: None for never."""

    place: Place
    ready_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon(Command):
    """New work stays off a node."""

    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncordon(Command):
    """A node takes new work again."""

    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain(Command):
    """A node is emptied. deadline_ms: from now, None for never."""

    place: Place
    deadline_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintain(Command):
    """A node will be out of service."""

    place: Place
    in_ms: int
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw(Command):
    """A node leaves the fleet for good."""

    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashScheduler(Command):
    """The leader dies and a standby takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopScheduler(Command):
    """There is no scheduler for a while."""

    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLog(Command):
    """How facts are delivered from now on: `duplicate`, `reorder` or `normal`."""

    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage(Command):
    """Undecodable bytes arrive."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect(Command):
    """Something must be so now. what: `job`, `team`, `fleet` or `total`; name: of the first two."""

    what: str
    name: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectReason(Command):
    """A job must wait for this cause."""

    job: str
    cause: str
