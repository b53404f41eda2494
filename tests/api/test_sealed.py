"""With keys, what is private in a spec reaches the log sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gangline.events.log import Topic
from gangline.events.reading import from_the_start, read_to_ends
from gangline.events.sealing import KeyStore, bindings
from tests.api.fakes import World, make_world

if TYPE_CHECKING:
    from pathlib import Path

    from gangline.api.jobs import Desk

JOB = {
    "team": "vision", "gpus": 8, "command": ["python", "train.py"], "env": {"TOKEN": "hunter2"}
}  # fmt: skip
ROW = {"job": "run-1", "team": "vision", "submission": "jobs-0-0"}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Where the keys are."""
    return tmp_path / "keys"


@pytest.fixture
def world(keys: Path) -> World:
    """An API that seals."""
    return make_world(seal_keys=keys)


def submit(world: World) -> int:
    """Submit the job under the same name each time; the status of the answer."""
    headers = {"Idempotency-Key": "run-1"}
    return world.client.post("/v1/jobs", json=JOB, headers=headers).status_code


def test_no_secret_reaches_the_log(world: World, keys: Path) -> None:
    """It can be opened with the submitter's key, by whoever has the folder."""
    assert submit(world) == 202

    records = list(read_to_ends(world.log, from_the_start([Topic.JOBS])))
    (event,) = world.facts(Topic.JOBS)
    assert not any(word in records[0].value for word in (b"hunter2", b"train.py"))
    bound_to = bindings("run-1", team="vision")
    assert b"hunter2" in KeyStore(keys).unseal(event.body.spec.private, bound_to=bound_to)
    assert event.body.spec.private.key_id == "operator:local"


def test_a_repeat_is_known_although_it_would_be_sealed_otherwise(world: World, keys: Path) -> None:
    """Also to another process, which knows of it from the log only."""
    submit(world)
    assert submit(world) == 202
    other = make_world(seal_keys=keys)
    _desk(other).publisher = _desk(world).publisher
    other.views.tables["jobs"] = [ROW]

    assert submit(other) == 202
    assert len(world.facts(Topic.JOBS)) == 1


def test_its_owner_reads_it_in_clear_as_long_as_the_key_is_there(world: World, keys: Path) -> None:
    """After that nobody does."""
    submit(world)
    world.views.tables["jobs"] = [ROW]
    shown = world.client.get("/v1/jobs/run-1/spec").json()
    for file in keys.iterdir():
        file.unlink()
    after = world.client.get("/v1/jobs/run-1/spec")

    assert shown["env"] == {"TOKEN": "hunter2"}
    assert after.status_code == 403


def _desk(world: World) -> Desk:
    desk: Desk = world.client.app.state.desk  # type: ignore[attr-defined]
    return desk
