"""The policy as it is set where there is no API yet: as a fact, straight into the log."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def prepare_log(bus: str, cell: str, *, values: Mapping[str, int], actor: str) -> str:
    """Make the cell's topics and set its policy; the position of that fact, empty for no values.

    LogUnreachableError says what does not answer.
    """
    from gangline.events import codec, facts  # noqa: PLC0415 - drivers and schemas are heavy
    from gangline.events.bus import open_log  # noqa: PLC0415
    from gangline.events.log import Message, Topic  # noqa: PLC0415

    log = open_log(bus, cell, environ=os.environ)
    try:
        log.create_topics()
        if not values:
            return ""
        body = facts.PolicySet(values=values)
        value = codec.stated(body, id=uuid.uuid4().hex, actor=actor)
        return str(log.append([Message(topic=Topic.CONTROL, value=value, key=b"policy")])[0])
    finally:
        log.close()
