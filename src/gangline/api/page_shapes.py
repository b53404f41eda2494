"""What the page's pictures are made of, in one shape for the present and for any past moment.

The present comes from views, the past from folded decisions (`replay/timetravel.py`); both become
the same rows here, so that the page draws one as it draws the other. All times are milliseconds
since the epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from gangline.api.durations import show_ms
from gangline.replay.ties import cost_in_words, order_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Row = dict[str, Any]

SCHEDULER: Final = "scheduler"
LETTERS: Final = {"starting": "s", "running": "r", "preempting": "x", "stopping": "x"}
QUEUE_ORDERS: Final = (
    "position", "job", "team", "class", "gpus", "waited_s", "reason", "start_p50_ms",
)  # fmt: skip
_CLASSES: Final = ("low", "normal", "high", "urgent")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node as the map needs it. marks: one letter a GPU, `.` where gangs may stand."""

    node: str
    path: tuple[str, ...]
    marks: str
    health: str
    service: str


def ms_of(moment: datetime | None) -> int | None:
    """Milliseconds of a time of a view."""
    return None if moment is None else round(moment.timestamp() * 1000)


def nodes_of_view(columns: Mapping[str, Sequence[Any]]) -> list[NodeRow]:
    """Nodes from the columns of the fleet's view; what gangs hold is drawn from the gangs."""
    keys = ("nodes", "paths", "gpu_states", "health", "service")
    keep = str.maketrans("rsx", "...")
    return [
        NodeRow(
            node=node, path=tuple(path), marks=marks.translate(keep), health=health, service=service
        )
        for node, path, marks, health, service in zip(*(columns[k] for k in keys), strict=True)
    ]


def nodes_of_past(plain: Mapping[str, Any]) -> list[NodeRow]:
    """Nodes of a past moment."""
    return [
        NodeRow(
            node=row["node"],
            path=tuple(row["path"]),
            marks="".join("b" if i in row["bad"] else "." for i in range(row["gpus"])),
            health=row["health"],
            service=row["service"],
        )
        for row in plain["nodes"]
    ]


def fleet_shape(nodes: Iterable[NodeRow], gangs: Sequence[Mapping[str, Any]]) -> Row:
    """The whole fleet, small: runs of like GPUs in the order of the tree.

    nodes: names by block. runs: [GPUs, letter, index into gangs or -1]. gangs: [job, team, GPUs].
    away: health and service of nodes that take no work.
    """
    ordered = sorted(nodes, key=lambda row: (_natural(row.path), _natural((row.node,))))
    marks = {row.node: list(row.marks) for row in ordered}
    owner = {row.node: [-1] * len(row.marks) for row in ordered}
    for index, gang in enumerate(gangs):
        letter = LETTERS.get(gang["state"], "r")
        for seat in gang["seats"]:
            for gpu in seat["gpus"] if seat["node"] in marks else ():
                marks[seat["node"]][gpu] = letter
                owner[seat["node"]][gpu] = index
    flat = [pair for row in ordered for pair in zip(marks[row.node], owner[row.node], strict=True)]
    return {
        "blocks": [
            {"path": list(path), "nodes": [row.node for row in rows], "gpus": None}
            for path, rows in ((p, list(g)) for p, g in groupby(ordered, key=lambda r: r.path))
        ],
        "sizes": [[len(list(g)), size] for size, g in groupby(len(r.marks) for r in ordered)],
        "runs": [[len(list(g)), letter, at] for (letter, at), g in groupby(flat)],
        "gangs": [
            [gang["job"], gang["team"], sum(len(seat["gpus"]) for seat in gang["seats"])]
            for gang in gangs
        ],
        "away": {
            row.node: [row.health, row.service]
            for row in ordered
            if (row.health, row.service) != ("well", "open")
        },
    }


def _natural(names: Iterable[str]) -> tuple[tuple[tuple[int, str], ...], ...]:
    """A key that sorts `b2` before `b10`."""
    return tuple(_pieces(name) for name in names)


