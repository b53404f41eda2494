"""What is said of wrong parameters and bodies: plain words, by the name that was written."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from gangline.events.log import Topic
from tests.api.fakes import World, make_world

if TYPE_CHECKING:
    from collections.abc import Iterator

MACHINE_TALK = re.compile(
    r"Input|String should|valid (integer|number|boolean)|\b(query|path|header|body)\.|\[|pydantic"
)
HOSTILE = ("%25", "x", "-1", "1e999", "nan", "9" * 200, "%00", "%E2%80%AE", "", "seq:x", "a" * 400)
PLACES = {"job": "a", "node": "n0", "team": "t", "file": "rank-0.out", "position": "jobs-0-0"}


def parameters() -> Iterator[tuple[str, str, str, str]]:
    """Method, path, place and name of every parameter of the API's own description."""
    paths = make_world().client.get("/openapi.json").json()["paths"]
    for path, verbs in paths.items():
        for method, operation in verbs.items():
            for each in operation.get("parameters", ()):
                if each["in"] != "cookie" and path != "/v1/events":
                    yield method, path, each["in"], each["name"]


@pytest.mark.parametrize(("method", "path", "place", "name"), list(parameters()))
def test_a_wrong_parameter_is_named_as_it_was_written(
    method: str, path: str, place: str, name: str
) -> None:
    """Whatever is wrong with it, in every route."""
    client = make_world().client
    for value in HOSTILE:
        here = PLACES | ({name: value} if place == "path" else {})
        url = path.format(**here) + (f"?{name}={value}" if place == "query" else "")
        sent = {name: value} if place == "header" else {}
        answer = client.request(method, url, headers=sent, content=b"{}")
        if answer.status_code == 422 and not answer.json()["detail"].startswith("team:"):
            detail = answer.json()["detail"]
            assert not MACHINE_TALK.search(detail), (url, detail)
            assert method != "get" or detail.startswith(f"{name}: "), (url, detail)
        assert answer.status_code != 500, (url, answer.text)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/jobs/%25", "job: a name has no %"),
        ("/page/jobs/%25", "job: a name has no %"),
        ("/page/nodes/-x", "node: a name has no - at its start"),
        ("/v1/jobs?limit=0", "limit: this is at least 1, not '0'"),
        ("/v1/jobs?limit=20000", "limit: this is at most 10,000, not '20000'"),
        ("/v1/jobs?limit=x", "limit: this is a whole number, not 'x'"),
        ("/page/usage?hours=nan", "hours: this is at most 9,600, not 'nan'"),
        ("/page/usage?hours=x", "hours: this is a number, not 'x'"),
        ("/v1/jobs?priority=top", "priority: this is low, normal, high or urgent, not 'top'"),
        (f"/v1/jobs?after={'a' * 301}", "after: this has at most 300 characters, not 301"),
        ("/v1/queue?min_position=x", "min_position: a position is topic-partition-offset"),
        ("/v1/ledger?since=x", "since: a time is like"),
        (f"/v1/state?at={'9' * 20}", "at: a moment is 2026-"),
        (f"/v1/state?at=seq:{'9' * 20}", "at: a moment is 2026-"),
        ("/v1/state?at=%D9%A3", "at: a moment is 2026-"),
        (f"/page/step?at={'9' * 20}", "at: milliseconds since the epoch"),
        ("/v1/ledger?until=x", "until: a time is like"),
        ("/v1/ledger?since=1h&until=2h", "since: it has to be before until"),
        ("/v1/queue?reason=capcity", "reason: this is dependency, hold, borrow_limit, starting,"),
        ("/v1/nodes?health=ill", "health: this is well, suspected, lost or quarantined, not 'ill'"),
        ("/v1/nodes?service=off", "service: this is open, cordoned, draining or maintenance, not"),
        ("/v1/queue?min_position=assignments-0-1", "min_position: views follow jobs, "),
    ],
)
def test_what_would_be_right_is_said_in_plain_words(world: World, path: str, said: str) -> None:
    """One line for whoever asked."""
    answer = world.client.get(path)

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(said)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"command": []}, "command: this has at least 1 entry, not 0"),
        ({"env": {"A": 1}}, "env.A: this is a text, not 1"),
        ({"env": []}, "env: this is an object, not []"),
        ({"labels": {"a\n": "b"}}, "'labels.a\\n': a name has printing characters only"),
        ({"after": ["a", "b c"]}, "after.1: a name has no space"),
        ({"env_compat": ["tensorflow"]}, "env_compat.0: this is torch, slurm or jax"),
        ({"workdir": 7}, "workdir: this is a text, not 7"),
        ({"launcher": "\ud800"}, "launcher: this is a text of whole characters"),
        ({"gpu": 1}, "gpu: there is no such field; did you mean gpus?"),
    ],
)
def test_a_field_of_a_body_is_named_by_the_way_to_it(
    world: World, body: dict[str, Any], said: str
) -> None:
    """Without the marks of whoever checks it."""
    answer = world.client.post("/v1/jobs", content=json.dumps({"team": "a", "gpus": 1} | body))

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(said)
    assert not any("[" in each["field"] for each in answer.json()["errors"])


@pytest.mark.parametrize("body", ["[]", "7", "true", "null"])
def test_a_body_that_is_no_object_is_said_to_be_none(world: World, body: str) -> None:
    """It has no field that could be named; it is quoted in the words of JSON."""
    answer = world.client.post("/v1/jobs", content=body)

    assert answer.json()["detail"] == f"body: this is an object, not {body}"


def test_one_key_too_many_submits_nothing(world: World) -> None:
    """Nobody guesses which of the two was meant."""
    keys = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]

    answer = world.client.post("/v1/jobs", content='{"team": "a", "gpus": 1}', headers=keys)

    assert answer.status_code == 422
    assert answer.json()["detail"] == "Idempotency-Key: it is given twice"
    assert world.facts(Topic.JOBS) == []


@pytest.mark.parametrize("token", ["\u202e", "a\0b", "a b", "ä", "a\r\nset-cookie: x"])
def test_a_token_that_no_header_can_carry_is_refused(world: World, token: str) -> None:
    """It would break the answer that keeps it."""
    answer = world.client.post("/v1/session", content=json.dumps({"token": token}))

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("token: a token has no blanks")
    assert not answer.cookies


def test_the_output_on_a_node_that_is_none_is_not_found(world: World) -> None:
    """It is no trouble of an agent's."""
    job = {"job": "a", "team": "t", "submission": "jobs-0-0"}
    world.views.tables["jobs"] = [job]
    world.views.tables["attempts"] = [{"job": "a", "attempt": 1, "seats": [], "state": "running"}]

    answer = world.client.get("/v1/jobs/a/logs/no-such-node/rank-0.out")

    assert (answer.status_code, answer.json()["detail"]) == (404, "there is no node no-such-node")
