"""The door: who may come in, from where, how much and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from gangline.api import tokens
from gangline.api.app import create_app
from gangline.api.limits import RateLimiter
from gangline.api.settings import RateLimit, Settings, SettingsError
from gangline.api.tokens import Role, TokensError
from gangline.events.log import Topic
from gangline.events.memory import MemoryLog
from tests.api.fakes import FakeViews, World, make_world
from tests.support.api import listening_api

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {"team": "vision", "gpus": 8, "command": ["true"]}
JOB: dict[str, Any] = {
    "job": "v-1", "team": "vision", "state": "queued", "reason": "", "reason_text": "",
    "submission": "jobs-0-0",
}  # fmt: skip


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "gangline.example"])
def test_another_address_than_loopback_needs_tokens(host: str) -> None:
    """Without tokens everybody may do everything, so only this machine is let in."""
    with pytest.raises(SettingsError, match="without tokens"):
        create_app(Settings(host=host), log=MemoryLog("test"), views=FakeViews())


def test_with_tokens_any_address_will_do(tmp_path: Path) -> None:
    """Tokens tell people apart."""
    world = make_world(tokens=tmp_path / "tokens.json", host="0.0.0.0")

    assert world.client.get("/healthz", headers={"Host": "gpu.example"}).status_code == 200


def test_a_page_of_another_name_cannot_read_us(world: World) -> None:
    """A name that an attacker points at 127.0.0.1 is not ours (DNS rebinding)."""
    answer = world.client.get("/v1/queue", headers={"Host": "evil.example:8642"})

    assert answer.status_code == 421
    assert answer.json()["type"] == "urn:gangline:problem:wrong-host"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "http://[::1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_page_of_another_site_cannot_change_anything(
    world: World, headers: dict[str, str]
) -> None:
    """A browser says where a request comes from; nothing reaches the log."""
    answer = world.client.post("/v1/jobs", json=GOOD, headers=headers)

    assert answer.status_code == 403
    assert world.facts(Topic.JOBS) == []


def test_our_own_page_may_change_things(world: World) -> None:
    """Its origin is ours."""
    headers = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}

    assert world.client.post("/v1/jobs", json=GOOD, headers=headers).status_code == 202


def test_the_page_allows_no_strangers(world: World) -> None:
    """No inline script, no other site, no frame around it."""
    answer = world.client.get("/")

    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "<script>" not in answer.text
    assert "http://" not in answer.text.replace("http://www.w3.org", "")


def test_a_body_ends_at_its_limit_whatever_is_said_of_its_length(world: World) -> None:
    """Declared or not, more than a megabyte is turned away."""
    big = b"x" * (1024 * 1024 + 1)

    declared = world.client.post("/v1/jobs", content=big)
    streamed = world.client.post("/v1/jobs", content=(big[i : i + 65_536] for i in (0,) * 20))

    assert (declared.status_code, streamed.status_code) == (413, 413)


def test_a_client_that_asks_too_often_is_told_when_to_come_back() -> None:
    """429 with Retry-After; health stays open to those who look after us."""
    world = make_world(writes=RateLimit(per_second=0.5, burst=2))

    codes = [world.client.post("/v1/jobs", json=GOOD).status_code for _ in range(3)]
    refused = world.client.post("/v1/jobs", json=GOOD)

    assert codes == [202, 202, 429]
    assert refused.headers["retry-after"] == "2"
    assert world.client.get("/healthz").status_code == 200


def test_a_made_up_token_is_not_another_client(tmp_path: Path) -> None:
    """Who comes with a new one each time is counted by where it comes from."""
    path = tmp_path / "tokens.json"
    ours = tokens.create(path, "ops", role=Role.OPERATE)
    world = make_world(tokens=path, reads=RateLimit(per_second=0.01, burst=2))

    made_up = [
        world.client.get("/v1/queue", headers={"Authorization": f"Bearer gl_x_{number}"})
        for number in range(3)
    ]
    real = world.client.get("/v1/queue", headers={"Authorization": f"Bearer {ours}"})

    assert [answer.status_code for answer in made_up] == [401, 401, 429]
    assert real.status_code == 200


def test_a_length_that_no_body_has_is_too_large(world: World) -> None:
    """However many digits it has."""
    answer = world.client.post("/v1/jobs", content=b"", headers={"Content-Length": "9" * 5_000})

    assert answer.status_code == 413


def test_made_up_methods_make_no_series(world: World) -> None:
    """Else anybody could fill the memory of whoever keeps the metrics."""
    for number in range(3):
        assert world.client.request(f"BREW{number}", "/v1/jobs").status_code == 405

    assert "BREW" not in world.client.get("/metrics").text


def test_a_file_of_tokens_that_is_broken_lets_nobody_in_until_it_is_mended(tmp_path: Path) -> None:
    """It is no mistake of the API's, and no word of the file is told."""
    path = tmp_path / "tokens.json"
    text = tokens.create(path, "ops", role=Role.OPERATE)
    world = make_world(tokens=path)
    headers = {"Authorization": f"Bearer {text}"}
    whole = path.read_text()

    path.write_text("{ gl_secret")
    broken = world.client.get("/v1/queue", headers=headers)
    path.write_text(whole)

    assert (broken.status_code, broken.json()["type"]) == (503, "urn:gangline:problem:unavailable")
    assert "secret" not in broken.text
    assert str(path) not in broken.text
    assert world.client.get("/v1/queue", headers=headers).status_code == 200


