"""From a bus's URL to its log. A driver is imported only when its bus is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangline.events.log import Log


def open_log(url: str, cell: str, *, environ: Mapping[str, str] | None = None) -> Log:
    """The log of a cell on the bus that a URL names; nothing is contacted yet.

    url: `kafka://host:port[,host:port…]`, `postgres://…` or `memory://` (a new, empty one).
    environ: instead of the process's own; the Kafka driver takes GANGLINE_KAFKA_* and
    GANGLINE_SCHEMA_REGISTRY_* from it.
    """
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        from gangline.events.memory import MemoryLog  # noqa: PLC0415 - only the driver asked for

        return MemoryLog(cell)
    if scheme in {"postgres", "postgresql"}:
        from gangline.events.postgres_log import PostgresLog  # noqa: PLC0415 - as above

        return PostgresLog(url, cell)
    if scheme == "kafka":
        return _kafka(urlsplit(url).netloc, cell, os.environ if environ is None else environ)
    raise ValueError(
        f"a bus is kafka://host:port, postgres://user@host:port/database or memory://, not {url!r}"
    )


def _kafka(bootstrap: str, cell: str, environ: Mapping[str, str]) -> Log:
    """The log on these brokers; values are framed where a schema registry is named."""
    from gangline.events.kafka import KafkaLog, settings_of  # noqa: PLC0415 - only where asked for
    from gangline.events.kafka.settings import registry_settings_of  # noqa: PLC0415 - as above

    framing = None
    if registry := registry_settings_of(environ):
        from gangline.events.kafka.framing import Framing  # noqa: PLC0415 - slow, and seldom used

        framing = Framing(registry)
    return KafkaLog(bootstrap, cell, settings=settings_of(environ), framing=framing)
