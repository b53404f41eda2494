"""What goes wrong between a client and the API, and what an answer of it stands for."""

from __future__ import annotations

from typing import Final

import httpx2

UNSENDABLE: Final = (
    ValueError,
    httpx2.InvalidURL,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)
"""What the HTTP library raises for what it cannot even send; UnicodeEncodeError is a ValueError."""


class GanglineError(Exception):
    """The API did not do what was asked; the message is one line.

    status: of HTTP, 0 where there was no answer. problem: its short name, like `not-found`.
    """

    def __init__(self, message: str, *, status: int = 0, problem: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem


class InvalidError(GanglineError):
    """The request is wrong; the message says what would be right."""


class DeniedError(GanglineError):
    """The token is missing, unknown, or not enough."""


class NotFoundError(GanglineError):
    """There is no such job, node or team."""


class ConflictError(GanglineError):
    """The idempotency key belongs to another job."""


class NotYetError(GanglineError):
    """The answer is not there yet."""


class UnreachableError(GanglineError):
    """The API cannot be reached, or what it needs cannot."""


def asks_for_patience(response: httpx2.Response) -> bool:
    """Whether the server itself has waited already (`min_position`), and would in vain again."""
    return response.status_code == 503 and "problem:not-yet" in response.text


def error_of(response: httpx2.Response) -> GanglineError:
    """The error that a problem stands for."""
    try:
        problem = response.json()
        slug = str(problem["type"]).rpartition(":")[2]
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        slug, detail = "", f"HTTP status {response.status_code}, and no problem in its body"
    kind = {
        400: InvalidError,
        401: DeniedError,
        403: DeniedError,
        404: NotFoundError,
        409: ConflictError,
        413: InvalidError,
        422: InvalidError,
        502: UnreachableError,
        503: NotYetError if slug == "not-yet" else UnreachableError,
    }.get(response.status_code, GanglineError)
    return kind(detail, status=response.status_code, problem=slug)
