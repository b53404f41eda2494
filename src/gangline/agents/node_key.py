"""The key by which a node is known: made by its agent, never shown; operators get its public half.

Ed25519, as PEM in the agent's folder, for its user only. Who has the file speaks for the node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from gangline.agents import procfs
from gangline.events import codec, signing
from gangline.events.envelope import Event

if TYPE_CHECKING:
    from pathlib import Path

    from gangline.events.facts import NodeFact, NodeHeartbeat
    from gangline.events.log import Topic

FILE: Final = "node-key"


class NodeKeyError(Exception):
    """The node's key cannot be read; its message is one line saying what to do."""


def kept_key(folder: Path) -> Ed25519PrivateKey:
    """The key in an agent's folder, made once; NodeKeyError when the file is damaged."""
    path = folder / FILE
    if not path.exists():
        pem = Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        procfs.write_whole(path, pem)
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise NodeKeyError(
            f"{path} holds no Ed25519 key; move it away, and admit the node with its new key"
        )
    return key


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """What a node says, it signs. boot_id: of the machine now."""

    node: str
    boot_id: str
    key: Ed25519PrivateKey = field(repr=False)

    @property
    def record_key(self) -> bytes:
        """Of the records that it writes."""
        return self.node.encode()

    def say(self, body: NodeFact | NodeHeartbeat, *, id: str, topic: Topic) -> bytes:  # noqa: A002
        """The value of a record."""
        envelope = codec.envelope_for(body, id=id, actor=f"node:{self.node}")
        event = Event(envelope=envelope, body=body)
        return signing.signed(event, self.key, topic=topic, record_key=self.record_key)
