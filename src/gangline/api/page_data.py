"""What the page reads: each route has `at`, and then shows that moment and nothing later."""

import gzip
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from gangline.api import page_shapes as shapes
from gangline.api.durations import is_milliseconds
from gangline.api.history import At, OpenPast, moment_of, now
from gangline.api.jobs import Caller
from gangline.api.names import Name
from gangline.api.problems import ProblemError
from gangline.api.reads import job_or_problem, shown, views_of
from gangline.api.views import read_your_writes
from gangline.projections.page_queries import PageViews

router = APIRouter(
    prefix="/page", include_in_schema=False, dependencies=[Depends(read_your_writes)]
)

_HOUR_MS: Final = 3_600_000
_FRESH_S: Final = 1.0
Words = Annotated[str, Query(max_length=300)]
Count = Annotated[int, Query(ge=1, le=1_000)]
Hours = Annotated[float, Query(gt=0, le=24 * 400)]


@dataclass(frozen=True, slots=True)
class Moment:
    """What the page shows. plain: the state then; None for the present."""

    at_ms: int
    plain: dict[str, Any] | None

    @property
    def until_ms(self) -> int | None:
        """Nothing later than this is shown; None for the present."""
        return None if self.plain is None else self.at_ms


def page_views(request: Request) -> PageViews:
    """The views of the application."""
    return cast("PageViews", views_of(request))


def moment(past: OpenPast, at: At = "") -> Moment:
    """The present, or the moment of `at`."""
    if not at or at == "now":
        return Moment(now(), None)
    plain = past.state(moment_of(at, now_ms=now()))
    return Moment(int(plain["at_ms"]), plain)


OpenPage = Annotated[PageViews, Depends(page_views)]
Now = Annotated[Moment, Depends(moment)]


