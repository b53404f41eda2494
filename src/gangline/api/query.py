"""Nothing is guessed about what stands behind the `?` of a request."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant

from gangline.api.jobs import Caller
from gangline.api.mistakes import printable
from gangline.api.nearest import nearest
from gangline.api.problems import ProblemError


async def only_known(request: Request, _: Caller) -> None:
    """An `invalid` problem for a parameter that the route does not have, or that comes twice.

    A `dry_run` that is mistyped, or that only another version knows, must not submit; a filter that
    is mistyped must not show what it was to leave out.
    """
    known = list(_names(request.scope["route"].dependant))
    for name in request.query_params:
        shown = printable(name, most=60) or "an empty name"
        if name not in known:
            raise ProblemError(
                "invalid", f"{shown}: there is no such parameter{nearest(name, known)}"
            )
        if len(request.query_params.getlist(name)) > 1:
            raise ProblemError("invalid", f"{shown}: it is given twice")


def _names(dependant: Dependant) -> Iterator[str]:
    """The query parameters of a route, and of all that it depends on."""
    for field in dependant.query_params:
        yield field.alias
    for below in dependant.dependencies:
        yield from _names(below)
