"""How long each question of the API and the page takes at a million jobs.

    python -m gangline.projections.bench_ask DSN [JOBS]

The rows are made by the database itself, beside the views' own: a million jobs, a quarter as many
attempts, waits, decisions and entries of the ledger, a tenth as many faults, in a cell of their
own; they are removed after. `QUESTIONS` is also what the tests ask for plans.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from gangline.events.log import Position
from gangline.events.named_sql import load_sql
from gangline.projections.migrations import SCHEMA, migrate
from gangline.projections.page_queries import PageViews
from gangline.projections.projector import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

CELL: Final = "bench-ask"
START_MS: Final = 1_800_000_000_000
_JOB_MS: Final = 45_000
_DAY_MS: Final = 86_400_000
_TIMES: Final = 5
_FILL: Final = load_sql("gangline.projections", "bench_ask.sql")
_TABLES: Final = (
    "job",
    "attempt",
    "waiting",
    "wait",
    "decision",
    "ledger_entry",
    "fault",
    "usage_bucket",
    "share_bucket",
    "node",
    "node_gang",
    "view_position",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBench:
    """The result, in milliseconds by question. median_ms, slowest_ms: of five times."""

    jobs: int
    median_ms: dict[str, float]
    slowest_ms: dict[str, float]


def questions(jobs: int) -> Mapping[str, Callable[[PageViews], object]]:
    """Everything that is asked of the views, by its name; of a history of so many jobs."""
    last_ms = START_MS + jobs // 4 * _JOB_MS
    jobs_last_ms = START_MS + jobs * _JOB_MS
    return {**_of_the_api(jobs, last_ms, jobs_last_ms), **_of_the_page(jobs, last_ms, jobs_last_ms)}


def _of_the_api(
    jobs: int, last_ms: int, jobs_last_ms: int
) -> dict[str, Callable[[PageViews], object]]:
    day = {"from_ms": last_ms - _DAY_MS, "to_ms": last_ms}
    return {
        "job": lambda v: v.job("job-77"),
        "jobs": lambda v: v.rows("jobs"),
        "jobs, later page": lambda v: v.rows("jobs", after=f"{last_ms // 2}:job-9"),
        "jobs by team": lambda v: v.rows("jobs", where={"team": "team-3"}),
        "jobs by state": lambda v: v.rows("jobs", where={"state": "running"}),
        "jobs by team and state": lambda v: v.rows(
            "jobs", where={"team": "team-3", "state": "failed"}
        ),
        "jobs by class": lambda v: v.rows("jobs", where={"class": "high"}),
        "jobs of an array": lambda v: v.rows("jobs", where={"array_of": "a"}),
        "attempts": lambda v: v.rows("attempts", where={"job": "job-77"}),
        "queue": lambda v: v.rows("queue"),
        "queue by reason": lambda v: v.rows("queue", where={"reason": "capacity"}),
        "faults": lambda v: v.rows("faults"),
        "faults of a node": lambda v: v.rows("faults", where={"node": "node-7"}),
        "teams": lambda v: v.rows("teams"),
        "nodes": lambda v: v.rows("nodes"),
        "fleet": lambda v: v.fleet(),
        "waits": lambda v: v.rows("waits"),
        "wait bands": lambda v: v.wait_bands(since_ms=jobs_last_ms - 7 * _DAY_MS),
        "fairness": lambda v: v.rows("fairness"),
        "decisions": lambda v: v.decisions(),
        "decisions, resumed": lambda v: v.decisions(after=f"decisions-0-{jobs // 8}"),
        "decisions of a job": lambda v: v.decisions(job="job-77"),
        "decisions of a node": lambda v: v.decisions(node="node-7"),
        "decisions of a kind": lambda v: v.decisions(kind="GangPlaced"),
        "end": lambda v: v.end(),
        "what became of a fact": lambda v: v.refusal(Position.parse("control-0-17")),
        "events of a job": lambda v: v.job_events("job-77"),
        "ledger of a day": lambda v: v.ledger(**day),
        "ledger of a team": lambda v: v.ledger(**day, team="team-3"),
        "utilization": lambda v: v.utilization(**day),
        "numbers": lambda v: v.numbers(),
        "lag": lambda v: v.lag(),
        "read your writes": lambda v: v.contains(Position.parse("jobs-0-17")),
    }


def _of_the_page(
    jobs: int, last_ms: int, jobs_last_ms: int
) -> dict[str, Callable[[PageViews], object]]:
    middle_ms = (START_MS + last_ms) // 2
    week = {"from_ms": last_ms - 7 * _DAY_MS, "to_ms": last_ms}
    return {
        "page: span": lambda v: v.page("span"),
        "page: activity": lambda v: v.page("activity", from_ms=START_MS, to_ms=last_ms, steps=240),
        "page: next decision": lambda v: v.page("after", at_ms=middle_ms),
        "page: decision before": lambda v: v.page("before", at_ms=middle_ms),
        "page: gangs": lambda v: v.page("gangs"),
        "page: feed": lambda v: v.feed(before="", limit=100),
        "page: feed of a kind": lambda v: v.feed(before="", limit=100, kinds=["GangPlaced"]),
        "page: feed of the past": lambda v: v.feed(before="", limit=100, at_ms=middle_ms),
        "page: feed of a past kind": lambda v: v.feed(
            before="", limit=100, at_ms=middle_ms, kinds=["GangPlaced"]
        ),
        "page: feed of a node": lambda v: v.feed(before="", limit=300, node="node-7"),
        "page: feed of a team": lambda v: v.feed(before="", limit=100, team="team-3"),
        "page: feed, older": lambda v: v.feed(before=f"decisions-0-{jobs // 8}.0", limit=100),
        "page: jobs": lambda v: v.job_list(after="", limit=100),
        "page: jobs by state": lambda v: v.job_list(after="", limit=100, states=["running"]),
        "page: jobs by a part of the name": lambda v: v.job_list(
            after="", limit=100, text=f"ob-{jobs // 2}"
        ),
        "page: jobs by a part of many old names": lambda v: v.job_list(
            after="", limit=100, text="b-12"
        ),
        "page: jobs by two letters": lambda v: v.job_list(after="", limit=100, text="77"),
        "page: jobs by a part that no name has": lambda v: v.job_list(
            after="", limit=100, text="zzz"
        ),
        "page: waits of a job": lambda v: v.page("waits_of", job="job-77"),
        "page: faults near": lambda v: v.page(
            "faults_near", nodes=["node-7", "node-8"], from_ms=middle_ms
        ),
        "page: shares": lambda v: v.page("shares", step_ms=3_600_000, **week),
        "page: loans": lambda v: v.page("loans", **week),
        "page: bands": lambda v: v.page(
            "bands", from_ms=jobs_last_ms - 7 * _DAY_MS, to_ms=jobs_last_ms
        ),
        "page: alarms": lambda v: v.page("alarms"),
        "page: conditions": lambda v: v.page(
            "conditions", nodes=["node-7", "node-8"], at_ms=middle_ms
        ),
        "page: out now": lambda v: v.page("out", at_ms=last_ms),
        "page: out then": lambda v: v.page("out", at_ms=middle_ms),
    }


def fill(connection: psycopg.Connection[Any], jobs: int, *, cell: str = CELL) -> None:
    """Make the rows of so many jobs."""
    for statement in _FILL.values():
        connection.execute(statement, {"rows": jobs, "cell": cell})


def bench_ask(
    dsn: str, *, jobs: int = 1_000_000, tick: Callable[[str], None] = lambda _text: None
) -> AskBench:
    """Ask everything of a history of so many jobs."""
    migrate(dsn)
    with connect(dsn, schema=SCHEMA) as connection:
        _clear(connection)
        try:
            tick("making rows")
            fill(connection, jobs)
            tick("asking")
            asked = _asked(dsn, jobs)
        finally:
            _clear(connection)
    return AskBench(
        jobs=jobs,
        median_ms={name: times[len(times) // 2] for name, times in asked.items()},
        slowest_ms={name: times[-1] for name, times in asked.items()},
    )


def _asked(dsn: str, jobs: int) -> dict[str, list[float]]:
    """Milliseconds of each question, sorted, over a connection of the API's own."""
    views = PageViews(dsn, CELL, connections=1)
    try:
        views.lag()
        return {name: sorted(_times(ask, views)) for name, ask in questions(jobs).items()}
    finally:
        views.close()


def _times(ask: Callable[[PageViews], object], views: PageViews) -> list[float]:
    found = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        ask(views)
        found.append(round(1000 * (time.perf_counter() - started), 1))
    return found


def _clear(connection: psycopg.Connection[Any]) -> None:
    for table in _TABLES:
        clear = sql.SQL("DELETE FROM {} WHERE cell = %s").format(sql.Identifier(table))
        connection.execute(clear, [CELL])


def main() -> None:
    """Run it, and print the numbers as JSON."""
    dsn, *rest = sys.argv[1:]
    result = bench_ask(dsn, jobs=int(rest[0]) if rest else 1_000_000)
    sys.stdout.write(json.dumps(asdict(result)) + "\n")


if __name__ == "__main__":
    main()
