"""Who asks, and whether they may: one function answers it for every route."""

import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starlette.requests import Request

from gangline.api.problems import ProblemError
from gangline.api.tokens import Role, TokenFile, TokensError

_log: Final = logging.getLogger("gangline.api")


class Verb(StrEnum):
    """What somebody wants to do.

    READ: what everybody may know (usage, queue, nodes). READ_PRIVATE: commands, environments and
    output of a team's jobs. CHANGE_JOBS: submit, cancel, hold a team's jobs. OPERATE: nodes, teams
    and policy.
    """

    READ = "read"
    READ_PRIVATE = "read_private"
    CHANGE_JOBS = "change_jobs"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. team: empty for roles that are not a team's."""

    name: str
    role: Role
    team: str = ""

    @property
    def actor(self) -> str:
        """Who it is, as facts name them."""
        return f"{'operator' if self.role is Role.OPERATE else 'user'}:{self.name}"


COOKIE: Final = "gangline"
"""Where the page keeps its token."""

LOCAL = Principal(name="local", role=Role.OPERATE)
"""Everybody of this machine, where no tokens are used."""


def may(principal: Principal, verb: Verb, team: str) -> bool:
    """Whether the principal may do this to things of the team (empty: of the cell)."""
    if verb is Verb.READ or principal.role is Role.OPERATE:
        return True
    if principal.role is Role.AUDIT:
        return verb is Verb.READ_PRIVATE
    return verb in (Verb.READ_PRIVATE, Verb.CHANGE_JOBS) and team == principal.team != ""


def authorise(principal: Principal, verb: Verb, team: str = "") -> None:
    """Nothing where they may, else a `denied` problem."""
    if may(principal, verb, team):
        return
    whose = f" of team {team}" if team else ""
    raise ProblemError(
        "denied",
        f"{principal.name} has role {principal.role}"
        + (f" in team {principal.team}" if principal.team else "")
        + f", which may not {_WORDS[verb]}{whose}",
    )


_WORDS: Final = {
    Verb.READ: "read",
    Verb.READ_PRIVATE: "read commands, environments and output",
    Verb.CHANGE_JOBS: "change jobs",
    Verb.OPERATE: "change nodes, teams and policy",
}


def principal_of(request: Request) -> Principal:
    """Who sends the request; a `not-authenticated` problem where tokens are used and none fits."""
    return principal_of_token(request, token_text(request))


def token_text(request: Request) -> str:
    """The token that a request carries; empty for none."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")


def principal_of_token(request: Request, text: str) -> Principal:
    """Whose token it is; everybody is the operator where no tokens are used."""
    tokens: TokenFile | None = request.app.state.tokens
    if tokens is None:
        return LOCAL
    try:
        token = tokens.find(text)
    except TokensError as error:
        _log.error("the file of tokens cannot be used", exc_info=error)
        message = "the file of tokens cannot be read; the API's log says why"
        raise ProblemError("unavailable", message, headers={"Retry-After": "5"}) from error
    if token is None:
        raise ProblemError(
            "not-authenticated",
            "send `Authorization: Bearer TOKEN`; `gangline token create` makes one",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return Principal(name=token.name, role=token.role, team=token.team)
