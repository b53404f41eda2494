"""Views with hand-made rows, and an application around them and a log in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi.testclient import TestClient

from gangline.api.app import create_app
from gangline.api.settings import Settings
from gangline.events import codec
from gangline.events.log import Position, Topic
from gangline.events.memory import MemoryLog
from gangline.events.reading import from_the_start, read_to_ends
from gangline.projections.queries import ViewsUnreachableError, no_such_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gangline.api.views import Row


@dataclass
class FakeViews:
    """Rows by view; `reached` is the only position that the views contain besides earlier ones."""

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    made: list[dict[str, Any]] = field(default_factory=list)
    down: bool = False
    reached: Position = field(default_factory=lambda: Position("jobs", 0, -1))

    def job(self, job: str) -> Row | None:
        """The row of `jobs`."""
        return next((row for row in self.tables.get("jobs", []) if row["job"] == job), None)

    def rows(
        self, view: str, *, where: Mapping[str, object], after: str, limit: int
    ) -> Sequence[Row]:
        """Rows that are equal where asked, keyed by their index."""
        if after and not after.isdecimal():
            raise no_such_key("after", after)
        rows = [{"key": str(i), **row} for i, row in enumerate(self.tables.get(view, []))]
        first = int(after) + 1 if after else 0
        return [r for r in rows[first:] if all(r.get(k) == v for k, v in where.items())][:limit]

    def decisions(self, *, after: str, job: str, limit: int) -> Sequence[Row]:
        """Rows of `made`, keyed by their index."""
        rows = [{"key": str(i), **row} for i, row in enumerate(self.made)]
        if after and not after.isdecimal():
            raise no_such_key("after", after)
        first = int(after) + 1 if after else 0
        return [r for r in rows[first:] if job in ("", r["job"])][:limit]

    def refusal(self, position: Position) -> Row | None:
        """What the rows of `made` say of it."""
        said = [row["detail"] for row in self.made if row.get("kind") == "InputRejected"]
        return next((why for why in said if why["first"] == position.offset), None)

    def end(self) -> str:
        """The index of the last one made."""
        return str(len(self.made) - 1) if self.made else ""

    def job_events(self, job: str, *, after: str, limit: int) -> Sequence[Row]:
        """Rows of `made` about a job."""
        return self.decisions(after=after, job=job, limit=limit)

    def ledger(self, *, from_ms: int, to_ms: int, team: str | None) -> Sequence[Row]:
        """Nothing."""
        return []

    def utilization(self, *, from_ms: int, to_ms: int, step_s: int) -> Sequence[Row]:
        """What was asked for."""
        return [{"from_ms": from_ms, "to_ms": to_ms, "step_s": step_s}]

    def wait_bands(self, *, since_ms: int) -> Sequence[Row]:
        """Nothing."""
        return []

    def fleet(self) -> Row:
        """One node."""
        return {
            "nodes": ["n0"],
            "paths": [["s0"]],
            "health": ["well"],
            "service": ["open"],
            "gpu_states": ["rrr....."],
            "jobs": [["train-1"]],
        }

    def contains(self, position: Position) -> bool:
        """Whether the position is at most the one reached."""
        return position <= self.reached

    def lag(self) -> Sequence[Row]:
        """One view, never behind."""
        if self.down:
            raise ViewsUnreachableError("no Postgres at nowhere:5432")
        return [{"view": "all", "position": str(self.reached), "lag_s": 0}]

    def numbers(self) -> Mapping[str, Any]:
        """A fleet of eight GPUs."""
        return {
            "fleet": {"held": 3, "free": 5, "unhealthy": 0, "total": 8, "nodes": 1},
            "queue": [{"reason": "capacity", "jobs": 2, "gpus": 9}],
            "jobs": [{"state": "queued", "jobs": 2}],
            "teams": [{"team": "a", "used": 3}],
        }

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class World:
    """An API that is called without a network."""

    log: MemoryLog
    views: FakeViews
    client: TestClient

    def facts(self, topic: Topic) -> list[Any]:
        """Events that stand in a topic."""
        records = read_to_ends(self.log, from_the_start([topic]))
        return [codec.decode(record.value) for record in records]


def make_world(*, tokens: Path | None = None, base: str = "http://127.0.0.1", **more: Any) -> World:
    """An API with an empty log and empty views."""
    log, views = MemoryLog("test"), FakeViews()
    log.create_topics()
    app = create_app(Settings(cell="test", tokens=tokens, **more), log=log, views=views)
    client = TestClient(app, base_url=base, raise_server_exceptions=False)
    return World(log, views, client)
