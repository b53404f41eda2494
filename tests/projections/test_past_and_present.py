"""`gangline replay at T` says of a moment what the live views said of it then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangline.events.log import Message, Topic
from gangline.replay.history import FileSource, steps
from gangline.replay.timetravel import When, state_at
from tests.support.histories import write_history

if TYPE_CHECKING:
    from pathlib import Path

    from tests.projections.conftest import Desk

STORY = """\
fleet spines=1 blocks=2 nodes=2 gpus=8
policy min_runtime=1m
team a guaranteed=16 lend=8
team b guaranteed=16
team c guaranteed=0 borrow=8 parent=b
submit one team=a gpus=16 gpus_per_node=8 runtime=30m checkpoint=5m
submit lent team=a gpus=8 runtime=3h checkpoint=5m
submit child team=c gpus=4 runtime=1h
run 6m
submit back team=b gpus=16 runtime=10m checkpoint=5m
submit late team=a gpus=32 runtime=10m
hold late
run 5m
fault s0-b0-n0 gpu=3 kind=ecc
cordon s0-b1-n1
run 2h
"""
MOMENTS = 12


def test_the_past_is_what_the_views_showed(desk: Desk, tmp_path: Path) -> None:
    """Queue with reasons, places, teams and nodes, at a dozen positions of one history."""
    path = tmp_path / "story.log"
    write_history(path, STORY)
    history = list(steps(FileSource(path)))
    writer = desk.story.log.writer("scheduler")
    every = max(1, len(history) // MOMENTS)
    compared = 0
    for index, step in enumerate(history, start=1):
        writer.commit(
            [Message(topic=Topic.DECISIONS, value=r.value, partition=0) for r in step.records]
        )
        if index % every == 0:
            desk.catch_up()
            past = state_at(FileSource(path), When(seq=step.link.seq))
            assert shown(desk) == told(past), f"batch {step.link.seq}"
            compared += 1

    assert compared >= MOMENTS


def shown(desk: Desk) -> dict[str, Any]:
    """What the views say now."""
    return {
        "queue": desk.all('SELECT job, team, gpus, "position", reason FROM queue ORDER BY 4'),
        "placed": desk.all(
            "SELECT job, team, gpus, state, preemptions FROM jobs "
            "WHERE state IN ('starting', 'running', 'preempting') ORDER BY job"
        ),
        "teams": desk.all(
            "SELECT team, coalesce(parent, '') AS parent, guaranteed, used, guaranteed_used, "
            "borrowed, lent, queued FROM teams ORDER BY team"
        ),
        "nodes": desk.all("SELECT node, gpus, health, service FROM nodes ORDER BY node"),
    }


def told(past: dict[str, Any]) -> dict[str, Any]:
    """The same of a state out of the log."""
    return {
        "queue": only(past["queue"], "job", "team", "gpus", "position", "reason"),
        "placed": sorted(
            only(past["placements"], "job", "team", "gpus", "state", "preemptions"),
            key=lambda row: row["job"],
        ),
        "teams": sorted(
            only(
                past["teams"],
                "team",
                "parent",
                "guaranteed",
                "used",
                "guaranteed_used",
                "borrowed",
                "lent",
                "queued",
            ),
            key=lambda row: row["team"],
        ),
        "nodes": sorted(
            only(past["nodes"], "node", "gpus", "health", "service"),
            key=lambda row: row["node"],
        ),
    }


def only(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Some columns of rows."""
    return [{name: row[name] for name in names} for row in rows]
