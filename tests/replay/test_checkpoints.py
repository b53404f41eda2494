"""A signature kept elsewhere proves what a chain alone cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gangline.replay.checkpoints import (
    CheckpointError,
    SignedCheckpoint,
    checkpoint_of,
    load_private_key,
    load_public_key,
    read_checkpoint,
    write_checkpoint,
)
from gangline.replay.history import FileSource, LogSource, steps
from gangline.replay.logfile import export_log, read_records, write_records
from gangline.replay.verify import verify
from tests.scheduler.cell import Cell
from tests.scheduler.toy_core import ToyCore

if TYPE_CHECKING:
    from pathlib import Path

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)


def some_cell(jobs: int = 6) -> Cell:
    """A cell with a batch a job."""
    cell = Cell()
    scheduler = cell.scheduler()
    cell.led_by(scheduler)
    for index in range(jobs):
        cell.submit(f"job-{index}")
        cell.run(scheduler)
    return cell


def signed_at(cell: Cell, seq: int) -> SignedCheckpoint:
    """The checkpoint of a batch."""
    step = next(step for step in steps(LogSource(cell.log)) if step.link.seq == seq)
    return checkpoint_of(step, cell="main")


def test_what_was_signed_is_read_back(tmp_path: Path) -> None:
    """By whoever has the public key."""
    checkpoint = signed_at(some_cell(), 4)

    write_checkpoint(tmp_path / "c.json", checkpoint, KEY)

    assert read_checkpoint(tmp_path / "c.json", KEY.public_key()) == checkpoint


def test_a_changed_checkpoint_is_refused(tmp_path: Path) -> None:
    """Every field is under the signature."""
    path = tmp_path / "c.json"
    write_checkpoint(path, signed_at(some_cell(), 4), KEY)
    plain = json.loads(path.read_text())
    plain["seq"] = 5
    path.write_text(json.dumps(plain))

    with pytest.raises(CheckpointError, match="signature is not of this key"):
        read_checkpoint(path, KEY.public_key())


def test_another_key_is_refused(tmp_path: Path) -> None:
    """A signature by anybody else says nothing."""
    path = tmp_path / "c.json"
    write_checkpoint(path, signed_at(some_cell(), 4), KEY)

    with pytest.raises(CheckpointError, match="signature is not of this key"):
        read_checkpoint(path, Ed25519PrivateKey.generate().public_key())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"signature": "!"}', '{"signature": "aa=="}'])
def test_what_is_no_checkpoint_is_said_to_be_none(tmp_path: Path, text: str) -> None:
    """In one line that names the file."""
    path = tmp_path / "c.json"
    path.write_text(text)

    with pytest.raises(CheckpointError, match=r"c\.json: no checkpoint"):
        read_checkpoint(path, KEY.public_key())


def test_a_history_is_verified_from_what_was_signed() -> None:
    """Up to there it is proven by the signature, from there by recomputing."""
    cell = some_cell()

    report = verify(LogSource(cell.log), ToyCore(), checkpoint=signed_at(cell, 4))

    assert report.ok
    assert report.first_seq == 5
    assert report.notes == ["batches 1 to 4 are the ones that were signed"]


def test_another_history_by_the_logs_owner_is_found() -> None:
    """It verifies by itself, but it is not what was signed."""
    signed = signed_at(some_cell(), 4)
    other = some_cell(7)
    other_cell = Cell()
    scheduler = other_cell.scheduler()
    other_cell.led_by(scheduler)
    for index in range(6):
        other_cell.submit(f"other-{index}")
        other_cell.run(scheduler)
    assert verify(LogSource(other_cell.log), ToyCore()).ok

    report = verify(LogSource(other_cell.log), ToyCore(), checkpoint=signed)

    assert report.difference is not None
    assert report.difference.what == "signed checkpoint: chain_digest"
    assert verify(LogSource(other.log), ToyCore(), checkpoint=signed).ok


def test_a_log_that_was_cut_before_the_signed_batch_is_found(tmp_path: Path) -> None:
    """The chain cannot tell that its end is missing; the checkpoint can."""
    cell = some_cell()
    signed = signed_at(cell, 6)
    path = tmp_path / "cell.log"
    export_log(cell.log, path)
    records = list(read_records(path))
    cut = [record for record in records if record.topic != "decisions" or record.offset < 4]
    write_records(path, cut)
    assert verify(FileSource(path), ToyCore()).ok

    report = verify(FileSource(path), ToyCore(), checkpoint=signed)

    assert report.difference is not None
    assert report.difference.what == "signed batch 6"


def test_keys_are_read_from_pem_files(tmp_path: Path) -> None:
    """And what is no Ed25519 key is said not to be one."""
    private = tmp_path / "key.pem"
    private.write_bytes(
        KEY.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    public = tmp_path / "key.pub"
    public.write_bytes(
        KEY.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    checkpoint = replace(signed_at(some_cell(), 2), cell="other")

    write_checkpoint(tmp_path / "c.json", checkpoint, load_private_key(private))

    assert read_checkpoint(tmp_path / "c.json", load_public_key(public)).cell == "other"
    with pytest.raises(CheckpointError, match=r"c\.json: no PEM key"):
        load_public_key(tmp_path / "c.json")
    with pytest.raises(CheckpointError, match="No such file"):
        load_private_key(tmp_path / "none.pem")
