"""`gangline top`: the fleet, the teams, what runs and what waits, at a glance and live."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.connection import connect
from gangline.cli.live import look
from gangline.cli.output import for_people, output_options, padded, put_one, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.cli.output import Row
    from gangline.client import Client

_WIDTH: Final = 80
_PARTS: Final = (("held", "█"), ("free", "·"), ("unhealthy", "x"))


@click.command("top")
@click.option("--once", is_flag=True, help="Show it once. [default: live, on a terminal]")
@click.option("-n", "--rows", type=click.IntRange(min=1), default=10, show_default=True,
              help="So many running and waiting jobs.")  # fmt: skip
@output_options
def command_top(*, once: bool, rows: int, output: str | None) -> None:
    """The fleet at a glance: GPUs, teams, what runs and what waits; live on a terminal."""
    live = sys.stdout.isatty() and not once and for_people(output)
    with connect() as client:
        look(
            lambda: _seen(client, rows),
            lambda seen: put_one(seen, output=output, key="at", text=_lines),
            watch=live,
        )


def _seen(client: Client, rows: int) -> dict[str, Any]:
    """Everything that is shown."""
    summary = client.request("GET", "/v1/summary")
    running = client.request("GET", "/v1/jobs", params={"state": "running", "limit": rows})
    waiting = client.request("GET", "/v1/queue", params={"limit": rows})
    lag_s = [row.get("lag_s") or 0.0 for row in summary["projections"]]
    return {
        "at": max((str(row.get("as_of")) for row in summary["projections"]), default=""),
        "lag_s": max(lag_s, default=0.0),
        "fleet": summary["fleet"] or {},
        "queue": summary["queue"],
        "jobs": summary["jobs"],
        "teams": summary["teams"],
        "running": running["items"],
        "waiting": waiting["items"],
    }


def _lines(seen: Row) -> Iterator[str]:
    """The screen."""
    width = min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns)
    yield from (padded(line, width).rstrip() for line in _all_lines(seen, width))


def _all_lines(seen: Row, width: int) -> Iterator[str]:
    fleet = seen["fleet"]
    total = fleet.get("total") or 0
    held = fleet.get("held") or 0
    share = f"{100 * held / total:.0f} %" if total else "no GPUs"
    yield ("" if width < _WIDTH else "gangline  ") + (
        f"{seen['at'][:19].replace('T', ' ')} UTC  {fleet.get('nodes', 0)} nodes"
        f"  views {seen['lag_s']:.1f} s behind"
    )
    words = f"  {held} of {total} GPUs held ({share})"
    yield f"[{_bar(fleet, total, max(10, width - len(words) - 2))}]{words}"
    jobs = {row["state"]: row["jobs"] for row in seen["jobs"]}
    reasons = ", ".join(f"{row['jobs']} {row['reason'] or 'deciding'}" for row in seen["queue"])
    yield f"running {jobs.get('running', 0)}, starting {jobs.get('starting', 0)}, " + (
        f"waiting {jobs.get('queued', 0)}" + (f": {reasons}" if reasons else "")
    )
    yield ""
    yield from _teams(seen["teams"], max(10, 34 - _missing(width)))
    yield ""
    yield _head("RUNNING", width) + "  NODES"
    for row in seen["running"]:
        yield f"{_job(row, width)}  {','.join(row.get('nodes') or ())}"
    yield ""
    yield _head("WAITING", width) + "  WAITED  REASON"
    for row in seen["waiting"]:
        waited = seconds(row.get("waited_s"))
        yield f"{_job(row, width)}  {waited:<6}  {row['reason'] or 'deciding'}"


def _missing(width: int) -> int:
    """How many places a terminal has less than the common width; names give them."""
    return max(0, _WIDTH - width)


def _names(width: int) -> tuple[int, int]:
    """Places for the names of a job and its team."""
    missing = _missing(width)
    return max(12, 25 - missing * 2 // 3), max(8, 13 - missing // 3)


def _head(title: str, width: int) -> str:
    job, team = _names(width)
    return f"{title:<{job}} {'TEAM':<{team}} {'CLASS':<8}{'GPUS':>6}"


def _job(row: Row, width: int) -> str:
    job, team = _names(width)
    names = f"{padded(row['job'], job)} {padded(row['team'], team)}"
    return f"{names} {row['class']:<8}{row['gpus']:>6}"


def _teams(rows: list[Row], width: int) -> Iterator[str]:
    yield f"{'TEAM':<{width}}{'GUARANTEED':>11}{'USED':>7}{'BORROWED':>10}{'LENT':>7}{'QUEUED':>8}"
    for row in rows:
        yield (
            f"{padded(row['team'], width - 1)} {row['guaranteed']:>11}{row['used']:>7}"
            f"{row['borrowed']:>10}{row['lent']:>7}{row['queued']:>8}"
        )


def _bar(fleet: Row, total: int, width: int) -> str:
    """GPUs as a bar: held, free, unhealthy, and blank for what is out of service."""
    if not total:
        return " " * width
    bar = "".join(mark * round(width * (fleet.get(name) or 0) / total) for name, mark in _PARTS)
    return bar[:width].ljust(width)
