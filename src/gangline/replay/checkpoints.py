"""Whether a history is the one that an operator's key has signed (`scheduler/checkpoints.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangline.events.log import Position
from gangline.scheduler.batches import LogDifferenceError
from gangline.scheduler.checkpoints import (
    CheckpointError,
    SignedCheckpoint,
    checkpoint_at,
    load_private_key,
    load_public_key,
    read_checkpoint,
    write_checkpoint,
)

if TYPE_CHECKING:
    from gangline.scheduler.batches import RecordedStep

__all__ = [
    "CheckpointError",
    "SignedCheckpoint",
    "check_against",
    "checkpoint_of",
    "load_private_key",
    "load_public_key",
    "missing",
    "read_checkpoint",
    "write_checkpoint",
]


def checkpoint_of(step: RecordedStep, *, cell: str) -> SignedCheckpoint:
    """The checkpoint at the end of a step."""
    return checkpoint_at(
        step.link,
        cell=cell,
        state_digest=step.batch.state_digest,
        offset=step.records[-1].offset,
    )


def check_against(checkpoint: SignedCheckpoint, step: RecordedStep) -> None:
    """LogDifferenceError unless the step that ends at the checkpoint's batch is the signed one."""
    found = checkpoint_of(step, cell=checkpoint.cell)
    for name in ("genesis", "term", "seq", "chain_digest", "state_digest"):
        expected, got = getattr(checkpoint, name), getattr(found, name)
        if expected != got:
            raise LogDifferenceError(
                step.records[-1].position,
                what=f"signed checkpoint: {name}",
                expected=expected,
                got=got,
            )


def missing(checkpoint: SignedCheckpoint) -> LogDifferenceError:
    """The log ends before the batch that was signed."""
    position = Position("decisions", 0, checkpoint.offset)
    return LogDifferenceError(
        position, what=f"signed batch {checkpoint.seq}", expected="a record", got="the log's end"
    )
