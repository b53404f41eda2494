"""A schema registry in this process: the part of Confluent's API that its clients use here.

Schemas have one id each, subjects have versions and a compatibility; a version that the subject's
mode does not allow is refused with 409, as the real one does.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from gangline.events.compatibility import problems

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

Answer = tuple[int, dict[str, Any]]


class Registry:
    """The registry, and the server that speaks for it. away: it answers everything with 503."""

    def __init__(self) -> None:
        self.schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.modes: dict[str, str] = {}
        self.asked: list[str] = []
        self.away = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: list[str], body: dict[str, Any]) -> Answer:
        """What it says to a request."""
        if self.away:
            return _wrong(503, 50301, "away")
        self.asked.append(f"{method} {'/'.join(path)}")
        match [method, *path]:
            case ["PUT", "config", subject]:
                self.modes[subject] = body["compatibility"]
                return 200, body
            case ["POST", "subjects", subject, "versions"]:
                return self._registered(subject, body["schema"])
            case ["POST", "subjects", subject]:
                return self._found(subject, body["schema"])
            case ["GET", "schemas", "ids", number]:
                return self._by_id(int(number))
        return _wrong(404, 404, "no such place")

    def _registered(self, subject: str, text: str) -> Answer:
        versions = self.subjects.setdefault(subject, [])
        if self.modes.get(subject) == "FULL_TRANSITIVE" and list(self._quarrels(versions, text)):
            return _wrong(409, 409, "incompatible")
        if text not in self.schemas:
            self.schemas.append(text)
        number = self.schemas.index(text) + 1
        if number not in versions:
            versions.append(number)
        return 200, {"id": number}

    def _quarrels(self, versions: list[int], text: str) -> Iterator[str]:
        """What keeps a schema and each version from reading each other."""
        new = json.loads(text)
        for number in versions:
            old = json.loads(self.schemas[number - 1])
            yield from problems(reader=new, writer=old)
            yield from problems(reader=old, writer=new)

    def _found(self, subject: str, text: str) -> Answer:
        versions = self.subjects.get(subject, [])
        for version, number in enumerate(versions, start=1):
            if self.schemas[number - 1] == text:
                found = {"subject": subject, "id": number, "version": version, "schema": text}
                return 200, found
        return _wrong(404, 40403, "Schema not found")

    def _by_id(self, number: int) -> Answer:
        if 0 < number <= len(self.schemas):
            return 200, {"schema": self.schemas[number - 1]}
        return _wrong(404, 40403, "Schema not found")


def _wrong(status: int, code: int, text: str) -> Answer:
    return status, {"error_code": code, "message": text}


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    """A handler of requests to this registry."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            path = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
            status, answer = registry.answer(self.command, path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
