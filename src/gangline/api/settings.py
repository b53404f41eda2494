"""What the API is told when it starts."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DEFAULT_PORT: Final = 8642


class SettingsError(Exception):
    """The API may not start like this; the message is one line saying what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """A client may ask so often. per_second: in the long run. burst: at once."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the API listens, what it reads and writes, and whom it lets in.

    bus: the log's URL. database: the views' URL. tokens: file of hashed tokens; None lets everybody
    of this machine do everything, and then the address must be a loopback one. hosts: further names
    under which browsers reach the API. agent_token: what agents want to see before they show a
    job's output. seal_keys: the folder of keys that seal private parts of specs; None leaves them
    in clear in the log. history_until_ms: a past up to this moment is being made, as the demo does;
    the page says so until the views have it.
    """

    bus: str = ""
    database: str = ""
    cell: str = "main"
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    tokens: Path | None = None
    hosts: tuple[str, ...] = ()
    agent_token: str = field(default="", repr=False)
    seal_keys: Path | None = None
    policy_keys: Mapping[str, int] = field(default_factory=dict)
    max_body_bytes: int = 1024 * 1024
    max_batch_bytes: int = 16 * 1024 * 1024
    reads: RateLimit = RateLimit(per_second=500, burst=5_000)
    writes: RateLimit = RateLimit(per_second=500, burst=5_000)
    wait_s: float = 10.0
    history_until_ms: int = 0

    def check(self) -> None:
        """Refuse to serve other machines without tokens; `SettingsError`."""
        if self.tokens is None and not is_loopback(self.host):
            raise SettingsError(
                f"the API does not listen on {self.host} without tokens: "
                "give --tokens FILE (`gangline token create` makes it), or use 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
