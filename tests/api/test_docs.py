"""docs/services.md: its examples run, and its names are those of the API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gangline.api.spec_json import JobRequest
from gangline.client import JobSpec
from gangline.events.log import Position, Topic
from tests.support.api import listening_api
from tests.support.sources import ROOT

if TYPE_CHECKING:
    import pytest

TEXT = (ROOT / "docs" / "services.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_python_example_submits_and_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands in the page."""
    with listening_api() as (url, world):
        monkeypatch.setenv("GANGLINE_URL", url)
        world.views.tables["jobs"] = [
            {"job": "nightly-2026-11-30", "team": "vision", "state": "succeeded"}
        ]
        world.views.reached = Position("jobs", 0, 0)
        names: dict[str, object] = {}

        exec(_block("python"), names)  # noqa: S102 - it is our own page

        assert names["code"] == 0
        assert capsys.readouterr().out == "nightly-2026-11-30 succeeded\n"
        (event,) = world.facts(Topic.JOBS)
        assert event.body.spec.gpus_per_node == 8


def test_the_table_names_every_field_of_a_spec() -> None:
    """And the client's class has the same ones."""
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    simulated = {"runtime", "exits", "exits_after"}

    assert named >= set(JobRequest.model_fields) - simulated
    assert set(JobSpec.__slots__) == set(JobRequest.model_fields)
