"""Logs that are closed when their test is done with them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gangline.events.bus import open_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.events.log import Log


@contextmanager
def opened(url: str, cell: str) -> Iterator[Log]:
    """A client of a cell."""
    log = open_log(url, cell)
    try:
        yield log
    finally:
        log.close()
