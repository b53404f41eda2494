"""What reaches the core: facts with their place in the log."""

from __future__ import annotations

from typing import NamedTuple

from gangline.events.envelope import Event


class Fact(NamedTuple):
    """A record of an input topic, decoded where it could be.

    appended_ms: the log's own time, from which ages count. event: None where the bytes could not be
    decoded; problem then says why.
    """

    topic: str
    partition: int
    offset: int
    appended_ms: int
    event: Event | None
    problem: str = ""

    @property
    def actor(self) -> str:
        """Who states it; empty where nobody knows."""
        return self.event.envelope.actor if self.event is not None else ""

    @property
    def id(self) -> str:
        """What its copies have in common; empty where nobody knows."""
        return self.event.envelope.id if self.event is not None else ""
