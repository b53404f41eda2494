# ruff: noqa: INP001, T201 - a folder of scripts, no package
"""A small all-reduce over the gang's rendezvous, with nothing but sockets.

    RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python examples/allreduce.py

Rank 0 listens where the scheduler told everybody to meet; the others bring their numbers, and
everybody takes the sums home. Real programs use torch.distributed in its place; the environment
is the same.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ring:
    """The connection of one rank to its gang. Close it at the end, or use it in a `with`."""

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self._peers: list[socket.socket] = []
        if self.world_size > 1:
            address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            self._peers = (
                self._listen(address, timeout_s)
                if self.rank == 0
                else [_connect(address, timeout_s)]
            )

    def _listen(self, address: tuple[str, int], timeout_s: float) -> list[socket.socket]:
        with socket.create_server(("", address[1]), backlog=self.world_size) as server:
            server.settimeout(timeout_s)
            peers = [server.accept()[0] for _ in range(self.world_size - 1)]
        for peer in peers:
            peer.settimeout(timeout_s)
        return peers

    def sum(self, values: Sequence[int]) -> list[int]:
        """The sums over all ranks, place by place; every rank gives as many numbers."""
        if self.rank == 0:
            gathered = [list(values), *(_receive(peer, len(values)) for peer in self._peers)]
            totals = [sum(column) for column in zip(*gathered, strict=True)]
            for peer in self._peers:
                _send(peer, totals)
            return totals
        _send(self._peers[0], values)
        return _receive(self._peers[0], len(values))

    def close(self) -> None:
        """Leave the gang."""
        for peer in self._peers:
            peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _connect(address: tuple[str, int], timeout_s: float) -> socket.socket:
    """Meet rank 0, which may come later than we do."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return socket.create_connection(address, timeout=timeout_s)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _send(peer: socket.socket, values: Sequence[int]) -> None:
    peer.sendall(struct.pack(f"!{len(values)}q", *values))


def _receive(peer: socket.socket, count: int) -> list[int]:
    data = b""
    while len(data) < 8 * count:
        part = peer.recv(8 * count - len(data))
        if not part:
            raise ConnectionError("a rank of the gang is gone")
        data += part
    return list(struct.unpack(f"!{count}q", data))


def main() -> None:
    """Add up all ranks' numbers and say what came out."""
    with Ring() as ring:
        (total,) = ring.sum([ring.rank + 1])
        print(f"rank {ring.rank} of {ring.world_size}: the sum is {total}", flush=True)


if __name__ == "__main__":
    main()
