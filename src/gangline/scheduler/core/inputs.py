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
