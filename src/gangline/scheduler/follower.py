"""A cell's state as its decisions tell it: a standby keeps it warm, a new leader starts from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events import codec
from gangline.events.decisions import LogicUpgraded
from gangline.events.log import Topic, TopicPartition
from gangline.events.reading import read_to_ends
from gangline.scheduler.batches import Chain, LogDifferenceError, StepReader
from gangline.scheduler.logic import FIRST_VERSION, version_after
from gangline.scheduler.reducer import HeartbeatReducer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gangline.events.batch import DecisionBatch, InputRange
    from gangline.events.decisions import Decision
    from gangline.events.log import Log, Record
    from gangline.scheduler.batches import Link, RecordedStep
    from gangline.scheduler.ports import Core, State

DECISIONS = TopicPartition(Topic.DECISIONS, 0)


class DivergedError(LogDifferenceError):
    """Folding a step gave another state than the one its leader had."""


class UnknownLogicError(Exception):
    """The log was written by a newer scheduler: nobody leads or follows a version that it lacks."""


def unpack_all(step: RecordedStep, *, logic_version: int) -> list[Decision]:
    """The decisions of a step; UnknownLogicError when this program cannot know what they mean."""
    position = step.records[0].position
    if step.batch.logic_version > logic_version:
        raise UnknownLogicError(
            f"{position}: decided by logic version {step.batch.logic_version}, "
            f"this program has {logic_version}; install a newer one"
        )
    decisions = []
    for packed in step.batch.decisions:
        try:
            decision = codec.unpack(packed)
        except codec.UndecodableError as error:
            raise LogDifferenceError(
                position, what="decision", expected=f"a {packed.kind}", got=error
            ) from error
        if decision is None:
            raise UnknownLogicError(
                f"{position}: {packed.kind} version {packed.version} is unknown here; "
                "install a newer program"
            )
        if isinstance(decision, LogicUpgraded) and decision.new_version > logic_version:
            raise UnknownLogicError(
                f"{position}: from here on logic version {decision.new_version} decides, "
                f"this program has {logic_version}; install a newer one"
            )
        decisions.append(decision)
    return decisions


class Follower:
    """Folds `decisions`, checking the chain and every state digest.

    link, inputs, next_offset: where the log stands. touched: the nodes whose assignment the last
    step changed; a torn commit may have lost those, so a new leader publishes them again.
    logic_version: by which the next batch is decided. just_led: the last step began a term.
    """

    def __init__(self, core: Core, *, state: State | None = None, link: Link | None = None) -> None:
        self._core = core
        self._steps = StepReader(Chain(link))
        self.state: State = core.new_state() if state is None else state
        self.inputs: dict[TopicPartition, InputRange] = {}
        self.next_offset = 0
        self.touched: tuple[str, ...] = ()
        self.newest_append_ms = 0
        self.leader = ""
        self.steps = 0
        self.logic_version = FIRST_VERSION
        self.just_led = False
        self.reducer = HeartbeatReducer()
        core.take_touched(self.state)

    def end(self) -> Link:
        """The end of the chain; ValueError before the cell's first batch."""
        return self._steps.chain.end()

    @property
    def link(self) -> Link | None:
        """The end of the chain; None before the cell's first batch."""
        return self._steps.chain.link

    def resume(
        self, *, next_offset: int, reducer: HeartbeatReducer, touched: tuple[str, ...], leader: str
    ) -> None:
        """Go on from a snapshot's place."""
        self.next_offset = next_offset
        self.reducer = reducer
        self.touched = touched
        self.leader = leader

    def feed(self, record: Record) -> RecordedStep | None:
        """The next record of `decisions`; returns the step that it completes, already folded."""
        self.newest_append_ms = max(self.newest_append_ms, record.appended_ms)
        step = self._steps.feed(record)
        if step is not None:
            self.fold(step)
        return step

    def fold(self, step: RecordedStep) -> None:
        """The next whole step; DivergedError when the state is then not what its leader had."""
        decisions = unpack_all(step, logic_version=self._core.LOGIC_VERSION)
        self._core.fold(self.state, decisions, now_ms=step.batch.now_ms)
        digest = self._core.state_digest(self.state)
        if digest != step.batch.state_digest:
            raise DivergedError(
                step.records[-1].position,
                what="state digest",
                expected=digest.hex(),
                got=step.batch.state_digest.hex(),
            )
        self.leader = step.led_by or self.leader
        self.just_led = step.led_by is not None
        self.advance(
            step.link,
            step.batch,
            decisions,
            next_offset=step.next_offset,
            touched=self._core.take_touched(self.state),
        )

    def advance(
        self,
        link: Link,
        batch: DecisionBatch,
        decisions: Sequence[Decision],
        *,
        next_offset: int,
        touched: tuple[str, ...],
    ) -> None:
        """The log goes on to here, and the state already does. batch: the step as one."""
        self._steps.chain.link = link
        self.reducer.settle(batch.edges, decisions, now_ms=batch.now_ms)
        for consumed in batch.inputs:
            self.inputs[TopicPartition(consumed.topic, consumed.partition)] = consumed
        self.next_offset = next_offset
        self.touched = touched
        self.logic_version = version_after(batch, decisions)
        self.steps += 1

    def read_to_end(self, log: Log) -> None:
        """Fold all that is committed now."""
        for record in read_to_ends(log, {DECISIONS: self.next_offset}):
            self.feed(record)
