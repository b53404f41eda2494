"""A proxy in front of a broker that knows Kafka's frames, and can keep one back."""

from __future__ import annotations

import contextlib
import struct
import threading
from typing import Self

from confluent_kafka.admin import AdminClient

from tests.support.proxy import Link, Proxy

END_TXN = 26
_LENGTH = struct.Struct(">i")


class KafkaProxy(Proxy):
    """Keeps the next EndTxn request back on demand, and delivers it later, as a slow network would.

    A frame is four bytes of length and as many bytes; a request begins with the number of its API.
    Answers are changed in one thing: where they name the broker, they name the proxy.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._broker = host.encode() + _LENGTH.pack(port)
        self._us = host.encode() + _LENGTH.pack(self.port)
        self._hold = False
        self._cut = False
        self._parted = False
        self._lock = threading.Lock()
        self._up: dict[Link, bytes] = {}
        self._down: dict[Link, bytes] = {}
        self._held: dict[Link, bytes] = {}
        self.holds = threading.Event()

    @classmethod
    def before(cls, bootstrap: str) -> Self:
        """One in front of the only broker there."""
        metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10)
        (broker,) = metadata.brokers.values()
        return cls(str(broker.host), int(broker.port or 0))

    @property
    def bootstrap(self) -> str:
        """Where clients are to connect."""
        return f"127.0.0.1:{self.port}"

    def hold_next_end_txn(self) -> None:
        """Keep back the next request to end a transaction, and what follows on its connection."""
        self.holds.clear()
        self._hold = True

    def hold_and_cut_next_end_txn(self) -> None:
        """The same, and its client loses the connection at once."""
        self._cut = True
        self.hold_next_end_txn()

    def release(self) -> None:
        """Deliver what was kept back, whether or not its client is still there."""
        with self._lock:
            held, self._held = self._held, {}
        for link, data in held.items():
            with contextlib.suppress(OSError):
                link.server.sendall(data)

    def part(self) -> None:
        """From now on nothing gets through either way, and nobody is told: a partition."""
        self._parted = True

    def heal(self) -> None:
        """Let everything through again; what was connected has to connect anew."""
        self.cut_all()
        self._parted = False

    def client_said(self, link: Link, data: bytes) -> bytes:
        """Look at each whole request."""
        if self._parted:
            return b""
        frames, self._up[link] = _frames(self._up.get(link, b"") + data)
        passed = b""
        with self._lock:
            for frame in frames:
                if self._hold and struct.unpack_from(">h", frame, 4)[0] == END_TXN:
                    self._hold = False
                    self._held[link] = b""
                    self.holds.set()
                    if self._cut:
                        link.cut_client()
                if link in self._held:
                    self._held[link] += frame
                else:
                    passed += frame
        return passed

    def server_said(self, link: Link, data: bytes) -> bytes:
        """Put our address in the place of the broker's."""
        if self._parted:
            return b""
        frames, self._down[link] = _frames(self._down.get(link, b"") + data)
        return b"".join(frame.replace(self._broker, self._us) for frame in frames)

    def client_left(self, link: Link) -> None:
        """Keep the way to the broker open where something is kept back."""
        if link not in self._held:
            link.cut_server()


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Whole frames, and what is left of the next."""
    frames = []
    while len(data) >= 4 and len(data) >= (size := 4 + _LENGTH.unpack_from(data)[0]):
        frames.append(data[:size])
        data = data[size:]
    return frames, data
