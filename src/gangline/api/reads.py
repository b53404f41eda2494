"""Routes that read views.

Lists come in pages: `next` is what to pass as `after` for more, null at the end.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request

from gangline.api.auth import Verb, authorise
from gangline.api.durations import parse_at_ms
from gangline.api.history import At, OpenPast, moment_of, now
from gangline.api.jobs import Caller, OpenDesk
from gangline.api.names import Name
from gangline.api.problems import ProblemError
from gangline.api.query import only_known
from gangline.api.spec_json import MAX_COUNT
from gangline.api.views import Row, Views, no_such_job, parse_position, read_your_writes
from gangline.events.terms import Health, Service, WaitCause

router = APIRouter(
    prefix="/v1", tags=["reads"], dependencies=[Depends(only_known), Depends(read_your_writes)]
)

STATES = Literal[
    "queued", "starting", "running", "preempting", "succeeded", "failed", "cancelled", "rejected"
]
CLASSES = Literal["low", "normal", "high", "urgent"]


def views_of(request: Request) -> Views:
    """The views of the application."""
    views: Views = request.app.state.views
    return views


OpenViews = Annotated[Views, Depends(views_of)]
After = Annotated[str, Query(max_length=300, description="`next` of the page before")]
Limit = Annotated[int, Query(ge=1, le=10_000)]


def page(rows: Sequence[Row], limit: int) -> dict[str, Any]:
    """Rows as a page; each row's `key` (not shown) is where the next page begins."""
    following = str(rows[-1]["key"]) if len(rows) == limit else None
    return {"items": [shown(row) for row in rows], "next": following}


def shown(row: Row) -> dict[str, Any]:
    """A row without its key."""
    return {name: value for name, value in row.items() if name != "key"}


def job_or_problem(views: Views, job: str) -> Row:
    """A job's row, or a `not-found` problem with the nearest name."""
    row = views.job(job)
    if row is None:
        raise no_such_job(views, job)
    return row


def tasks_of(views: Views, array: str) -> list[Row]:
    """The tasks of an array, in order; none of what is no array."""
    rows = views.rows("jobs", where={"array_of": array}, after="", limit=MAX_COUNT)
    return sorted(rows, key=lambda row: int(str(row["job"]).rpartition(".")[2]))


def array_of(name: str, tasks: Sequence[Row]) -> dict[str, Any]:
    """An array as one row: what its tasks share, how many are in which state, and the outcome."""
    states = Counter(str(task["state"]) for task in tasks)
    alike = ("team", "class", "gpus", "submitted_at", "cell", "actor", "submission")
    bad = next((task for task in tasks if task["state"] in _BAD), None)
    live = next((state for state in _LIVE if states[state]), "")
    return {
        "job": name,
        **{column: tasks[0].get(column) for column in alike},
        "tasks": len(tasks),
        "states": dict(states),
        "state": live or (str(bad["state"]) if bad else "succeeded"),
        "exit_code": None if live or bad is None else bad.get("exit_code"),
        "attempts_list": [],
    }


_LIVE: Final = ("running", "preempting", "starting", "queued")
_BAD: Final = ("failed", "rejected", "cancelled")


@dataclass(frozen=True)
class Window:
    """A stretch of time, in milliseconds since the epoch."""

    from_ms: int
    to_ms: int


def window_of(
    since: Annotated[str, Query(max_length=40, description="a time, or how long ago")] = "24h",
    until: Annotated[str, Query(max_length=40, description="a time, or how long ago")] = "0s",
) -> Window:
    """A window from its ends: `2026-11-30T12:00:00Z`, or `24h` for so long ago."""
    now_ms = time.time_ns() // 1_000_000
    window = Window(_moment("since", since, now_ms), _moment("until", until, now_ms))
    if window.from_ms >= window.to_ms:
        raise ProblemError("invalid", "since: it has to be before until")
    return window


def _moment(name: str, text: str, now_ms: int) -> int:
    try:
        return parse_at_ms(text, now_ms=now_ms)
    except ValueError as error:
        raise ProblemError("invalid", f"{name}: {error}") from error


WindowOf = Annotated[Window, Depends(window_of)]


def _where(**equal: object) -> Mapping[str, object]:
    return {name: value for name, value in equal.items() if value is not None}


@router.get("/jobs")
def jobs(
    views: OpenViews,
    _: Caller,
    team: Name | None = None,
    state: STATES | None = None,
    priority: Annotated[CLASSES | None, Query()] = None,
    after: After = "",
    limit: Limit = 100,
) -> dict[str, Any]:
    """Jobs, newest first."""
    where = {**_where(team=team, state=state), **_where(**{"class": priority})}
    return page(views.rows("jobs", where=where, after=after, limit=limit), limit)


@router.get("/jobs/{job}")
def job(job: Name, views: OpenViews, _: Caller) -> dict[str, Any]:
    """A job with its attempts; of an array, how its tasks are."""
    row = views.job(job)
    if row is None and (tasks := tasks_of(views, job)):
        return array_of(job, tasks)
    found = shown(row or job_or_problem(views, job))
    attempts = views.rows("attempts", where={"job": job}, after="", limit=1_000)
    return found | {"attempts_list": [shown(row) for row in attempts]}


