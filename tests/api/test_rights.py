"""Every route there is, asked by everybody there is: nothing of a team's own comes out or changes.

The routes are read from the application, so that a new one is asked as soon as it is there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gangline.api import tokens
from gangline.api.auth import Principal, Verb, may, principal_of
from gangline.api.tokens import Role
from gangline.events.log import Topic
from tests.api.fakes import World, make_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.dependencies.models import Dependant

SECRET: Final = "do-not-tell"
OPEN: Final = {"/", "/favicon.ico", "/healthz", "/readyz", "/metrics"}
SIGNING_IN: Final = {("POST", "/v1/session"), ("DELETE", "/v1/session")}
ENDLESS: Final = {"/v1/events"}
JOB: Final = {
    "job": "v-1", "team": "vision", "state": "running", "reason": "", "reason_text": "",
    "submission": "jobs-0-0",
}  # fmt: skip
BODIES: Final[dict[str, Any]] = {
    "/v1/jobs": {"team": "vision", "gpus": 1, "env": {"A": SECRET}},
    "/v1/jobs/batch": {"jobs": [{"id": "b-1", "spec": {"team": "vision", "gpus": 1}}]},
    "/v1/jobs/{job}/priority": {"priority": "high"},
    "/v1/nodes/{node}/maintenance": {"at": "1h", "lasts": "1h"},
    "/v1/nodes/{node}": {"levels": [], "path": [], "gpus": 8},
    "/v1/policy": {"values": {"retries": 1}},
    "/v1/session": {"token": "gl_nobody_x"},
}


def routes() -> list[tuple[str, str]]:
    """Method and path of every route."""
    return [(method, each.path) for each in _api_routes() for method in sorted(each.methods or ())]


def _api_routes() -> Iterator[APIRoute]:
    app: Any = make_world().client.app
    rooms = [route.original_router for route in app.routes if hasattr(route, "original_router")]
    yield from (route for room in rooms for route in room.routes if isinstance(route, APIRoute))


def _calls(dependant: Dependant) -> set[object]:
    """All functions that a route depends on."""
    return {dependant.call}.union(*(_calls(each) for each in dependant.dependencies))


class House:
    """An API with tokens of everybody, and a secret in the one job that it has."""

    def __init__(self, path: Any) -> None:
        self.world: World = make_world(tokens=path)
        self.tokens = {
            name: tokens.create(path, name, role=role, team=team)
            for name, role, team in (
                ("vision", Role.SUBMIT, "vision"),
                ("speech", Role.SUBMIT, "speech"),
                ("audit", Role.AUDIT, ""),
                ("ops", Role.OPERATE, ""),
            )
        }
        spec = {"team": "vision", "gpus": 8, "command": [SECRET], "env": {"KEY": SECRET}}
        self.ask("ops", "POST", "/v1/jobs", body=spec).raise_for_status()
        self.world.views.tables |= {"jobs": [dict(JOB)], "nodes": [{"node": "n0", "address": ""}]}

    def ask(self, who: str, method: str, path: str, *, body: Any = None) -> Any:
        """One request of somebody's; `nobody` has no token."""
        names = {"job": "v-1", "node": "n0", "team": "vision", "file": "rank-0.out"}
        filled = path.format(**names, position="control-0-0")
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who in self.tokens else {}
        return self.world.client.request(method, filled, json=body, headers=headers)

    def facts(self) -> int:
        """How many facts stand in the log."""
        return sum(len(self.world.facts(topic)) for topic in (Topic.JOBS, Topic.CONTROL))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    """One for all examples."""
    return House(tmp_path_factory.mktemp("house") / "tokens.json")


def test_every_route_asks_who_it_is() -> None:
    """All but health, the page's files and signing in depend on the one function that tells."""
    careless = [
        f"{route.methods} {route.path}"
        for route in _api_routes()
        if route.path not in OPEN
        and not any((method, route.path) in SIGNING_IN for method in route.methods or ())
        and principal_of not in _calls(route.dependant)
    ]

    assert careless == []
    assert {path for _, path in routes()} >= {*OPEN, *ENDLESS, *BODIES}


