"""A small TCP proxy that tests break things with: it sees what passes and may cut a connection."""

from __future__ import annotations

import contextlib
import socket
import threading


class Link:
    """One proxied connection: the client's socket and the server's."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server

    def cut(self) -> None:
        """End both sides at once."""
        self.cut_client()
        self.cut_server()

    def cut_client(self) -> None:
        """End the client's side only."""
        _shut(self.client)

    def cut_server(self) -> None:
        """End the server's side only."""
        _shut(self.server)


class Proxy:
    """Passes bytes between clients and one server. Subclasses override what happens on the way."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: list[Link] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def client_said(self, link: Link, data: bytes) -> bytes:
        """What of this goes on to the server."""
        return data

    def server_said(self, link: Link, data: bytes) -> bytes:
        """What of this goes on to the client."""
        return data

    def client_left(self, link: Link) -> None:
        """The client has closed its side."""
        link.cut_server()

    def cut_all(self) -> None:
        """End every connection there is; new ones are taken."""
        for link in self._links:
            link.cut()

    def close(self) -> None:
        """End everything."""
        _shut(self._listener)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join(5)
        for link in self._links:
            link.client.close()
            link.server.close()

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        """Take connections until closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server)
            self._links.append(link)
            self._start(self._pump_up, link)
            self._start(self._pump_down, link)

    def _pump_up(self, link: Link) -> None:
        """From the client to the server."""
        with contextlib.suppress(OSError):
            while data := link.client.recv(65536):
                link.server.sendall(self.client_said(link, data))
        self.client_left(link)

    def _pump_down(self, link: Link) -> None:
        """From the server to the client."""
        with contextlib.suppress(OSError):
            while data := link.server.recv(65536):
                link.client.sendall(self.server_said(link, data))
        link.cut_client()


def _shut(endpoint: socket.socket) -> None:
    """Wake whoever waits on a socket."""
    with contextlib.suppress(OSError):
        endpoint.shutdown(socket.SHUT_RDWR)
