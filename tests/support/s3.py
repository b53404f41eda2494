"""A stand-in for an S3-compatible store: one bucket in memory, behind the three requests we make.

Tests run against a real store instead where GANGLINE_TEST_S3 names a bucket (`s3://bucket`) and the
environment says how to reach it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "cold"
_LISTED = (
    "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;{tag}&quot;</ETag>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
)


class _Handler(BaseHTTPRequestHandler):
    """Put an object that is not there yet, get one, list those of a prefix."""

    objects: dict[str, bytes]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """`If-None-Match: *` is how one asks not to overwrite."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["If-None-Match"] == "*" and self._key() in self.objects:
            self._answer(412, b"")
            return
        self.objects[self._key()] = body
        self._answer(200, b"", tag=_tag(body))

    def do_GET(self) -> None:
        """One object, or the names of many."""
        if not self.headers["Authorization"].startswith("AWS4-HMAC-SHA256"):
            self._answer(403, b"")
        elif self._key():
            body = self.objects.get(self._key())
            self._answer(404 if body is None else 200, body or b"", tag=_tag(body or b""))
        else:
            self._answer(200, self._list().encode())

    def _key(self) -> str:
        path = unquote(urlsplit(self.path).path)
        return path.removeprefix(f"/{BUCKET}").removeprefix("/")

    def _list(self) -> str:
        (prefix,) = parse_qs(urlsplit(self.path).query).get("prefix", [""])
        listed = "".join(
            _LISTED.format(key=escape(key), size=len(body), tag=_tag(body))
            for key, body in sorted(self.objects.items())
            if key.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{listed}</ListBucketResult>"

    def _answer(self, code: int, body: bytes, *, tag: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{tag}"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        """Tests are quiet."""


def _tag(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()


@contextmanager
def store() -> Iterator[tuple[str, dict[str, str], dict[str, bytes]]]:
    """A running store: a bucket's URL, the environment to reach it, and what lies in it."""
    objects: dict[str, bytes] = {}
    handler = type("Handler", (_Handler,), {"objects": objects})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_REGION": "us-east-1",
    }
    try:
        yield f"s3://{BUCKET}", environ, objects
    finally:
        server.shutdown()
        server.server_close()
