"""Routes that read views.

Lists come in pages: `next` is what to pass as `after` for more, null at the end.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request

from gangline.api.auth import Principal, Verb, may
from gangline.api.jobs import Caller
from gangline.api.names import Name
from gangline.api.problems import ProblemError, nearest
from gangline.api.views import Row, Views, read_your_writes

router = APIRouter(prefix="/v1", tags=["reads"], dependencies=[Depends(read_your_writes)])

PRIVATE: Final = ("command", "env", "workdir", "user")
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
    shown = [{name: value for name, value in row.items() if name != "key"} for row in rows]
    return {"items": shown, "next": following}


def for_eyes_of(caller: Principal, row: Row) -> dict[str, Any]:
    """A job's row without what the caller may not see."""
    hidden = () if may(caller, Verb.READ_PRIVATE, str(row.get("team", ""))) else PRIVATE
    return {name: value for name, value in row.items() if name not in hidden and name != "key"}


def job_or_problem(views: Views, job: str) -> Row:
    """A job's row, or a `not-found` problem with the nearest name."""
    row = views.job(job)
    if row is None:
        known = [str(r["job"]) for r in views.rows("jobs", where={}, after="", limit=1_000)]
        raise ProblemError("not-found", f"there is no job {job}{nearest(job, known)}")
    return row


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
def job(job: Name, views: OpenViews, caller: Caller) -> dict[str, Any]:
    """A job with its attempts, and why it waits if it does."""
    found = for_eyes_of(caller, job_or_problem(views, job))
    found["attempts_list"] = [
        {name: value for name, value in row.items() if name != "key"}
        for row in views.rows("attempts", where={"job": job}, after="", limit=1_000)
    ]
    return found


@router.get("/jobs/{job}/events")
def job_events(
    job: Name, views: OpenViews, _: Caller, after: After = "", limit: Limit = 1_000
) -> dict[str, Any]:
    """All decisions about a job, oldest first."""
    job_or_problem(views, job)
    return page(views.decisions(after=after, job=job, limit=limit), limit)


@router.get("/queue")
def queue(
    views: OpenViews,
    _: Caller,
    team: Name | None = None,
    reason: Annotated[str | None, Query(max_length=30)] = None,
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
    health: Annotated[str | None, Query(max_length=30)] = None,
    service: Annotated[str | None, Query(max_length=30)] = None,
    after: After = "",
    limit: Limit = 10_000,
) -> dict[str, Any]:
    """Nodes with their GPUs, health, service, and what runs there."""
    where = _where(health=health, service=service)
    return page(views.rows("nodes", where=where, after=after, limit=limit), limit)


@router.get("/ledger")
def ledger(
    views: OpenViews,
    _: Caller,
    team: Name | None = None,
    account: Annotated[str | None, Query(max_length=60)] = None,
    after: After = "",
    limit: Limit = 1_000,
) -> dict[str, Any]:
    """The quota ledger: every GPU-millisecond, by team and account."""
    where = _where(team=team, account=account)
    return page(views.rows("quota_ledger", where=where, after=after, limit=limit), limit)


@router.get("/utilization")
def utilization(
    views: OpenViews, _: Caller, after: After = "", limit: Limit = 1_000
) -> dict[str, Any]:
    """How the fleet was used over time, by cause."""
    return page(views.rows("utilization", where={}, after=after, limit=limit), limit)


@router.get("/waits")
def waits(views: OpenViews, _: Caller, after: After = "", limit: Limit = 1_000) -> dict[str, Any]:
    """How long jobs waited, by band and cause."""
    return page(views.rows("waits", where={}, after=after, limit=limit), limit)


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


@router.get("/summary")
def summary(views: OpenViews, _: Caller) -> dict[str, Any]:
    """The fleet, the queue and the teams in numbers, and how far the views have come."""
    return {**views.numbers(), "projections": list(views.lag())}
