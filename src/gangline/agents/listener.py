"""Reading what this node should run: the newest record of its partition of `assignments`.

Records say the whole desired state, so of several read together only the newest is handed on; at
the start that is the newest of all, so that nothing is begun that was called off long ago.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from gangline.agents.threads import guarded
from gangline.events import codec
from gangline.events.batch import NodeAssignment
from gangline.events.layout import place
from gangline.events.log import LogError, Message, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gangline.events.log import Log, Reader, Record

_POLL_S: Final = 0.5
_PAUSE_S: Final = 2.0

_log = structlog.get_logger(__name__)


class Listener:
    """Calls `told` with each newest record of a node, from a thread of its own."""

    def __init__(
        self,
        log: Log,
        node: str,
        *,
        told: Callable[[NodeAssignment], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._key = node.encode()
        self._told = told
        (self._partition,) = place([Message(topic=Topic.ASSIGNMENTS, key=self._key, value=b"")])
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=guarded(self._run, failed), name="listener", daemon=True
        )

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def close(self, *, within_s: float) -> None:
        """Stop reading; a log that does not answer is not waited for longer than this."""
        self._closing.set()
        self._thread.join(within_s)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._read()
            except LogError as error:
                _log.warning("assignments_unreachable", error=str(error))
                self._closing.wait(_PAUSE_S)

    def _read(self) -> None:
        end = self._log.ends([Topic.ASSIGNMENTS])[self._partition]
        reader = self._log.reader({self._partition: 0})
        try:
            self._hand_on(self._to(end, reader))
            while not self._closing.is_set():
                self._hand_on(reader.poll(_POLL_S))
        finally:
            reader.close()

    def _to(self, end: int, reader: Reader) -> list[Record]:
        """Our records before the end that was seen at first."""
        found: list[Record] = []
        while not self._closing.is_set() and reader.positions()[self._partition] < end:
            found += [one for one in reader.poll(_POLL_S) if one.key == self._key]
        return found

    def _hand_on(self, records: Sequence[Record]) -> None:
        """The newest of ours; one of another cell is handed on too, as the core tells of it."""
        bodies = map(self._body, records)
        for body in newest_of_each_cell(body for body in bodies if body is not None):
            self._told(body)

    def _body(self, record: Record) -> NodeAssignment | None:
        if record.key != self._key:
            return None
        try:
            body = codec.decode(record.value).body
        except codec.UndecodableError as error:
            _log.error("undecodable", position=str(record.position), error=str(error))
            return None
        return body if isinstance(body, NodeAssignment) else None


def newest_of_each_cell(bodies: Iterable[NodeAssignment]) -> list[NodeAssignment]:
    """What counts among assignments of one node."""
    newest: dict[str, NodeAssignment] = {}
    for body in bodies:
        known = newest.get(body.genesis)
        if known is None or (body.term, body.seq) > (known.term, known.seq):
            newest[body.genesis] = body
    return list(newest.values())
