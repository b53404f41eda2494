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
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gangline.scheduler.batches import Link
    from gangline.scheduler.follower import Follower


CHECKPOINT_EVERY_MS: Final = 3_600_000


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


def checkpoint_at(link: Link, *, cell: str, state_digest: bytes, offset: int) -> SignedCheckpoint:
    """The checkpoint of a chain's end. offset: of its last record."""
    return SignedCheckpoint(
        cell=cell,
        genesis=link.genesis,
        term=link.term,
        seq=link.seq,
        offset=offset,
        now_ms=link.now_ms,
        chain_digest=link.digest.hex(),
        state_digest=state_digest.hex(),
    )


class CheckpointWriter:
    """Writes one each hour and at each takeover, to a folder outside the log.

    Files are named by cell and batch, so that none is ever written over.
    """

    def __init__(self, folder: Path, key: Ed25519PrivateKey, *, cell: str) -> None:
        self._folder = folder
        self._key = key
        self._cell = cell
        self._term = 0
        self._next_ms = 0

    def write_if_due(self, follower: Follower, *, state_digest: Callable[[], bytes]) -> Path | None:
        """Write where the follower stands, if it is time; the file, or None."""
        link = follower.link
        if link is None or (link.term == self._term and link.now_ms < self._next_ms):
            return None
        self._term = link.term
        self._next_ms = link.now_ms + CHECKPOINT_EVERY_MS
        checkpoint = checkpoint_at(
            link,
            cell=self._cell,
            state_digest=state_digest(),
            offset=follower.next_offset - 1,
        )
        path = self._folder / f"{self._cell}-{link.seq:012d}.json"
        write_checkpoint(path, checkpoint, self._key)
        return path


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
