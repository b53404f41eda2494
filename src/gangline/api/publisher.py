"""Facts into the log, for the routes."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Final

from gangline.api.problems import ProblemError
from gangline.events import codec
from gangline.events.envelope import Event
from gangline.events.facts import JobSubmitted
from gangline.events.log import (
    Log,
    LogError,
    LogUnreachableError,
    Message,
    MessageTooLargeError,
    Position,
    Topic,
    TopicPartition,
)
from gangline.events.trace import HEADER, traceparent

if TYPE_CHECKING:
    from collections.abc import Sequence

_log: Final = logging.getLogger("gangline.api")


class Publisher:
    """Appends facts of one cell; what the log refuses becomes a problem."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def append(self, topic: Topic, body: object, *, key: str, actor: str, fact_id: str = "") -> str:
        """One fact; its position.

        fact_id: of its own where it has none (then it is never repeated).
        """
        return self.append_all([message(topic, body, key=key, actor=actor, fact_id=fact_id)])[0]

    def append_all(self, messages: Sequence[Message]) -> list[str]:
        """Facts in this order; their positions."""
        try:
            positions = [str(position) for position in self._log.append(messages)]
        except MessageTooLargeError as error:
            raise ProblemError("invalid", str(error)) from error
        except LogUnreachableError as error:
            raise ProblemError(
                "log-unreachable",
                f"{error} (whoever asks again with the same Idempotency-Key asks once)",
                headers={"Retry-After": "2"},
            ) from error
        except LogError as error:
            raise ProblemError("unavailable", str(error)) from error
        for each, position in zip(messages, positions, strict=True):
            _tell(each, position)
        return positions

    def record(self, position: Position) -> Event:
        """The fact at a position, or a problem."""
        at = TopicPartition(position.topic, position.partition)
        try:
            reader = self._log.reader({at: position.offset})
            try:
                records = reader.poll(2.0, limit=1)
            finally:
                reader.close()
            return codec.decode(records[0].value)
        except (LogError, IndexError, codec.UndecodableError) as error:
            raise ProblemError("log-unreachable", f"{position} cannot be read: {error}") from error

    def ends(self) -> dict[str, int]:
        """The end of each input partition, which says that the log is reachable."""
        try:
            ends = self._log.ends([Topic.JOBS, Topic.CONTROL, Topic.NODES, Topic.DECISIONS])
        except LogError as error:
            raise ProblemError("log-unreachable", str(error)) from error
        return {f"{at.topic}-{at.partition}": end for at, end in ends.items()}


def _tell(message: Message, position: str) -> None:
    """One line for each fact that the log took."""
    about = {name: value.decode() for name, value in message.headers}
    envelope, _ = codec.split(message.value)
    told = {
        "kind": f"gangline.{envelope['kind']}.v{envelope['version']}",
        "fact_id": envelope["id"],
        "key": message.key.decode(),
        "position": position,
        "trace": about.get(HEADER, "--").split("-")[1],
    }
    _log.info("appended", extra=told)


def message(topic: Topic, body: object, *, key: str, actor: str, fact_id: str = "") -> Message:
    """A fact as it is appended; a submission begins its job's trace."""
    value = codec.stated(body, id=fact_id or uuid.uuid4().hex, actor=actor)
    headers = (traceparent(body.job, "submitted"),) if isinstance(body, JobSubmitted) else ()
    return Message(topic=topic, value=value, key=key.encode(), headers=headers)