def _pieces(name: str) -> tuple[tuple[int, str], ...]:
    pieces = ("".join(group) for _, group in groupby(name, key=str.isdecimal))
    return tuple((int(each), "") if each.isdecimal() else (-1, each) for each in pieces)


def queue_of_view(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The queue as the view has it."""
    return [
        {
            **{key: row[key] for key in ("job", "team", "class", "gpus", "position")},
            "submitted_ms": ms_of(row["submitted_at"]),
            "waited_s": row["waited_s"],
            "reason": row["reason"] or "",
            "reason_text": row["reason_text"] or "",
            "start_p50_ms": ms_of(row["estimated_start_p50"]),
            "start_p90_ms": ms_of(row["estimated_start_p90"]),
            "reservation": row.get("reservation") or "",
            "held": bool(row.get("held")),
        }
        for row in rows
    ]


def queue_of_past(plain: Mapping[str, Any]) -> list[Row]:
    """The queue of a past moment; its plans had no measured error then."""
    return [
        {
            **{key: row[key] for key in ("job", "team", "class", "gpus", "position")},
            "submitted_ms": row["submitted_ms"],
            "waited_s": row["waited_ms"] / 1000,
            "reason": row["reason"],
            "reason_text": row["reason_text"],
            "start_p50_ms": row["reserved_start_ms"],
            "start_p90_ms": None,
            "reservation": "plan" if row["reserved_start_ms"] is not None else "",
            "held": row["reason"] == "hold",
        }
        for row in plain["queue"]
    ]


def queue_page(
    rows: Sequence[Row], *, wanted: Mapping[str, str], order: str, first: int, count: int
) -> Row:
    """Some rows of a filtered and sorted queue, and how many there are of each kind."""
    text = wanted.get("text", "").lower()
    equal = {key: value for key, value in wanted.items() if value and key != "text"}
    found = [
        row
        for row in rows
        if all(row[key] == value for key, value in equal.items()) and text in row["job"].lower()
    ]
    key = order.removeprefix("-")
    found.sort(key=lambda row: _sortable(key, row[key]), reverse=order.startswith("-"))
    return {
        "total": len(rows),
        "matching": len(found),
        "gpus": sum(row["gpus"] for row in found),
        "items": found[first : first + count],
        "facets": {
            name: dict(sorted(Counter(row[name] for row in rows).items()))
            for name in ("team", "reason", "class")
        },
    }


def _sortable(key: str, value: Any) -> Any:  # noqa: ANN401 - a column's
    """Nothing stands last; classes by their rank."""
    if key == "class":
        return _CLASSES.index(value)
    if key == "start_p50_ms":
        return value if value is not None else 1 << 62
    return value


def teams_of_past(plain: Mapping[str, Any]) -> list[Row]:
    """Teams of a past moment as the view names their columns."""
    running = Counter(row["team"] for row in plain["placements"])
    return [
        {
            **{
                key: row[key]
                for key in (
                    "team", "guaranteed", "weight", "used", "guaranteed_used", "borrowed", "lent",
                    "queued", "by_model",
                )
            },
            "parent": row["parent"] or None,
            "borrow_limit": None if row["borrow"] < 0 else row["borrow"],
            "lend_limit": None if row["lend"] < 0 else row["lend"],
            "running": running[row["team"]],
        }
        for row in plain["teams"]
    ]  # fmt: skip


def numbers_of_past(plain: Mapping[str, Any]) -> Row:
    """The header's numbers of a past moment."""
    fleet = dict(plain["fleet"])
    fleet["total"] = sum(row["gpus"] for row in plain["nodes"])
    fleet["nodes"] = len(plain["nodes"])
    waiting = Counter(row["reason"] for row in plain["queue"])
    gpus: Counter[str] = Counter()
    for row in plain["queue"]:
        gpus[row["reason"]] += row["gpus"]
    states = Counter(row["state"] for row in plain["placements"])
    states["queued"] = len(plain["queue"])
    return {
        "fleet": fleet,
        "queue": [{"reason": r, "jobs": n, "gpus": gpus[r]} for r, n in sorted(waiting.items())],
        "jobs": [{"state": state, "jobs": count} for state, count in sorted(states.items())],
    }


def alarms(rows: Iterable[Mapping[str, Any]], out: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Nodes that need a look, newest trouble first, with why GPUs of them are out and since when.

    out: rows of `page_out` of the same moment.
    """
    found = {each["node"]: each for each in out}
    nothing = {"kinds": "", "from_ms": None}
    made = [
        {**row, "out_cause": fault["kinds"], "out_since": fault["from_ms"]}
        for row in rows
        for fault in (found.get(row["node"], nothing) if row["bad"] else nothing,)
    ]
    return sorted(made, key=lambda row: (-_since(row), row["node"]))


def _since(row: Row) -> int:
    """Since when the worst of a node's troubles holds, in milliseconds; 0: always."""
    key = "out_since"
    if row["health"] != "well":
        key = "health_since"
    elif row["service"] != "open":
        key = "service_since"
    since = row[key]
    return ms_of(since) or 0 if isinstance(since, datetime) else int(since or 0)


def unwell(plain: Mapping[str, Any]) -> list[Row]:
    """The nodes of a past moment that needed a look."""
    return [
        row
        for row in plain["nodes"]
        if row["health"] != "well" or row["service"] != "open" or row["bad"]
    ]


_CONDITIONS: Final = {"NodeHealthChanged": "health", "NodeServiceChanged": "service"}
_UNTOLD: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("health_since", "service_since")),
    **dict.fromkeys(("health_cause", "service_cause", "service_by"), ""),
}


