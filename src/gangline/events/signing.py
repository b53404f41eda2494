"""Signatures of facts: a node signs what it says, whoever reads it can tell that it was the node.

Ed25519 over `envelope.signed_bytes`. A key is the raw 32 bytes; its id is the beginning of the
public one in hexadecimal, for people.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gangline.events import codec
from gangline.events.envelope import Event, signed_bytes

if TYPE_CHECKING:
    from gangline.events.log import Record

KEY_BYTES: Final = 32
_ID_CHARACTERS: Final = 16
_KNOWN_KEYS: Final = 10_000


def public_bytes(key: Ed25519PrivateKey) -> bytes:
    """The public half, as NodeAdmitted carries it."""
    return key.public_key().public_bytes_raw()


def key_id(public_key: bytes) -> str:
    """What people call a key."""
    return public_key.hex()[:_ID_CHARACTERS]


def signed(event: Event, key: Ed25519PrivateKey, *, topic: str, record_key: bytes) -> bytes:
    """The value of a record that says this event, with a signature in its envelope."""
    envelope = event.envelope
    covered = signed_bytes(topic, record_key, codec.body_bytes(event.body), said=said(event))
    signature = key.sign(covered)
    named = replace(envelope, key_id=key_id(public_bytes(key)), signature=signature)
    return codec.encode(Event(envelope=named, body=event.body))


def is_signed_by(public_key: bytes, record: Record, event: Event) -> bool:
    """Whether the owner of this key said it, in this topic and under this key of the record."""
    body = codec.split(record.value)[1]
    covered = signed_bytes(record.topic, record.key, body, said=said(event))
    try:
        _public(public_key).verify(event.envelope.signature, covered)
    except (InvalidSignature, ValueError):
        return False
    return True


def said(event: Event) -> bytes:
    """What kind of fact it is and which one; so that none passes for another of the same shape."""
    envelope = event.envelope
    return f"{envelope.kind}.{envelope.version} {envelope.id}".encode()


@lru_cache(maxsize=_KNOWN_KEYS)
def _public(key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(key)
