"""The whole state at a moment in the past: what waited and why, what ran where, who had borrowed.

It is the fold of the decisions up to then, put into plain values (`as_plain`) that can be printed
or compared. Nothing is asked of a view.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gangline.replay.history import steps
from gangline.scheduler import core
from gangline.scheduler.batches import LogDifferenceError
from gangline.scheduler.core.order import Order
from gangline.scheduler.follower import Follower

if TYPE_CHECKING:
    from gangline.replay.history import Source
    from gangline.scheduler.batches import RecordedStep
    from gangline.scheduler.core import State
    from gangline.scheduler.core.entities import Job, Node

Plain = dict[str, Any]

_SEQ: Final = re.compile(r"(?:seq|batch):([0-9]{1,18})")
_MILLISECONDS: Final = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class When:
    """A moment: up to a time (inclusive), or up to a batch."""

    at_ms: int | None = None
    seq: int | None = None

    def is_after(self, step: RecordedStep) -> bool:
        """Whether the step lies at or before this moment."""
        if self.seq is not None:
            return step.link.seq <= self.seq
        return self.at_ms is None or step.batch.now_ms <= self.at_ms


def parse_when(text: str) -> When:
    """`2026-01-31T12:00:00Z`, milliseconds since the epoch, `seq:17`, or `now`; ValueError else.

    A time without a zone is UTC.
    """
    if text == "now":
        return When()
    seq = _SEQ.fullmatch(text)
    if seq is not None:
        return When(seq=int(seq.group(1)))
    if _MILLISECONDS.fullmatch(text):
        return When(at_ms=int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "a moment is 2026-01-31T12:00:00Z, 03:00, 10m (ago), milliseconds, seq:N or now, "
            f"not {text[:60]!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return When(at_ms=int(moment.timestamp() * 1000))


def state_at(source: Source, when: When) -> Plain:
    """The state then, as plain values; LogDifferenceError where a decision fits no state."""
    follower = Follower(core)
    step = None
    try:
        for step in steps(source):
            if not when.is_after(step):
                break
            follower.fold(step)
        return as_plain(follower, when)
    except (LookupError, ValueError) as error:
        # Nothing vouches for the last batch but its own bytes: what it names may not exist.
        if step is None:
            raise
        raise LogDifferenceError(
            step.records[-1].position,
            what=f"batch {step.link.seq}",
            expected="decisions that fit the state",
            got=repr(error),
        ) from error


def as_plain(follower: Follower, when: When) -> Plain:
    """Where a follower stands, as values that JSON has."""
    state: State = follower.state
    link = follower.link
    decided_ms = 0 if link is None else link.now_ms
    now_ms = decided_ms if when.at_ms is None else max(when.at_ms, decided_ms)
    return {
        "at_ms": now_ms,
        "decided_ms": decided_ms,
        "seq": 0 if link is None else link.seq,
        "term": 0 if link is None else link.term,
        "leader": follower.leader,
        "queue": _queue(state, now_ms),
        "placements": _placements(state),
        "fleet": core.fleet_numbers(state)._asdict(),
        "teams": [_team(state, name) for name in state.teams],
        "nodes": [_node(node) for node in state.nodes.values()],
        "policy": dict(state.cell.policy),
        "state_digest": core.state_digest(state).hex(),
    }


def _queue(state: State, now_ms: int) -> list[Plain]:
    """What waits, in the scheduler's order."""
    order = Order(state, now_ms)
    waiting = [job for job in state.jobs.values() if core.job_state(state, job.id) == "queued"]
    waiting.sort(key=order.key)
    return [
        {**_job(job), "position": position, **_reason(state, job, now_ms)}
        for position, job in enumerate(waiting, start=1)
    ]


def _reason(state: State, job: Job, now_ms: int) -> Plain:
    """What was recorded; and what would be said at that moment if it was asked."""
    cause, text = core.explain(state, job.id, now_ms=now_ms)
    reservation = state.reservations.get(job.id)
    return {
        "reason": job.cause or str(cause),
        "reason_text": job.cause_text or text,
        "waited_ms": now_ms - job.submitted_ms,
        "reserved_start_ms": None if reservation is None else reservation.start_ms,
    }


def _job(job: Job) -> Plain:
    return {
        "job": job.id,
        "number": job.number,
        "team": job.spec.team,
        "class": job.job_class.word,
        "gpus": job.gpus,
        "submitted_ms": job.submitted_ms,
        "attempt": job.attempt,
        "preemptions": job.preemptions,
    }


def _placements(state: State) -> list[Plain]:
    """What holds GPUs, in the order of acceptance."""
    return [
        {
            **_job(job),
            "state": core.job_state(state, job.id),
            "placed_ms": job.placed_ms,
            "started_ms": job.started_ms,
            "saved_ms": job.saved_ms,
            "seats": [{"node": seat.node, "gpus": list(seat.gpus)} for seat in job.seats],
        }
        for job in sorted(state.holding.values(), key=lambda job: job.number)
    ]


def _team(state: State, name: str) -> Plain:
    team = state.teams[name]
    return {
        "team": name,
        "parent": team.parent,
        "guaranteed": team.guaranteed,
        "borrow": team.borrow,
        "lend": team.lend,
        "weight": team.weight,
        **core.team_numbers(state, name)._asdict(),
        "by_model": {
            model: {"guaranteed": tree[name].guaranteed, "used": tree[name].used}
            for model, tree in state.models.trees.items()
        },
    }


def _node(node: Node) -> Plain:
    return {
        "node": node.name,
        "path": list(node.path),
        "gpus": node.gpus,
        "used": node.used.bit_count(),
        "bad": [index for index in range(node.gpus) if node.bad >> index & 1],
        "health": str(node.health),
        "service": str(node.service),
    }
