"""Heartbeats to edges: a node fell silent, a node is heard again. Pure; also verify uses it.

Heartbeats change nothing by themselves. What the reducer says at a step is a function of what the
*batches* say: which nodes are silent (the edges recorded so far), and which heartbeats their input
ranges hold. Whatever happened in steps that wrote no batch is forgotten, so a reader of the log
alone comes to the same edges. All is independent of the order in which heartbeats of one interval
arrive.

A node is silent when its newest heartbeat (by the log's append time) is older than
`suspect_after`. After a takeover or a gap in reading nobody knows who was heard meanwhile: every
deadline starts again at that batch's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gangline.events.batch import Edge
from gangline.events.decisions import NodeAdded, NodeDropped
from gangline.scheduler.keyring import Keyring

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gangline.events.decisions import Decision

SILENT: Final = "silent"
HEARD: Final = "heard"
LED: Final = "led"

AHEAD_TOLERANCE_MS: Final = 5_000
"""A heartbeat from so far in the future: the log's clock went wrong; it counts as heard now."""


class HeartbeatReducer:
    """Who is heard. A heartbeat is one dictionary entry; all are looked at when one may be late.

    keyring: by which keys, which change with the same batches.
    """

    def __init__(
        self,
        *,
        fleet: Iterable[str] = (),
        silent: Iterable[str] = (),
        keyring: Keyring | None = None,
    ) -> None:
        self.keyring = keyring or Keyring()
        self._fleet = dict.fromkeys(fleet)
        self._silent = dict.fromkeys(silent)
        self._heard: dict[str, int] = {}
        self._returned: dict[str, int] = {}
        self._since_ms = 0
        self._newest_ms = 0
        self._look_at_ms: int | None = None
        self._unsettled = False
        self._news = False

    @property
    def fleet(self) -> tuple[str, ...]:
        """The nodes that the batches say there are, in the order of their admission."""
        return tuple(self._fleet)

    @property
    def silent(self) -> tuple[str, ...]:
        """The nodes that the batches say are silent, in the order in which they fell silent."""
        return tuple(self._silent)

    def observe(self, node: str, appended_ms: int) -> None:
        """A heartbeat of the node, or another sign of life, was appended then."""
        if node not in self._fleet:
            return
        if appended_ms > self._heard.get(node, -1):
            self._heard[node] = appended_ms
            self._newest_ms = max(self._newest_ms, appended_ms)
        if node in self._silent:
            self._returned[node] = min(self._returned.get(node, appended_ms), appended_ms)
            self._news = True

    def edges(self, now_ms: int, *, suspect_after_ms: int) -> tuple[Edge, ...]:
        """What changed since the last batch; settles nothing."""
        due = self._look_at_ms is not None and now_ms - suspect_after_ms > self._look_at_ms
        if not (due or self._unsettled or self._news):
            return ()
        late_before = now_ms - suspect_after_ms
        found = []
        oldest = None
        for node in self._fleet:
            heard = self._heard.get(node, self._since_ms)
            if node in self._silent:
                if node in self._returned and heard >= late_before:
                    found.append(Edge(kind=HEARD, node=node, at_ms=self._returned[node]))
                continue
            # What was said before the takeover and is read only now starts no deadline.
            heard = max(heard, self._since_ms)
            if heard < late_before:
                found.append(Edge(kind=SILENT, node=node, at_ms=heard))
            elif oldest is None or heard < oldest:
                oldest = heard
        self._look_at_ms, self._unsettled, self._news = oldest, bool(found), False
        return tuple(found)

    def due_ms(self, *, suspect_after_ms: int) -> int | None:
        """When `edges` may have something new to say; None if only a heartbeat can change that."""
        if self._news:
            return 0
        return None if self._look_at_ms is None else self._look_at_ms + suspect_after_ms + 1

    def settle(self, edges: Sequence[Edge], decisions: Sequence[Decision], *, now_ms: int) -> None:
        """A batch with these edges and decisions was written at this time."""
        self.keyring.settle(decisions)
        for edge in edges:
            self._settle_edge(edge, now_ms)
        if self._newest_ms > now_ms + AHEAD_TOLERANCE_MS:
            self._heard = {node: min(at, now_ms) for node, at in self._heard.items()}
            self._newest_ms = now_ms
            self._watch(now_ms)
        for decision in decisions:
            if isinstance(decision, NodeAdded):
                self._fleet[decision.node] = None
                self._heard[decision.node] = now_ms
                self._watch(now_ms)
            elif isinstance(decision, NodeDropped):
                self._fleet.pop(decision.node, None)
                self._silent.pop(decision.node, None)
                self._returned.pop(decision.node, None)
                self._heard.pop(decision.node, None)

    def _settle_edge(self, edge: Edge, now_ms: int) -> None:
        if edge.kind == LED:
            self._heard.clear()
            self._returned.clear()
            self._since_ms = self._newest_ms = now_ms
            self._watch(now_ms)
        elif edge.kind == SILENT:
            self._silent[edge.node] = None
            self._returned.pop(edge.node, None)
        else:
            self._silent.pop(edge.node, None)
            self._returned.pop(edge.node, None)
            self._watch(self._heard.get(edge.node, self._since_ms))

    def _watch(self, heard_ms: int) -> None:
        """A node was heard then, and is to be looked at before it can be silent."""
        known = self._look_at_ms
        self._look_at_ms = heard_ms if known is None else min(known, heard_ms)
