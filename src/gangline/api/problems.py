"""What goes wrong for a client, as RFC 9457 problems: one clear answer, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MEDIA_TYPE: Final = "application/problem+json"

_TITLES: Final[Mapping[str, tuple[int, str]]] = {
    "bad-request": (400, "The request cannot be read"),
    "not-authenticated": (401, "A token is needed"),
    "denied": (403, "This is not yours to see or change"),
    "wrong-origin": (403, "The request comes from another site"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "This cannot be done here"),
    "not-yet": (503, "The view has not reached the position"),
    "conflict": (409, "Another request has this key"),
    "exists": (409, "It is there already, and is another one"),
    "too-large": (413, "The request is too large"),
    "wrong-host": (421, "This server has another name"),
    "invalid": (422, "The request is not valid"),
    "too-many": (429, "Too many requests"),
    "internal": (500, "Something broke in here"),
    "log-unreachable": (503, "The log is not reachable"),
    "views-unreachable": (503, "The views are not reachable"),
    "unavailable": (503, "This cannot be answered now"),
    "agent-unreachable": (502, "The node's agent does not answer"),
}


class ProblemError(Exception):
    """A request cannot be answered as asked; `detail` is one line for the person who asked."""

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        errors: Iterable[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail
        self.errors = list(errors)
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        """The problem on the wire."""
        status, title = _TITLES[self.slug]
        body: dict[str, Any] = {
            "type": f"urn:gangline:problem:{self.slug}",
            "title": title,
            "status": status,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = self.errors
        return JSONResponse(body, status, headers=self.headers, media_type=MEDIA_TYPE)


def slug_of_status(status: int) -> str:
    """The problem that stands for a bare status of the framework's own."""
    fitting = {404: "not-found", 405: "method-not-allowed", 422: "invalid"}
    return fitting.get(status, "bad-request" if status < 500 else "internal")