def test_a_bucket_fills_again() -> None:
    """So many at once, then so many a second, and each client for itself."""
    now = [0.0]
    limiter = RateLimiter(RateLimit(per_second=10, burst=2), clock=lambda: now[0])

    assert [limiter.wait_s("a") for _ in range(3)] == [0, 0, 1]
    assert limiter.wait_s("b") == 0
    now[0] = 0.1
    assert [limiter.wait_s("a") for _ in range(2)] == [0, 1]


@pytest.fixture
def guarded(tmp_path: Path) -> tuple[World, dict[str, dict[str, str]]]:
    """An API with tokens, and the headers of each role."""
    path = tmp_path / "tokens.json"
    made = {
        "vision": tokens.create(path, "vision", role=Role.SUBMIT, team="vision"),
        "speech": tokens.create(path, "speech", role=Role.SUBMIT, team="speech"),
        "ops": tokens.create(path, "ops", role=Role.OPERATE),
        "audit": tokens.create(path, "audit", role=Role.AUDIT),
        "nobody": "gl_vision_wrong",
    }
    world = make_world(tokens=path)
    headers = {who: {"Authorization": f"Bearer {text}"} for who, text in made.items()}
    headers["ops"]["Idempotency-Key"] = "v-1"
    answer = world.client.post("/v1/jobs", json=GOOD | {"env": {"SECRET": "1"}},
                               headers=headers["ops"])  # fmt: skip
    answer.raise_for_status()
    node = {"node": "n0", "levels": ["spine"], "path": ["s0"], "gpus": 8, "labels": {}}
    world.views.tables |= {"jobs": [JOB], "nodes": [node]}
    return world, headers


ROUTES = [
    ("POST", "/v1/jobs", GOOD),
    ("POST", "/v1/jobs/v-1/cancel", {}),
    ("POST", "/v1/jobs/v-1/hold", {}),
    ("POST", "/v1/jobs/v-1/release", {}),
    ("POST", "/v1/jobs/v-1/priority", {"priority": "high"}),
    ("GET", "/v1/jobs/v-1/spec", None),
    ("POST", "/v1/nodes/n0/cordon", {}),
    ("POST", "/v1/nodes/n0/uncordon", {}),
    ("POST", "/v1/nodes/n0/drain", {"deadline": "1h"}),
    ("POST", "/v1/nodes/n0/maintenance", {"at": "1h", "lasts": "2h"}),
    ("PUT", "/v1/nodes/n0", {"levels": ["spine"], "path": ["s0"], "gpus": 8}),
    ("DELETE", "/v1/nodes/n0", None),
    ("PUT", "/v1/teams/vision", {"guaranteed": 8}),
    ("PUT", "/v1/policy", {"values": {"retries": 1}}),
    ("POST", "/v1/scheduler/hand-over", {}),
    ("GET", "/v1/jobs", None),
    ("GET", "/v1/jobs/v-1", None),
    ("GET", "/v1/queue", None),
    ("GET", "/v1/summary", None),
]
MAY = {
    "nobody": (),
    "audit": ("/spec", "GET /v1"),
    "speech": ("GET /v1/jobs", "GET /v1/queue", "GET /v1/summary"),
    "vision": ("/v1/jobs", "GET /v1/queue", "GET /v1/summary"),
    "ops": ("",),
}