@pytest.mark.parametrize(
    ("method", "path"),
    [route for route in routes() if route[1] not in OPEN and route not in SIGNING_IN],
)
def test_nobody_gets_in_without_a_token(house: House, method: str, path: str) -> None:
    """401 before anything else is looked at."""
    assert house.ask("nobody", method, path, body=BODIES.get(path, {})).status_code == 401


@given(
    who=st.sampled_from(["speech", "audit", "vision", "ops"]),
    route=st.sampled_from([route for route in routes() if route[1] not in ENDLESS]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_a_teams_own_stays_its_own(house: House, who: str, route: tuple[str, str]) -> None:
    """Commands, environments and output are for the team and those who may see all of them.

    And a fact in the log is from somebody who may state it.
    """
    method, path = route
    before = house.facts()

    answer = house.ask(who, method, path, body=BODIES.get(path, {}))

    if SECRET in answer.text:
        assert who in ("vision", "audit", "ops")
        assert path.endswith("/spec")
    if house.facts() > before:
        assert who == "ops" or (who == "vision" and path.startswith("/v1/jobs"))
    if path.startswith("/v1/jobs/{job}/logs"):
        assert (answer.status_code == 403) is (who == "speech"), json.dumps(answer.json())


OPERATED: Final = [
    route
    for route in routes()
    if route[0] not in ("GET", "HEAD") and not route[1].startswith(("/v1/jobs", "/v1/session"))
]


@pytest.mark.parametrize("who", ["vision", "speech", "audit"])
@pytest.mark.parametrize("route", OPERATED, ids=" ".join)
@pytest.mark.parametrize("nonsense", [False, True], ids=["sense", "nonsense"])
def test_only_operators_state_what_operators_state(
    house: House, who: str, route: tuple[str, str], *, nonsense: bool
) -> None:
    """A team, a node or a policy is set by the role for it, whatever the request is worth.

    Nobody learns from the answer what would be a good request, and no fact is left.
    """
    method, path = route
    before = house.facts()
    body = {"nonsense": True} if nonsense else BODIES.get(path, {})

    answer = house.ask(who, method, path, body=body)

    assert (answer.status_code, answer.json()["type"]) == (403, "urn:gangline:problem:denied")
    assert house.facts() == before
    assert ("PUT", "/v1/teams/{team}") in OPERATED


@pytest.mark.parametrize(
    ("who", "route", "said"),
    [
        (
            "speech", ("GET", "/v1/jobs/{job}/spec"),
            (
                "speech has role submit in team speech, which may not read commands, environments "
                "and output of team vision"
            ),
        ),
        (
            "audit", ("POST", "/v1/jobs/{job}/cancel"),
            "audit has role audit, which may not change jobs of team vision",
        ),
        (
            "vision", ("POST", "/v1/nodes/{node}/cordon"),
            "vision has role submit in team vision, which may not change nodes, teams and policy",
        ),
    ],
)  # fmt: skip
def test_a_refusal_says_who_may_not_do_what(
    house: House, who: str, route: tuple[str, str], said: str
) -> None:
    """In words of those who asked."""
    assert house.ask(who, *route, body={}).json()["detail"].endswith(said)


def test_a_stream_says_nothing_of_a_teams_own(house: House) -> None:
    """Decisions hold the public part of a spec only: there is no field for more."""
    queued = {"kind": "JobQueued", "job": "v-1", "detail": {"spec": {"gpus": 8}}}
    house.world.views.made = [queued]

    rows = house.ask("speech", "GET", "/v1/decisions").json()["items"]

    assert [row["detail"] for row in rows] == [queued["detail"]]


ROLES = st.builds(
    Principal,
    name=st.just("x"),
    role=st.sampled_from(Role),
    team=st.sampled_from(["", "vision", "speech"]),
)


@given(principal=ROLES, verb=st.sampled_from(Verb), team=st.sampled_from(["", "vision", "speech"]))
def test_the_one_function_that_decides(principal: Principal, verb: Verb, team: str) -> None:
    """Everybody reads usage; operators do all; auditors change nothing; a team has its own."""
    allowed = may(principal, verb, team)

    if verb is Verb.READ or principal.role is Role.OPERATE:
        assert allowed
    elif principal.role is Role.AUDIT:
        assert allowed is (verb is Verb.READ_PRIVATE)
    else:
        own = principal.team != "" and principal.team == team
        assert allowed is (own and verb is not Verb.OPERATE)