def _answer(request: Request, body: dict[str, Any]) -> Response:
    """JSON, compressed where the browser can: a fleet of 8,000 GPUs is a few kilobytes."""
    text = json.dumps(body, separators=(",", ":"), default=_plain).encode()
    headers = {"Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        text = gzip.compress(text, compresslevel=5, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(text, media_type="application/json", headers=headers)


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else str(value)


class Activity:
    """How much happened over time: counted for whoever asks, and again after a thousandth of it.

    At most a minute passes until then. A short history moves under the eyes, a long one takes long
    to count.
    """

    def __init__(self) -> None:
        self._until_s = 0.0
        self._asked: tuple[int, int] = (0, 0)
        self._bars: Sequence[Any] = ()

    def bars(self, views: PageViews, span: Mapping[str, Any], steps: int) -> Sequence[Any]:
        """Starts, evictions and faults by step of the span."""
        if span["from_ms"] is None or span["to_ms"] <= span["from_ms"]:
            return ()
        asked = (span["from_ms"], steps)
        if self._asked != asked or time.monotonic() >= self._until_s:
            self._bars = views.page("activity", steps=steps, **span)
            self._asked = asked
            lasts_s = (span["to_ms"] - span["from_ms"]) / 1_000
            self._until_s = time.monotonic() + min(60.0, lasts_s / 1_000)
        return self._bars


@router.get("/timeline")
def timeline(
    request: Request,
    views: OpenPage,
    past: OpenPast,
    _: Caller,
    steps: Annotated[int, Query(ge=10, le=600)] = 240,
) -> Response:
    """From when to when there is a past, where in it much happened, and how far the views are."""
    past.prepare()
    (span,) = views.page("span")
    activity: Activity = request.app.state.activity
    bars = activity.bars(views, span, steps)
    found = {"steps": steps, "bars": bars, "views": _standing(request, views)}
    return _answer(request, {**span, "now_ms": now(), **found})


def _standing(request: Request, views: PageViews) -> dict[str, Any]:
    """How far the views are; `making`: the past that a demo begins with is not whole yet."""
    found = shapes.standing(views.lag())
    until_ms: int = request.app.state.settings.history_until_ms
    return {**found, "making": (found["at_ms"] or 0) < until_ms}


@router.get("/step")
def step(request: Request, views: OpenPage, _: Caller, at: Words, way: Words = "next") -> Response:
    """When the next decision was made after a moment, or the last before it."""
    if not is_milliseconds(at):
        raise ProblemError("invalid", "at: milliseconds since the epoch")
    rows = views.page("after" if way == "next" else "before", at_ms=int(at))
    return _answer(request, {"at_ms": rows[0]["at_ms"] if rows else None})


@router.get("/overview")
def overview(request: Request, views: OpenPage, _: Caller, moment: Now) -> Response:
    """The header's numbers, teams and alarms."""
    if moment.plain is None:
        found = dict(views.numbers())
        found["teams"] = [shown(row) for row in found["teams"]]
        found |= {"alarms": views.page("alarms"), "projections": views.lag()}
    else:
        found = shapes.numbers_of_past(moment.plain)
        found["teams"] = shapes.teams_of_past(moment.plain)
        found["alarms"] = _told(views, shapes.unwell(moment.plain), moment.at_ms)
    out = views.page("out", at_ms=moment.at_ms)
    found["alarms"] = shapes.alarms(found["alarms"], out)
    return _answer(request, {"at_ms": moment.at_ms, **found})


def _told(views: PageViews, rows: list[dict[str, Any]], at_ms: int) -> list[dict[str, Any]]:
    """Nodes of a past moment, with why they were as they were."""
    names = [row["node"] for row in rows]
    return shapes.told(rows, views.page("conditions", nodes=names, at_ms=at_ms))


@router.get("/fleet")
def fleet(request: Request, views: OpenPage, _: Caller, moment: Now) -> Response:
    """The map."""
    if moment.plain is None:
        nodes = shapes.nodes_of_view(views.fleet())
        gangs: Sequence[Any] = views.page("gangs")
    else:
        nodes, gangs = shapes.nodes_of_past(moment.plain), moment.plain["placements"]
    return _answer(request, {"at_ms": moment.at_ms, **shapes.fleet_shape(nodes, gangs)})


class Queues:
    """The present queue, read at most once a second whoever asks."""

    def __init__(self) -> None:
        self._read_s = 0.0
        self._rows: list[dict[str, Any]] = []

    def rows(self, views: PageViews) -> list[dict[str, Any]]:
        """All that waits."""
        if time.monotonic() - self._read_s > _FRESH_S:
            self._rows = shapes.queue_of_view(views.rows("queue", where={}, after="", limit=10_000))
            self._read_s = time.monotonic()
        return self._rows


@router.get("/queue")
def queue(  # noqa: PLR0913, PLR0917 - parameters of a route
    request: Request,
    views: OpenPage,
    _: Caller,
    moment: Now,
    team: Words = "",
    reason: Words = "",
    priority: Annotated[str, Query(alias="class", max_length=20)] = "",
    text: Words = "",
    order: Words = "position",
    first: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Count = 100,
) -> Response:
    """Rows of the queue, filtered and sorted."""
    if order.removeprefix("-") not in shapes.QUEUE_ORDERS:
        raise ProblemError("invalid", f"order: one of {', '.join(shapes.QUEUE_ORDERS)}")
    plain = moment.plain
    queues: Queues = request.app.state.queues
    rows = queues.rows(views) if plain is None else shapes.queue_of_past(plain)
    wanted = {"team": team, "reason": reason, "class": priority, "text": text}
    found = shapes.queue_page(rows, wanted=wanted, order=order, first=first, count=limit)
    return _answer(request, {"at_ms": moment.at_ms, **found})


@router.get("/jobs")
def jobs(  # noqa: PLR0913, PLR0917 - parameters of a route
    request: Request,
    views: OpenPage,
    _: Caller,
    moment: Now,
    team: Words = "",
    state: Words = "",
    text: Words = "",
    after: Words = "",
    limit: Count = 100,
) -> Response:
    """Jobs, newest first; of a past moment, those that were there then."""
    if moment.plain is not None:
        rows: Sequence[Any] = _past_jobs(moment.plain, team=team, state=state, text=text)[:limit]
        return _answer(request, {"at_ms": moment.at_ms, "items": rows, "next": None})
    states = {"": None, "ended": ["succeeded", "failed", "cancelled", "rejected"]}.get(
        state, [state]
    )
    rows = views.job_list(
        after=after, limit=limit, states=states, team=team or None, text=text or None
    )
    following = rows[-1]["key"] if len(rows) == limit else None
    return _answer(request, {"at_ms": moment.at_ms, "items": rows, "next": following})


def _past_jobs(plain: dict[str, Any], *, team: str, state: str, text: str) -> list[dict[str, Any]]:
    rows = [{"state": "queued", **row} for row in plain["queue"]]
    rows += [
        {**row, "node_count": len(row["seats"]), "attempts": row["attempt"], "seats": None}
        for row in plain["placements"]
    ]
    rows.sort(key=lambda row: (-row["submitted_ms"], row["job"]))
    return [
        row
        for row in rows
        if team in ("", row["team"])
        and state in ("", row["state"])
        and text.lower() in row["job"].lower()
    ]


@router.get("/jobs/{job}")
def job(request: Request, job: Name, views: OpenPage, _: Caller, moment: Now) -> Response:
    """A job's life up to the moment: attempts, waits, faults near it, decisions."""
    row = shown(job_or_problem(views, job))
    until = moment.until_ms
    attempts = [shown(r) for r in views.rows("attempts", where={"job": job}, after="", limit=1_000)]
    waits = list(views.page("waits_of", job=job))
    feed = shapes.told_ties(views.feed(before="", limit=500, at_ms=until, job=job))
    nodes = sorted({seat["node"] for each in attempts for seat in each["seats"]})
    since_ms = int(row["submitted_ms"])
    faults = list(views.page("faults_near", nodes=nodes, from_ms=since_ms))
    paths = {r["node"]: r["path"] for r in views.rows("nodes", where={}, after="", limit=10_000)}
    body = {
        "at_ms": moment.at_ms,
        "job": row,
        "attempts": attempts,
        "waits": waits,
        "faults": faults,
        "decisions": feed,
        "paths": {node: paths.get(node, []) for node in nodes},
        "queue": _waiting(views, job, moment),
    }
    return _answer(request, body if until is None else _as_of(body, until, moment.plain or {}))


def _waiting(views: PageViews, job: str, moment: Moment) -> dict[str, Any] | None:
    """Its row of the queue, if it waits."""
    if moment.plain is None:
        rows = shapes.queue_of_view(views.rows("queue", where={"job": job}, after="", limit=1))
    else:
        rows = [r for r in shapes.queue_of_past(moment.plain) if r["job"] == job]
    return rows[0] if rows else None


def _as_of(body: dict[str, Any], until_ms: int, plain: dict[str, Any]) -> dict[str, Any]:
    """The same without what came later."""
    row = body["job"]
    placed = next((r for r in plain["placements"] if r["job"] == row["job"]), None)
    ended_ms = shapes.ms_of(row["ended_at"])
    state = "queued" if body["queue"] else "unknown"
    if placed is not None:
        state = placed["state"]
    elif ended_ms is not None and ended_ms <= until_ms:
        state = row["state"]
    if row["submitted_ms"] > until_ms:
        state = "not yet submitted"
    ended = state == row["state"] and placed is None and not body["queue"]
    late = {} if ended else {"ended_at": None, "exit_code": None, "reason": "", "reason_text": ""}
    return {
        **body,
        "job": {**row, **late, "state": state},
        "attempts": [
            {**each, **_cut(each, until_ms)}
            for each in body["attempts"]
            if each["placed_ms"] <= until_ms
        ],
        "waits": [
            {**each, "to_ms": None if (each["to_ms"] or 0) > until_ms else each["to_ms"]}
            for each in body["waits"]
            if each["from_ms"] <= until_ms
        ],
        "faults": [each for each in body["faults"] if each["from_ms"] <= until_ms],
    }


def _cut(attempt: dict[str, Any], until_ms: int) -> dict[str, Any]:
    """What an attempt did not know yet."""
    later: dict[str, Any] = {
        key: None
        for key in ("started_at", "stopping_at", "ended_at", "checkpoint_at")
        if (shapes.ms_of(attempt[key]) or 0) > until_ms
    }
    if "ended_at" in later:
        later |= {"state": "running", "cause": "", "cause_text": "", "lost_gpu_s": 0}
    return later


@router.get("/nodes")
def nodes(request: Request, views: OpenPage, _: Caller, moment: Now) -> Response:
    """All nodes, in few columns."""
    if moment.plain is None:
        keys = (
            "node", "path", "gpus", "held", "bad", "health", "service", "health_since",
            "health_cause", "service_since", "service_cause", "service_by", "strikes",
        )  # fmt: skip
        found = views.rows("nodes", where={}, after="", limit=10_000)
        rows = [{key: row[key] for key in keys} for row in found]
    else:
        unwell = {
            row["node"]: row for row in _told(views, shapes.unwell(moment.plain), moment.at_ms)
        }
        rows = [
            {**row, "bad": 0, **unwell.get(row["node"], {}), "held": row["used"]}
            for row in moment.plain["nodes"]
        ]
    return _answer(request, {"at_ms": moment.at_ms, "items": rows})


@router.get("/nodes/{node}")
def node(request: Request, node: Name, views: OpenPage, _: Caller, moment: Now) -> Response:
    """A node: what runs there, its faults, and who did what to it."""
    rows = views.rows("nodes", where={"node": node}, after="", limit=1)
    if not rows:
        raise ProblemError("not-found", f"there is no node {node}")
    until = moment.until_ms
    row = shown(rows[0])
    if moment.plain is not None:
        known: list[dict[str, Any]] = moment.plain["nodes"]
        here = [p for p in moment.plain["placements"] if any(s["node"] == node for s in p["seats"])]
        row |= {"bad": 0, "jobs": [p["job"] for p in here], "deadline": None, "maintenance": None}
        for then in _told(views, [r for r in known if r["node"] == node], moment.at_ms):
            row |= then
    faults = [
        shown(each)
        for each in views.rows("faults", where={"node": node}, after="", limit=500)
        if until is None or each["from_ms"] <= until
    ]
    feed = shapes.told_ties(views.feed(before="", limit=300, at_ms=until, node=node))
    body = {"at_ms": moment.at_ms, "node": row, "faults": faults, "decisions": feed}
    return _answer(request, body)


@router.get("/decisions")
def decisions(  # noqa: PLR0913, PLR0917 - parameters of a route
    request: Request,
    views: OpenPage,
    _: Caller,
    moment: Now,
    kinds: Annotated[str, Query(max_length=2_000)] = "",
    job: Words = "",
    node: Words = "",
    team: Words = "",
    before: Words = "",
    limit: Count = 100,
) -> Response:
    """Decisions, newest first, up to the moment."""
    rows = views.feed(
        before=before,
        limit=limit,
        at_ms=moment.until_ms,
        kinds=kinds.split(",") if kinds else None,
        job=job or None,
        node=node or None,
        team=team or None,
    )
    following = rows[-1]["key"] if len(rows) == limit else None
    items = shapes.told_ties(rows)
    return _answer(request, {"at_ms": moment.at_ms, "items": items, "next": following})


def _window(moment: Moment, hours: float) -> tuple[int, int]:
    return moment.at_ms - round(hours * _HOUR_MS), moment.at_ms


@router.get("/usage")
def usage(
    request: Request, views: OpenPage, _: Caller, moment: Now, hours: Hours = 168
) -> Response:
    """GPU-time by account before the moment, in about two hundred steps; none before the first."""
    from_ms, to_ms = _window(moment, hours)
    (span,) = views.page("span")
    from_ms = max(from_ms, span["from_ms"] or from_ms)
    step_s = max(300, round(hours * 3600 / 200 / 300) * 300)
    rows = views.utilization(from_ms=from_ms, to_ms=to_ms, step_s=step_s)
    step_ms = step_s * 1000
    items = [
        [(shapes.ms_of(row["from_at"]) or 0) // step_ms * step_ms, row["account"], row["gpu_ms"]]
        for row in rows
    ]
    return _answer(request, {"from_ms": from_ms, "to_ms": to_ms, "step_s": step_s, "items": items})


@router.get("/shares")
def shares(
    request: Request, views: OpenPage, _: Caller, moment: Now, hours: Hours = 168
) -> Response:
    """What teams got and had a right to before the moment; loans; waits of started jobs."""
    from_ms, to_ms = _window(moment, hours)
    step_ms = max(300_000, round(hours * _HOUR_MS / 160 / 300_000) * 300_000)
    window = {"from_ms": from_ms, "to_ms": to_ms}
    rows = views.page("shares", step_ms=step_ms, **window)
    body = {
        **window,
        "step_ms": step_ms,
        "items": [[r["team"], r["from_ms"], r["delivered"], r["entitled"]] for r in rows],
        "loans": views.page("loans", **window),
        "bands": views.page("bands", **window),
    }
    return _answer(request, body)
