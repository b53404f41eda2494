"""Answers from the log itself: dry runs, the policy, the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from gangline.api.app import create_app
from gangline.api.settings import Settings
from gangline.events.log import LogUnreachableError, Topic
from gangline.events.reading import from_the_start, read_to_ends
from tests.api.fakes import FakeViews, World
from tests.scheduler.test_real_core import Fleet

if TYPE_CHECKING:
    from gangline.events.log import Log


@pytest.fixture(scope="module")
def played() -> tuple[TestClient, Log]:
    """An API over the log of a fleet in which much has happened."""
    fleet = Fleet()
    fleet.play()
    app = create_app(Settings(cell="test"), log=fleet.cell.log, views=FakeViews())
    return TestClient(app, base_url="http://127.0.0.1"), fleet.cell.log


def test_a_dry_run_says_when_where_and_why_and_submits_nothing(
    played: tuple[TestClient, Log],
) -> None:
    """The verdict comes from the core, and the log stays as it is."""
    client, log = played
    before = len(list(read_to_ends(log, from_the_start([Topic.JOBS]))))
    team = client.get("/v1/state").json()["teams"][0]["team"]

    found = client.post("/v1/jobs?dry_run=1", json={"team": team, "gpus": 1}).json()

    assert found["dry_run"] is True
    assert found["verdict"] in ("now", "later")
    assert found["nodes"]
    assert found["start_at"].endswith("Z")
    assert len(list(read_to_ends(log, from_the_start([Topic.JOBS])))) == before


def test_a_dry_run_of_what_can_never_start_names_the_nearest(
    played: tuple[TestClient, Log],
) -> None:
    """It is an answer, not an error."""
    client, _ = played
    team = client.get("/v1/state").json()["teams"][0]["team"]

    answer = client.post("/v1/jobs?dry_run=1", json={"team": team, "gpus": 4096})

    assert answer.status_code == 200
    assert answer.json()["verdict"] == "rejected"
    assert answer.json()["nearest"].startswith("gpus=")


def test_a_spec_that_is_wrong_is_wrong_in_a_dry_run_too(world: World) -> None:
    """The field is named."""
    answer = world.client.post("/v1/jobs?dry_run=1", json={"team": "a", "gpus": 0})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "gpus")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("jobs?dryrun=1", "; did you mean dry_run?"),
        ("jobs?dry_run=1&until=5m", ""),
        ("jobs/batch?dry_run=1", ""),
        ("jobs/train-1/cancel?dry_run=1", ""),
        ("scheduler/hand-over?dry_run=1", ""),
    ],
)
def test_what_changes_something_takes_no_unknown_parameter(
    world: World, path: str, hint: str
) -> None:
    """What looks like a question is never taken for the deed."""
    spec = {"team": "vision", "gpus": 1}
    body = {"jobs": [{"spec": spec}]} if "batch" in path else spec if path[4] == "?" else {}

    answer = world.client.post(f"/v1/{path}", json=body)

    assert answer.status_code == 422
    assert answer.json()["detail"].endswith(f"there is no such parameter{hint}")
    assert not world.facts(Topic.JOBS) + world.facts(Topic.CONTROL)


def test_the_policy_is_told_with_units_and_defaults(world: World) -> None:
    """A cell in which nothing happened yet has the defaults."""
    rows: list[dict[str, Any]] = world.client.get("/v1/policy").json()["items"]
    found = {row["key"]: row for row in rows}

    assert found["start_timeout"]["value"] == found["start_timeout"]["default"] == 120_000
    assert found["start_timeout"]["unit"] == "ms"
    assert found["retries"]["unit"] == "count"


def test_a_log_that_is_away_is_said_to_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """503, and the next question reads again."""

    def gone(*_: object) -> None:
        raise LogUnreachableError("no broker at nowhere:9092")

    with monkeypatch.context() as away:
        away.setattr(world.log, "ends", gone)
        answer = world.client.get("/v1/policy")

    assert (answer.status_code, answer.json()["type"]) == (503, "urn:gangline:problem:unavailable")
    assert world.client.get("/v1/policy").status_code == 200