@router.get("/jobs/{job}/spec")
def job_spec(job: Name, views: OpenViews, desk: OpenDesk, caller: Caller) -> dict[str, Any]:
    """The spec as it was submitted, with its private part: command, environment, directory."""
    row = job_or_problem(views, job)
    authorise(caller, Verb.READ_PRIVATE, str(row["team"]))
    return {"job": job, **desk.private_part(str(row["submission"]))}


@router.get("/jobs/{job}/why")
def why(job: Name, views: OpenViews, past: OpenPast, _: Caller, at: At = "") -> dict[str, Any]:
    """Why a job waits now, or what became of it; `at`: why it waited then."""
    if at:
        return past.why(job, moment_of(at, now_ms=now()))
    row = job_or_problem(views, job)
    found = {name: row[name] for name in ("job", "state", "reason", "reason_text")}
    waiting = views.rows("queue", where={"job": job}, after="", limit=1)
    return found | {name: value for r in waiting for name, value in shown(r).items()}


@router.get("/jobs/{job}/events")
def job_events(
    job: Name, views: OpenViews, _: Caller, after: After = "", limit: Limit = 1_000
) -> dict[str, Any]:
    """All decisions about a job and each change of why it waited, oldest first."""
    job_or_problem(views, job)
    return page(views.job_events(job, after=after, limit=limit), limit)


@router.get("/queue")
def queue(
    views: OpenViews,
    _: Caller,
    team: Name | None = None,
    reason: WaitCause | None = None,
    after: After = "",
    limit: Limit = 1_000,
) -> dict[str, Any]:
    """What waits, in order, and why."""
    return page(
        views.rows("queue", where=_where(team=team, reason=reason), after=after, limit=limit), limit
    )


@router.get("/teams")
def teams(views: OpenViews, _: Caller, after: After = "", limit: Limit = 1_000) -> dict[str, Any]:
    """Teams with what they are guaranteed, use, borrow and lend, in GPUs."""
    return page(views.rows("teams", where={}, after=after, limit=limit), limit)


@router.get("/nodes")
def nodes(
    views: OpenViews,
    _: Caller,
    health: Health | None = None,
    service: Service | None = None,
    after: After = "",
    limit: Limit = 10_000,
) -> dict[str, Any]:
    """Nodes with their GPUs, health, service, and what runs there."""
    where = _where(health=health, service=service)
    return page(views.rows("nodes", where=where, after=after, limit=limit), limit)


@router.get("/faults")
def faults(
    views: OpenViews, _: Caller, node: Name | None = None, after: After = "", limit: Limit = 1_000
) -> dict[str, Any]:
    """What was wrong with nodes and GPUs, newest first."""
    return page(views.rows("faults", where=_where(node=node), after=after, limit=limit), limit)


@router.get("/ledger")
def ledger(
    views: OpenViews, _: Caller, window: WindowOf, team: Name | None = None
) -> dict[str, Any]:
    """Where every GPU-millisecond of a window went, by team and account."""
    rows = views.ledger(from_ms=window.from_ms, to_ms=window.to_ms, team=team)
    return {"items": rows, "next": None}


@router.get("/utilization")
def utilization(
    views: OpenViews, _: Caller, window: WindowOf, step: Annotated[int, Query(ge=300)] = 300
) -> dict[str, Any]:
    """How the fleet was used in a window, by account. step: seconds."""
    rows = views.utilization(from_ms=window.from_ms, to_ms=window.to_ms, step_s=step)
    return {"items": rows, "next": None}


@router.get("/waits")
def waits(
    views: OpenViews, _: Caller, window: WindowOf, after: After = "", limit: Limit = 1_000
) -> dict[str, Any]:
    """How long jobs waited, by day, band of size and cause; `bands`: of those first started."""
    rows = page(views.rows("waits", where={}, after=after, limit=limit), limit)
    return rows | {"bands": views.wait_bands(since_ms=window.from_ms)}


@router.get("/fairness")
def fairness(
    views: OpenViews, _: Caller, after: After = "", limit: Limit = 1_000
) -> dict[str, Any]:
    """What teams got against what they were entitled to."""
    return page(views.rows("fairness", where={}, after=after, limit=limit), limit)


@router.get("/decisions")
def decisions(
    views: OpenViews,
    _: Caller,
    job: Name | None = None,
    after: After = "",
    limit: Limit = 1_000,
) -> dict[str, Any]:
    """Decisions in order."""
    return page(views.decisions(after=after, job=job or "", limit=limit), limit)


@router.get("/facts/{position}")
def fact(position: Annotated[str, Path(max_length=100)], views: OpenViews, _: Caller) -> Row:
    """What became of a fact of late, by its position: whether the scheduler refused it, and why."""
    place = parse_position("position", position)
    if not views.contains(place):
        raise ProblemError("not-yet", f"the views have not reached {place} yet")
    refusal = views.refusal(place)
    return {"position": str(place), "refused": refusal is not None, **(refusal or {})}


@router.get("/summary")
def summary(views: OpenViews, _: Caller) -> dict[str, Any]:
    """The fleet, the queue and the teams in numbers, and how far the views have come."""
    numbers = views.numbers()
    teams = [shown(row) for row in numbers["teams"]]
    return {**numbers, "teams": teams, "projections": views.lag()}


@router.get("/fleet")
def fleet(views: OpenViews, _: Caller) -> dict[str, Any]:
    """The whole fleet in columns, one letter a GPU; what the map of the page is drawn from."""
    return dict(views.fleet())