def conditions(story: Iterable[Mapping[str, Any]]) -> dict[str, Row]:
    """Why each node was as it was, since when, and who asked for it.

    story: rows of `page_conditions`, in order.
    """
    found: dict[str, Row] = {}
    words: dict[tuple[str, str], str] = {}
    for each in story:
        row = found.setdefault(each["node"], dict(_UNTOLD))
        name, detail = _CONDITIONS[each["kind"]], each["detail"]
        changed = words.get((each["node"], name)) != detail[name]
        words[each["node"], name] = detail[name]
        row[f"{name}_cause"] = detail.get("cause", "")
        if changed:
            row[f"{name}_since"] = each["at_ms"]
        # Where the scheduler carries out what somebody asked for, whoever asked stands there.
        if name == "service" and (changed or detail.get("by") != SCHEDULER):
            row["service_by"] = detail.get("by", "")
    return found


def told(rows: Iterable[Row], story: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Nodes of a past moment with what was known of their condition then."""
    found = conditions(story)
    return [{**row, "bad": len(row["bad"]), **found.get(row["node"], _UNTOLD)} for row in rows]


def told_ties(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Decisions, each with what broke its tie in words; the key itself stays in the certificate."""
    return [{**row, "tie": _tie(row)} for row in rows]


def _tie(row: Mapping[str, Any]) -> str:
    tie = str(row["detail"].get("certificate", {}).get("tie") or "")
    if not tie:
        return ""
    if row["kind"] == "GangPreempted":
        return f"cost: {cost_in_words(tie, duration=show_ms)}"
    return f"order: {order_in_words(tie)}"


def standing(rows: Iterable[Mapping[str, Any]]) -> Row:
    """How far the views are, the one that is furthest back; from the rows of `projection`."""
    views = list(rows)
    stuck = [f"{row['view']}: {row['problem']}" for row in views if row["problem"]]
    return {
        "at_ms": min((ms_of(row["as_of"]) or 0 for row in views), default=0) or None,
        "lag_s": max((float(row["lag_s"]) for row in views), default=0.0),
        "lag_events": max((int(row["lag_events"]) for row in views), default=0),
        "looked_ms": max((ms_of(row["checked_at"]) or 0 for row in views), default=0),
        "problem": stuck[0] if stuck else "",
    }
