"""Recorded inputs as text, and what a process of its own makes of them.

`python -m tests.core.replayed FILE` prints a line a step: the state's digest, and the digest of the
bytes of all decisions so far.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gangline.events import codec
from gangline.events.batch import Edge
from gangline.scheduler import core
from gangline.scheduler.core.inputs import Fact
from tests.core.make import Inputs


def written(inputs: Iterable[Inputs]) -> str:
    """Inputs as lines of JSON, facts as the bytes of the log."""
    return "\n".join(
        json.dumps(
            [
                [
                    [*fact[:4], codec.encode(fact.event).hex() if fact.event else ""]
                    for fact in facts
                ],
                [[edge.kind, edge.node, edge.at_ms, edge.why] for edge in edges],
                now_ms,
                caught_up,
            ]
        )
        for facts, edges, now_ms, caught_up in inputs
    )


def read(text: str) -> list[Inputs]:
    """The inputs again."""
    return [_step(*json.loads(line)) for line in text.splitlines()]


def _step(facts: Sequence[Any], edges: Sequence[Any], now_ms: int, caught_up: Any) -> Inputs:
    return Inputs(
        tuple(
            Fact(topic, partition, offset, at_ms, codec.decode(bytes.fromhex(value)))
            for topic, partition, offset, at_ms, value in facts
        ),
        tuple(Edge(kind=kind, node=node, at_ms=at, why=why) for kind, node, at, why in edges),
        now_ms,
        bool(caught_up),
    )


def decided(inputs: Iterable[Inputs]) -> list[str]:
    """A line a step: the digests of the state, and of all decisions so far."""
    state, so_far, lines = core.new_state(), hashlib.blake2b(digest_size=32), []
    for facts, edges, now_ms, caught_up in inputs:
        for one in core.step(state, facts, edges=edges, now_ms=now_ms, caught_up=caught_up):
            so_far.update(codec.pack(one).body)
        lines.append(f"{core.state_digest(state).hex()} {so_far.hexdigest()}")
    return lines


if __name__ == "__main__":
    recorded = read(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stdout.write("\n".join(decided(recorded)) + "\n")
