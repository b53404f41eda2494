"""Whether a node said what stands under its name. Pure; also verify uses it.

An operator admits a node with its public key; from then on only facts and heartbeats that this key
has signed count as the node's. What fails is handed to the core as a record that cannot be read,
and is recorded as refused, like garbage.

The keys are those of the decisions up to the *last batch*, and of nodes that are admitted by the
very facts that are judged: so a node counts by its key from its first fact on, and a reader of the
log alone judges each fact as its leader did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gangline.events.decisions import NodeAdded, NodeDropped, PolicyChanged
from gangline.events.facts import NodeAdmitted
from gangline.events.log import Topic
from gangline.events.signing import is_signed_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gangline.events.decisions import Decision
    from gangline.events.log import Record
    from gangline.scheduler.core.inputs import Fact

REQUIRED: Final = "require_signatures"
NO_KEY: Final = "its node was admitted without a key, and the policy asks for signatures"
UNSIGNED: Final = "it carries no signature, and its node has a key"
WRONG: Final = "its signature is not of its node's key"

_JUDGED: Final = frozenset({str(Topic.NODES), str(Topic.HEARTBEATS)})


class Keyring:
    """The keys of the fleet. required: whether nodes without a key count for nothing."""

    def __init__(self, keys: Mapping[str, bytes] | None = None, *, required: bool = False) -> None:
        self._keys = dict(keys or {})
        self._required = required

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Keyring:
        """What `plain` gave."""
        keys = {node: bytes.fromhex(key) for node, key in plain["keys"].items()}
        return cls(keys, required=plain["required"])

    def plain(self) -> dict[str, Any]:
        """For a snapshot."""
        keys = {node: key.hex() for node, key in self._keys.items()}
        return {"keys": keys, "required": self._required}

    def settle(self, decisions: Iterable[Decision]) -> None:
        """A batch with these decisions was written."""
        for decision in decisions:
            if isinstance(decision, NodeAdded) and decision.public_key:
                self._keys[decision.node] = decision.public_key
            elif isinstance(decision, NodeDropped):
                self._keys.pop(decision.node, None)
            elif isinstance(decision, PolicyChanged) and REQUIRED in decision.values:
                self._required = bool(decision.values[REQUIRED])

    def judged(self, fact: Fact, record: Record) -> Fact:
        """The fact as the core may see it. record: where it stands."""
        return self._judged(fact, record, self._keys)

    def judged_all(
        self, taken: Collection[tuple[Fact, Record]], *, fleet: Collection[str]
    ) -> list[Fact]:
        """All facts of one batch. fleet: nodes that are there already, with a key or without."""
        keys = {**_newcomers(taken, fleet), **self._keys}
        return [self._judged(fact, record, keys) for fact, record in taken]

    def _judged(self, fact: Fact, record: Record, keys: Mapping[str, bytes]) -> Fact:
        if fact.event is None or fact.topic not in _JUDGED or not (keys or self._required):
            return fact
        key = keys.get(getattr(fact.event.body, "node", ""), b"")
        problem = ""
        if not key:
            problem = NO_KEY if self._required else ""
        elif not fact.event.envelope.signature:
            problem = UNSIGNED
        elif not is_signed_by(key, record, fact.event):
            problem = WRONG
        return fact._replace(event=None, problem=problem) if problem else fact


def _newcomers(taken: Iterable[tuple[Fact, Record]], fleet: Collection[str]) -> dict[str, bytes]:
    """Keys of nodes that these facts admit; the first admission is the one that counts."""
    found: dict[str, bytes] = {}
    for fact, _ in taken:
        body = fact.event.body if fact.event else None
        if isinstance(body, NodeAdmitted) and body.public_key and body.node not in fleet:
            found.setdefault(body.node, body.public_key)
    return found
