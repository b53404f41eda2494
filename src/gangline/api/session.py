"""Signing in from the page: a browser keeps the token in a cookie that no script can read.

The cookie is sent with requests of our own page only (SameSite, and the door looks at Origin).
"""

import re
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gangline.api.auth import COOKIE, Principal, principal_of_token
from gangline.api.jobs import Caller
from gangline.api.query import only_known
from gangline.api.spec_json import checked, parse_body

router = APIRouter(prefix="/v1", tags=["session"])

_A_DAY_S: Final = 24 * 3_600


def _for_a_cookie(token: str) -> str:
    """A token that a header can carry; none of ours has other characters."""
    if not re.fullmatch(r"[!-~]+", token):
        raise ValueError("a token has no blanks, and printing characters of ASCII only")
    return token


class SessionRequest(BaseModel):
    """Who signs in."""

    model_config = ConfigDict(extra="forbid", strict=True)

    token: Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_for_a_cookie)]


@router.post("/session")
async def sign_in(request: Request, response: Response) -> dict[str, str]:
    """Keep a token in this browser for a day."""
    body = checked(SessionRequest, parse_body(await request.body()))
    caller = principal_of_token(request, body.token)
    response.set_cookie(
        COOKIE,
        body.token,
        max_age=_A_DAY_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return _shown(caller)


@router.delete("/session", status_code=204)
def sign_out(response: Response) -> None:
    """Forget it."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


@router.get("/session", dependencies=[Depends(only_known)])
def who(caller: Caller) -> dict[str, str]:
    """Who asks, and what they may do."""
    return _shown(caller)


def _shown(caller: Principal) -> dict[str, str]:
    return {"name": caller.name, "role": str(caller.role), "team": caller.team}
