"""Nothing is guessed about what stands behind the `?` of a request that changes something."""

from fastapi import Request

from gangline.api.jobs import Caller
from gangline.api.nearest import nearest
from gangline.api.problems import ProblemError


def only_known(request: Request, _: Caller) -> None:
    """An `invalid` problem for a parameter that the route does not have.

    A `dry_run` that is mistyped, or that only another version knows, must not submit.
    """
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise ProblemError(
                "invalid", f"query.{name[:60]!a}: there is no such parameter{nearest(name, known)}"
            )
