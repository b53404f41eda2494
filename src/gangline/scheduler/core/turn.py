"""One step in the making: what has been decided so far, and the means to decide and to refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from gangline.events import decisions as d
from gangline.scheduler.core.apply import apply
from gangline.scheduler.core.inputs import Fact
from gangline.scheduler.core.state import State

T = TypeVar("T")


class Refusal(StrEnum):
    """Why a fact changes nothing."""

    UNDECODABLE = "undecodable"
    UNKNOWN_KIND = "unknown kind of fact for this topic"
    BAD_NAME = "a name must be 1 to 128 printable characters without spaces"
    BAD_VALUE = "a value is out of range"
    DUPLICATE = "duplicate"
    NO_SUCH_JOB = "no such job"
    JOB_ENDED = "the job has ended"
    NO_SUCH_TEAM = "no such team"
    NO_SUCH_NODE = "no such node"
    NO_SUCH_GPU = "no such GPU on the node"
    NO_SUCH_KEY = "no such policy key"
    TEAM_CYCLE = "a team cannot be its own ancestor"
    OTHER_LEVELS = "the levels of the node's path differ from the fleet's"
    NOT_ITS_NODE = "a node may state facts of itself only"
    OLD_ATTEMPT = "an older attempt"
    NOT_ITS_MEMBER = "the node has no member of this attempt"
    WRONG_PHASE = "not in this phase of the job"
    ALREADY_SO = "already so"


@dataclass(slots=True)
class Turn:
    """A step under way.

    now_ms: its time. caught_up: all inputs were read to their ends. considered: groups of waiting
    jobs that were asked for. remembered: what was worked out since the last decision. broken: jobs
    whose plans lack what somebody else took, and after how many decisions that was found. remade:
    how often plans were made again for that.
    """

    state: State
    now_ms: int
    caught_up: bool
    decisions: list[d.Decision] = field(default_factory=list)
    considered: int = 0
    refused: dict[tuple[str, int, str, str], list[int]] = field(default_factory=dict)
    remembered: dict[Any, Any] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    remade: dict[str, int] = field(default_factory=dict)

    def decide(self, decision: d.Decision) -> None:
        """Make a decision: the state changes at once, and the batch will tell."""
        apply(self.state, decision, self.now_ms)
        self.remembered.clear()
        self.decisions.append(decision)

    def remember(self, key: object, find: Callable[[], T]) -> T:
        """What `find` finds, found once until the next decision."""
        if key not in self.remembered:
            self.remembered[key] = find()
        found: T = self.remembered[key]
        return found

    def refuse(self, fact: Fact, reason: Refusal, detail: str = "") -> None:
        """A fact changes nothing; refusals of one kind are told together at the end of the step."""
        key = (fact.topic, fact.partition, str(reason), detail)
        self.refused.setdefault(key, []).append(fact.offset)

    def tell_considered(self) -> None:
        """Say that jobs were asked for in vain, so that whoever replays this asks when we did."""
        if self.considered and not self.decisions:
            self.decide(d.QueueConsidered())

    def tell_refusals(self) -> None:
        """Decide the refusals gathered so far."""
        for (topic, partition, reason, detail), offsets in self.refused.items():
            self.decide(
                d.InputRejected(
                    topic=topic,
                    partition=partition,
                    first=offsets[0],
                    last=offsets[-1],
                    count=len(offsets),
                    reason=reason,
                    detail=detail,
                )
            )
        self.refused = {}
