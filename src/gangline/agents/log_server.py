"""The logs of a node's jobs over HTTP, for whoever has the token.

`GET /logs/JOB/ATTEMPT` lists the files; `GET /logs/JOB/ATTEMPT/FILE?offset=N&limit=N` gives a
part of one, with `X-Next-Offset` to go on from and `X-Size`. Both count from the first byte ever
written, however often the file was rotated since (rotation.py); what is not kept any more is passed
over. `GET /ranks/JOB/ATTEMPT` says how each rank gets on (pace.py). Reading is all that can be done
here.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from gangline.agents import procfs
from gangline.agents.attempts import folder_name
from gangline.agents.core import Key
from gangline.agents.pace import paces
from gangline.agents.plan import load_result
from gangline.agents.rotation import cut_bytes, kept
from gangline.telemetry import named_address

if TYPE_CHECKING:
    from pathlib import Path

_FILE: Final = re.compile(r"rank-\d+\.(out|err)(\.\d+)?")
_ATTEMPT: Final = re.compile(r"[0-9]{1,9}")
_MAX_BYTES: Final = 1024 * 1024


class LogServer:
    """Serves the files under `attempts` until closed."""

    def __init__(self, attempts: Path, *, address: str, port: int, token: str) -> None:
        with named_address(address, port):
            self._server = ThreadingHTTPServer((address, port), _Handler)
        self._server.daemon_threads = True
        self._server.attempts = attempts  # type: ignore[attr-defined]
        self._server.token = token  # type: ignore[attr-defined]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="log-server", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def kept_token(path: Path) -> str:
    """The token in a file, made once."""
    if not path.exists():
        procfs.write_whole(path, secrets.token_urlsafe(24).encode())
    return path.read_text().strip()


class _Handler(BaseHTTPRequestHandler):
    server_version = "gangline-agent"
    timeout = 30

    def do_GET(self) -> None:
        """Answer one request."""
        if not self._may():
            self._say(HTTPStatus.UNAUTHORIZED, {"title": "a bearer token is needed"})
            return
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.split("/")[1:]]
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        match parts:
            case [what, job, attempt, *file] if _ATTEMPT.fullmatch(attempt):
                folder = self._root() / folder_name(Key(job, int(attempt)))
                self._answer(what, folder, file, query)
            case _:
                self._nothing()

    def _answer(self, what: str, folder: Path, file: list[str], query: dict[str, str]) -> None:
        """About one attempt."""
        match what, file:
            case "logs", [] if folder.is_dir():
                self._list(folder)
            case "ranks", [] if folder.is_dir():
                found = {"ranks": [pace.plain() for pace in paces(folder)], "ends": _ends(folder)}
                self._say(HTTPStatus.OK, found)
            case "logs", [name] if _FILE.fullmatch(name) and (folder / name).is_file():
                self._part(folder / name, query)
            case _:
                self._nothing()

    def _nothing(self) -> None:
        self._say(HTTPStatus.NOT_FOUND, {"title": "no such log on this node"})

    def _root(self) -> Path:
        root: Path = self.server.attempts  # type: ignore[attr-defined]
        return root

    def _may(self) -> bool:
        expected = f"Bearer {self.server.token}".encode()  # type: ignore[attr-defined]
        given = self.headers.get("Authorization", "").encode()
        return hmac.compare_digest(given, expected)

    def _list(self, folder: Path) -> None:
        files = sorted(path for path in folder.iterdir() if _FILE.fullmatch(path.name))
        found = [{"file": path.name, "size": _written(path)} for path in files]
        self._say(HTTPStatus.OK, {"files": found})

    def _part(self, path: Path, query: dict[str, str]) -> None:
        offset, limit = query.get("offset", "0"), query.get("limit", str(_MAX_BYTES))
        if not (offset.isdecimal() and limit.isdecimal()):
            self._say(HTTPStatus.BAD_REQUEST, {"title": "offset and limit are numbers of bytes"})
            return
        data, end = _read(path, int(offset), min(int(limit), _MAX_BYTES))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Next-Offset", str(end))
        self.send_header("X-Size", str(_written(path)))
        self.end_headers()
        self.wfile.write(data)

    def _say(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - its own
        """Requests are not logged."""


def _ends(folder: Path) -> list[dict[str, Any]]:
    """How each rank ended once all have, and which one failed first; empty before."""
    result = load_result(folder)
    if result is None:
        return []
    codes = {int(rank): code for rank, code in result.ranks.items()}
    return [
        {"rank": rank, "code": code, "first": rank == result.first_rank}
        for rank, code in sorted(codes.items())
    ]


def _written(path: Path) -> int:
    """How many bytes were ever written to an output."""
    return (cut_bytes(path) or 0) + path.stat().st_size


def _read(path: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """Bytes from an offset on, or from the first one that is kept; and where they end."""
    parts = list(kept(path))
    part = next((part for part in parts if part.begins <= offset), parts[-1])
    begin = max(offset - part.begins, 0)
    if begin > part.size and cut_bytes(path) is not None:
        return b"", offset  # it was cut just now, and that is about to be noted
    with part.path.open("rb") as file:
        file.seek(min(begin, part.size))
        data = file.read(limit)
        return data, part.begins + file.tell()
