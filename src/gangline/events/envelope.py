"""Who says it: the envelope around everything that stands in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The part that all records share.

    id: unique for what it says (a submission's own id, so that a repeated one is known). kind,
    version: of the body's schema. actor: who says it: `user:NAME`, `operator:NAME`, `node:NAME`,
    `scheduler:NAME`. key_id, signature: Ed25519 over topic, key and body; empty where the policy
    trusts the network.
    """

    id: str
    kind: str
    version: int
    actor: str
    key_id: str = ""
    signature: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An envelope and what it holds: one of the classes of the vocabulary."""

    envelope: Envelope
    body: Any


def signed_bytes(topic: str, key: bytes, body: bytes, *, said: bytes = b"") -> bytes:
    """What a signature covers.

    Topic, key, Avro body, and which fact it is (`KIND.VERSION ID`), each with its length before it
    (8 bytes, big-endian).
    """
    parts = (topic.encode(), key, body, said)
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
