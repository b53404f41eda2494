"""Private parts of specs that only those can read who have the key; the log never has it.

A key store is a folder with one file a key, `NAME.key`: 32 bytes in hexadecimal. It is shared by
the API, which seals, and the agents, which open. Each user has a key, so that removing its file
erases what that user ever wrote in private parts, while the log and all its digests stay as they
are. ChaCha20-Poly1305; the key's name, and the team and job that it was submitted for, are
authenticated with the text: a copy of it in another job is not opened. What was sealed before jobs
were named so is opened in any.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from gangline.events.spec import Private

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class SealError(ValueError):
    """A private part cannot be sealed or opened; the message quotes nothing of it."""


def binding(job: str, *, team: str, count: int) -> str:
    """What the private part of a submission is bound to: its job, or its array of `count` tasks."""
    return "\0".join((team, "job" if count == 1 else "array", job))


def bindings(job: str, *, team: str) -> tuple[str, ...]:
    """What the private part of a job that runs may be bound to: it may be a task of an array."""
    array, dot, number = job.rpartition(".")
    alone = binding(job, team=team, count=1)
    is_task = dot and array and number.isdecimal()
    return (alone, binding(array, team=team, count=2)) if is_task else (alone,)


def _beside(key_id: str, bound_to: str) -> bytes:
    """What is authenticated with a text."""
    return f"{key_id}\0{bound_to}".encode() if bound_to else key_id.encode()


class KeyStore:
    """Keys by name. The folder is made when the first key is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def seal(self, clear: bytes, *, key_id: str, bound_to: str = "") -> Private:
        """Seal a text with the key of this name, which is made if there is none.

        bound_to: what `binding` says of its job.
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        cipher = ChaCha20Poly1305(self._kept(key_id))
        return Private(
            key_id=key_id,
            nonce=nonce,
            ciphertext=cipher.encrypt(nonce, clear, _beside(key_id, bound_to)),
        )

    def unseal(self, private: Private, *, bound_to: Sequence[str] = ()) -> bytes:
        """The clear text; SealError when its key is gone or another one, or the job is.

        bound_to: what it may be bound to, as `bindings` says of the job.
        """
        if not private.key_id:
            return private.ciphertext
        cipher = ChaCha20Poly1305(self._key(private.key_id))
        for bound in (*bound_to, ""):
            beside = _beside(private.key_id, bound)
            with contextlib.suppress(InvalidTag, ValueError):
                return cipher.decrypt(private.nonce, private.ciphertext, beside)
        raise SealError(f"it was not sealed with this key {private.key_id} for this job")

    def _path(self, key_id: str) -> Path:
        return self._folder / f"{quote(key_id, safe='')}.key"

    def _key(self, key_id: str) -> bytes:
        try:
            key = bytes.fromhex(self._path(key_id).read_text(encoding="ascii"))
        except OSError:
            raise SealError(f"sealed with key {key_id}, which is not here") from None
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            raise SealError(f"the file of key {key_id} holds no key of {_KEY_BYTES} bytes")
        return key

    def _kept(self, key_id: str) -> bytes:
        """The key of this name, made once however many ask at the same time."""
        path = self._path(key_id)
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = path.with_name(f".{secrets.token_hex(8)}")
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(_KEY_BYTES))
                file.flush()
                os.fsync(handle)
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return self._key(key_id)
