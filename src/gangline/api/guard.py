"""The door: what is turned away before any route sees it. Pure ASGI, so that streams stay so.

- Host must be one of ours, else a page of another name could read us through the victim's browser.
- Origin, where a browser sends one, must be ours: the user's rights come with each request.
- Bodies end at a size, whatever Content-Length says.
- Clients ask at most so often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

from gangline.api.auth import LOCAL, principal_of
from gangline.api.limits import RateLimiter
from gangline.api.problems import ProblemError
from gangline.api.settings import Settings, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_FREE: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_MOST_DIGITS: Final = 18
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})

PAGE_HEADERS: Final = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            b"connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
            b"frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Middleware around the whole application."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = {h.lower() for h in (*settings.hosts, settings.host)} | _LOOPBACK
        self._any_host = not is_loopback(settings.host) and not settings.hosts
        self._reads = RateLimiter(settings.reads)
        self._writes = RateLimiter(settings.writes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._admit(scope)
            await self._app(scope, self._limited(scope, receive), _with_headers(send))
        except ProblemError as problem:
            await problem.response()(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self._check_host(headers.get("host", ""))
        if scope["method"] not in _SAFE:
            self._check_origin(headers)
        self._check_size(scope, headers)
        if scope["path"] not in _FREE:
            self._check_rate(scope)

    def _check_host(self, host: str) -> None:
        name = _name_of(f"//{host}")
        if not self._any_host and name not in self._hosts:
            raise ProblemError("wrong-host", f"nobody of the name {name[:100]!r} serves here")

    def _check_origin(self, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is not None and _place_of(origin) != headers.get("host", "").lower():
            raise ProblemError(
                "wrong-origin", f"no page of {origin[:100]!r} may change things here"
            )
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise ProblemError("wrong-origin", "no page of another site may change things here")

    def _limit_of(self, scope: Scope) -> int:
        batch = scope["path"] == "/v1/jobs/batch"
        return self._settings.max_batch_bytes if batch else self._settings.max_body_bytes

    def _check_size(self, scope: Scope, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise ProblemError("bad-request", "Content-Length is a number of bytes")
        if len(length) > _MOST_DIGITS or int(length) > self._limit_of(scope):
            raise _too_large(self._limit_of(scope))

    def _check_rate(self, scope: Scope) -> None:
        limiter = self._reads if scope["method"] in _SAFE else self._writes
        wait_s = limiter.wait_s(_client_of(scope))
        if wait_s:
            raise ProblemError(
                "too-many", f"try again in {wait_s} s", headers={"Retry-After": str(wait_s)}
            )

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """The same body, or a problem as soon as it is longer than it may be."""
        limit, seen = self._limit_of(scope), 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _too_large(limit)
            return message

        return counted


def _too_large(limit: int) -> ProblemError:
    return ProblemError("too-large", f"a body has at most {limit:,} bytes here")


def _client_of(scope: Scope) -> str:
    """Who asks, for counting: whose token it is, else where it comes from.

    A token that is none of ours is nobody's: who made up a new one for each request would be
    counted each time anew.
    """
    try:
        caller = principal_of(Request(scope))
    except ProblemError:
        caller = LOCAL
    address = scope["client"][0] if scope.get("client") else ""
    return address if caller == LOCAL else f"token {caller.name}"


def _place_of(origin: str) -> str:
    """Host and port of an origin; empty for what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name_of(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""


def _with_headers(send: Send) -> Send:
    """The same answers, with the headers that keep a browser from harm."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *PAGE_HEADERS]
        await send(message)

    return sent
