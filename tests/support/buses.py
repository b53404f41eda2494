"""The buses that tests run on, and logs that are closed when their test is done with them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from gangline.events.bus import open_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.log import Log


SERVERS: Final = (
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("kafka", marks=pytest.mark.kafka),
)
"""Parameters of a fixture: each server that a log may lie on."""

DRIVERS: Final = ("memory", *SERVERS)
"""The same with the log in memory."""


def url_of(request: pytest.FixtureRequest) -> str:
    """The URL of what a fixture's parameter names."""
    if request.param == "kafka":
        return f"kafka://{request.getfixturevalue('kafka_bootstrap')}"
    if request.param == "memory":
        return "memory://"
    url: str = request.getfixturevalue("postgres_url")
    return url


@contextmanager
def opened(url: str, cell: str) -> Iterator[Log]:
    """A client of a cell."""
    log = open_log(url, cell)
    try:
        yield log
    finally:
        log.close()
