"""Looking again and again (`--watch`), and looking back (`--at`)."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gangline.cli.output import Row
    from gangline.client import Client

Seen = TypeVar("Seen")
EVERY_S: Final = 2.0


def watch_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`-w`, `--watch`, as the argument `watch`."""
    return click.option(
        "-w", "--watch", is_flag=True, help=f"Look again every {EVERY_S:g} s, until interrupted."
    )(function)


def at_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--at`, as the argument `at`."""
    return click.option(
        "--at",
        help="As it was then: a time (`03:00`: the last), `10m` (ago), milliseconds, or seq:N.",
    )(function)


def look(fetch: Callable[[], Seen], show: Callable[[Seen], None], *, watch: bool) -> None:
    """Show what is there; with `watch` for ever, each time in place of the last on a terminal."""
    show(fetch())
    while watch:
        time.sleep(EVERY_S)
        seen = fetch()
        if sys.stdout.isatty():
            click.clear()
        else:
            click.echo()
        show(seen)
        sys.stdout.flush()


def state_at(client: Client, at: str) -> dict[str, Any]:
    """The whole state at a moment."""
    found: dict[str, Any] = client.request("GET", "/v1/state", params={"at": at})
    return found


def queue_at(client: Client, at: str) -> list[Row]:
    """What waited then, in order, with the columns of `queue`."""
    state = state_at(client, at)
    return [_job(row, "queued", state["at_ms"]) for row in state["queue"]]


def jobs_at(client: Client, at: str) -> list[Row]:
    """The jobs that had not ended then, newest first."""
    state = state_at(client, at)
    rows = [_job(row, "queued", state["at_ms"]) for row in state["queue"]]
    rows += [_job(row, row["state"], state["at_ms"]) for row in state["placements"]]
    return sorted(rows, key=lambda row: row["number"], reverse=True)


def job_at(client: Client, job: str, at: str) -> Row:
    """One job that had not ended then."""
    from gangline.api.nearest import nearest  # noqa: PLC0415 - standard library only
    from gangline.client import NotFoundError  # noqa: PLC0415 - HTTP is heavy

    rows = {row["job"]: row for row in jobs_at(client, at)}
    if job not in rows:
        raise NotFoundError(f"at that time there was no live job {job}{nearest(job, rows)}")
    return rows[job]


def teams_at(client: Client, at: str) -> list[Row]:
    """Teams as they were."""
    return [
        {**row, "borrow_limit": _limit(row["borrow"]), "lend_limit": _limit(row["lend"])}
        for row in state_at(client, at)["teams"]
    ]


def _limit(gpus: int) -> int | None:
    return None if gpus < 0 else gpus


def nodes_at(client: Client, at: str) -> list[Row]:
    """Nodes as they were, with what ran on them."""
    state = state_at(client, at)
    jobs: dict[str, list[str]] = {}
    for row in state["placements"]:
        for seat in row["seats"]:
            jobs.setdefault(seat["node"], []).append(row["job"])
    return [
        {
            **node,
            "held": node["used"],
            "free": _free(node),
            "jobs": jobs.get(node["node"], []),
        }
        for node in state["nodes"]
    ]


def _free(node: Row) -> int:
    """GPUs for new work: none where the node takes none."""
    open_and_well = node["health"] == "well" and node["service"] == "open"
    return max(0, node["gpus"] - node["used"] - len(node["bad"])) if open_and_well else 0


def _job(row: Row, state: str, at_ms: int) -> dict[str, Any]:
    """A row of the state with the names of the views; `age_s` and `starts_in_s` count from then."""
    start_ms = row.get("reserved_start_ms")
    return {
        **row,
        "state": state,
        "submitted_at": _time(row["submitted_ms"]),
        "age_s": (at_ms - row["submitted_ms"]) / 1_000,
        "attempts": row["attempt"],
        "wait_s": _wait_s(row),
        "estimated_start_p50": _time(start_ms),
        "starts_in_s": None if not start_ms else (start_ms - at_ms) / 1_000,
        "nodes": list(dict.fromkeys(_nodes(row))),
    }


def _nodes(row: Row) -> Iterator[str]:
    yield from (seat["node"] for seat in row.get("seats", ()))


def _wait_s(row: Row) -> float | None:
    started_ms = row.get("started_ms")
    return (started_ms - row["submitted_ms"]) / 1_000 if started_ms else None


def _time(milliseconds: int | None) -> str | None:
    return None if not milliseconds else datetime.fromtimestamp(milliseconds / 1e3, UTC).isoformat()
