"""From a bus's URL to its log. A driver is imported only when its bus is asked for."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gangline.events.log import Log

_BROKER = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::(?P<port>\d+))?", re.ASCII)
_PORTS = range(1, 65_536)


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
        return _kafka(brokers_of(url), cell, os.environ if environ is None else environ)
    raise ValueError(
        f"a bus is kafka://host:port, postgres://user@host:port/database or memory://, not {url!r}"
    )


def brokers_of(url: str) -> str:
    """The addresses in `kafka://host:port[,host:port…]`, as Kafka's clients take them.

    `ValueError` for anything else: the client itself would take a port modulo 65,536, and what
    stands behind the addresses for nothing.
    """
    addresses = url.removeprefix("kafka://").removesuffix("/")
    for address in addresses.split(","):
        match = _BROKER.fullmatch(address)
        if match is None or int(match["port"] or 9092) not in _PORTS:
            wrong = f"{address!r} in it is no broker's address" if addresses else "it names none"
            raise ValueError(f"brokers are kafka://host:port[,host:port…], not {url!r}: {wrong}")
    return addresses


def _kafka(bootstrap: str, cell: str, environ: Mapping[str, str]) -> Log:
    """The log on these brokers; values are framed where a schema registry is named."""
    from gangline.events.kafka import KafkaLog, settings_of  # noqa: PLC0415 - only where asked for
    from gangline.events.kafka.settings import registry_settings_of  # noqa: PLC0415 - as above

    framing = None
    if registry := registry_settings_of(environ):
        from gangline.events.kafka.framing import Framing  # noqa: PLC0415 - slow, and seldom used

        framing = Framing(registry)
    return KafkaLog(bootstrap, cell, settings=settings_of(environ), framing=framing)
