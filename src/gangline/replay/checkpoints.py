"""Signed checkpoints: what the operator's key says was the log's end at some moment.

A chain of digests proves nothing against the one who owns the whole log: they can write another
one. A checkpoint kept elsewhere can: a history that contains this batch with this digest is the
one that was signed, from its first record to there; what comes after is proven only by recomputing
it.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from gangline.events.log import Position
from gangline.scheduler.batches import LogDifferenceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gangline.scheduler.batches import RecordedStep


class CheckpointError(Exception):
    """A checkpoint or a key cannot be used; the message names the file and says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCheckpoint:
    """What is signed. chain_digest: of batch `seq`; state_digest: after it. Both in hexadecimal."""

    cell: str
    genesis: str
    term: int
    seq: int
    offset: int
    now_ms: int
    chain_digest: str
    state_digest: str

    def signed_bytes(self) -> bytes:
        """What the signature covers: the fields as JSON, sorted, without blanks."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()


def checkpoint_of(step: RecordedStep, *, cell: str) -> SignedCheckpoint:
    """The checkpoint at the end of a step."""
    return SignedCheckpoint(
        cell=cell,
        genesis=step.link.genesis,
        term=step.link.term,
        seq=step.link.seq,
        offset=step.records[-1].offset,
        now_ms=step.link.now_ms,
        chain_digest=step.link.digest.hex(),
        state_digest=step.batch.state_digest.hex(),
    )


def write_checkpoint(path: Path, checkpoint: SignedCheckpoint, key: Ed25519PrivateKey) -> None:
    """Write a checkpoint and its signature, all or nothing."""
    signature = base64.b64encode(key.sign(checkpoint.signed_bytes())).decode()
    text = json.dumps({**asdict(checkpoint), "signature": signature}, indent=1) + "\n"
    partial = path.with_name(path.name + ".part")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def read_checkpoint(path: Path, key: Ed25519PublicKey) -> SignedCheckpoint:
    """A checkpoint whose signature is right; CheckpointError for any other."""
    try:
        plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        signature = base64.b64decode(plain.pop("signature"), validate=True)
        checkpoint = SignedCheckpoint(**plain)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise CheckpointError(f"{path}: no checkpoint: {error}") from error
    try:
        key.verify(signature, checkpoint.signed_bytes())
    except InvalidSignature:
        raise CheckpointError(f"{path}: the signature is not of this key") from None
    return checkpoint


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


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """An operator's key from a PEM file."""
    key = _loaded(path, lambda data: load_pem_private_key(data, None))
    if not isinstance(key, Ed25519PrivateKey):
        raise CheckpointError(f"{path}: an Ed25519 private key is needed")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """The public half from a PEM file."""
    key = _loaded(path, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise CheckpointError(f"{path}: an Ed25519 public key is needed")
    return key


def _loaded(path: Path, load: Callable[[bytes], object]) -> object:
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CheckpointError(f"{path}: no PEM key: {error}") from error
