"""`gangline events`: every form of output, the life of a job, and what people read of it."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from gangline.cli.jobs import command_queue
from gangline.events.terms import WaitCause

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

PLACED: dict[str, Any] = {
    "at": "2026-11-30T12:00:00.5Z", "kind": "GangPlaced", "position": "decisions-0-7",
    "job": "train-1",
    "detail": {"job": "train-1", "attempt": 1, "borrowed": 0,
               "seats": [{"node": "n0", "gpus": [0, 1]}, {"node": "n1", "gpus": [0, 1]}]},
}  # fmt: skip
WAITS: dict[str, Any] = {
    "at": "2026-11-30T12:00:01Z", "kind": "Waits", "position": None, "job": "train-1",
    "detail": {"cause": "starting", "until_ms": 1_796_040_003_000},
}  # fmt: skip
RELEASED: dict[str, Any] = {
    "at": "2026-11-30T12:00:09Z", "kind": "GangReleased", "position": "decisions-0-9",
    "job": "train-1",
    "detail": {"code": 0, "cause": "finished", "lost_gpu_ms": 0, "productive_ms": 9_000},
}  # fmt: skip
LIFE = [PLACED, WAITS, RELEASED]


@pytest.fixture(autouse=True)
def life(shell: Shell) -> None:
    """A job that was placed, waited for its start and ended."""
    shell.world.views.tables["jobs"] = [{"job": "train-1", "team": "vision"}]
    shell.world.views.made = [dict(row) for row in LIFE]


def test_each_form_of_output_is_obeyed(shell: Shell) -> None:
    """JSON is one document, as of every command; ids are positions."""
    whole = json.loads(shell("events", "train-1", "--json").out)
    lines = shell("events", "train-1", "-o", "jsonl").out.splitlines()
    table = list(csv.DictReader(io.StringIO(shell("events", "train-1", "-o", "csv").out)))
    ids = shell("events", "train-1", "-o", "id").out.split()

    assert [row["kind"] for row in whole] == ["GangPlaced", "Waits", "GangReleased"]
    assert [json.loads(line) for line in lines] == whole
    assert [json.loads(row["detail"]) for row in table] == [row["detail"] for row in LIFE]
    assert ids == ["decisions-0-7", "decisions-0-9"]


def test_people_read_times_places_and_no_noughts(shell: Shell) -> None:
    """No milliseconds since 1970, and where a gang stands."""
    assert shell("events", "train-1").out.splitlines() == [
        "12:00:00 GangPlaced             train-1 attempt=1 on n0, n1",
        "12:00:01 Waits                  train-1 cause=starting until=12:00:03",
        "12:00:09 GangReleased           train-1 code=0 cause=finished productive=9s",
    ]


def test_a_reason_that_is_none_is_refused(shell: Shell) -> None:
    """An empty list would say that nobody waits for it; the choices are those of the scheduler."""
    done = shell("queue", "--reason", "capcity")
    (reason,) = (p for p in command_queue.params if p.name == "reason")

    assert (done.code, done.out) == (2, "")
    assert "capacity" in done.err
    assert list(reason.type.choices) == list(WaitCause)  # type: ignore[attr-defined]