@pytest.mark.parametrize("who", MAY)
@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_every_route_asks_who_it_is(
    guarded: tuple[World, dict[str, dict[str, str]]],
    who: str,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    """A team changes its own jobs, an auditor reads, an operator does everything."""
    world, headers = guarded
    expected = any(part in f"{method} {path}" for part in MAY[who])
    if who == "speech" and path.endswith("/spec"):
        expected = False
    own = {k: v for k, v in headers[who].items() if k == "Authorization"}

    answer = world.client.request(method, path, json=body, headers=own)

    assert (answer.status_code < 300) is expected, answer.text
    if not expected:
        assert answer.status_code == (401 if who == "nobody" else 403)


def test_commands_and_environments_are_for_their_team_only(
    guarded: tuple[World, dict[str, dict[str, str]]],
) -> None:
    """What everybody may read does not hold them; the team's own route does."""
    world, headers = guarded

    assert "SECRET" not in world.client.get("/v1/jobs/v-1", headers=headers["speech"]).text
    assert "SECRET" in world.client.get("/v1/jobs/v-1/spec", headers=headers["vision"]).text


def test_a_token_rests_as_a_hash_and_is_revoked_without_a_restart(tmp_path: Path) -> None:
    """Whoever reads the file cannot come in; whoever is taken out of it cannot either."""
    path = tmp_path / "tokens.json"
    text = tokens.create(path, "ci", role=Role.SUBMIT, team="vision")
    world = make_world(tokens=path)
    headers = {"Authorization": f"Bearer {text}"}

    assert text.rpartition("_")[2] not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert world.client.get("/v1/queue", headers=headers).status_code == 200
    tokens.revoke(path, "ci")
    assert world.client.get("/v1/queue", headers=headers).status_code == 401


def test_a_token_is_rotated_without_a_restart(tmp_path: Path) -> None:
    """The new text comes in with the same rights, the old one does not."""
    path = tmp_path / "tokens.json"
    old = tokens.create(path, "ci", role=Role.SUBMIT, team="vision")
    world = make_world(tokens=path)

    new = tokens.rotate(path, "ci")

    codes = [
        world.client.get("/v1/session", headers={"Authorization": f"Bearer {text}"}).status_code
        for text in (old, new)
    ]
    assert codes == [401, 200]
    assert tokens.read(path)["ci"].team == "vision"


def test_a_token_is_named_once_and_has_its_team(tmp_path: Path) -> None:
    """Mistakes are said in one line."""
    path = tmp_path / "tokens.json"
    tokens.create(path, "ci", role=Role.AUDIT)

    with pytest.raises(TokensError, match="there is a token ci already"):
        tokens.create(path, "ci", role=Role.AUDIT)
    with pytest.raises(TokensError, match="names its team"):
        tokens.create(path, "cj", role=Role.SUBMIT)
    with pytest.raises(TokensError, match="there is no token ck"):
        tokens.revoke(path, "ck")


def test_a_stream_ends_with_its_token(tmp_path: Path) -> None:
    """Whose token is revoked hears nothing more, also where the stream is open already."""
    path = tmp_path / "tokens.json"
    headers = {"authorization": f"Bearer {tokens.create(path, 'me', role=Role.AUDIT)}"}
    with (
        listening_api(tokens=path) as (url, _),
        httpx2.stream("GET", f"{url}/v1/events", headers=headers, timeout=10) as answer,
    ):
        lines = answer.iter_lines()
        assert "following" in next(lines)
        tokens.revoke(path, "me")

        rest = list(lines)

    assert [line for line in rest if line.startswith("data")] == []
