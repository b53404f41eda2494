"""The API that commands talk to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gangline.client import Client


PATIENCE_S = 5.0
"""For how long a command asks an API that does not answer."""


def connect() -> Client:
    """A client of the API that GANGLINE_URL or the stack's folder names."""
    from gangline.client import Client  # noqa: PLC0415 - HTTP costs 100 ms; --help needs none

    return Client(patience_s=PATIENCE_S)
