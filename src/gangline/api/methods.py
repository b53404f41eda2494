"""What HTTP promises of methods whatever the route: HEAD where there is GET, and a true `Allow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Match

from gangline.api.problems import ProblemError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ASKED: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Heads:
    """Middleware: HEAD is answered as GET is, without its body. Whoever watches us asks so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let all else through as it is."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        begun = False

        async def headed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                scope["method"] = "HEAD"  # for whoever counts
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                begun = True

        async def heard() -> Message:
            # A stream would go on for ever; nobody hears it.
            return {"type": "http.disconnect"} if begun else await receive()

        scope["method"] = "GET"
        await self._app(scope, heard, headed)


def not_here(request: Request, detail: str) -> Response:
    """The answer to a method that a route does not have: which it has, and for OPTIONS no more."""
    allow = {"Allow": ", ".join(_allowed(request))}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=allow)
    return ProblemError("method-not-allowed", detail, headers=allow).response()


def _allowed(request: Request) -> list[str]:
    """Every method that some route of this address has."""
    found = [
        method
        for method in _ASKED
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]
    found = found or ["GET"]  # a file: it is looked for by whoever serves them
    return [*found, *(["HEAD"] if "GET" in found else []), "OPTIONS"]
