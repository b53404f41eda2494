"""The page: headline numbers, pictures, tables, and the command that made it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final

from gangline.replay.bad_input import BadInputError
from gangline.replay.report import charts
from gangline.replay.report.timeline import timeline_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gangline.replay.measures import Measured

_HERE: Final = "gangline.replay.report"
_PERCENTILES: Final = ("mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the page says of where its history comes from. command: makes the page again."""

    title: str
    subtitle: str
    command: str
    footnote: str = ""


def write_report(measured: Measured, about: About, folder: Path) -> Path:
    """Write `index.html` into a folder, which is made; its path."""
    return write_page(about, report_body(measured), folder)


def write_page(about: About, body: str, folder: Path) -> Path:
    """Put a body into the frame of a page and write it as `index.html`."""
    home = files(_HERE)
    text = Template(home.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(about.title),
        subtitle=escape(about.subtitle),
        command=escape(about.command),
        footnote=escape(about.footnote),
        style=home.joinpath("page.css").read_text(encoding="utf-8"),
        body=body,
    )
    path = folder / "index.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(path, f"cannot be written: {error.strerror}") from error
    return path


def report_body(measured: Measured) -> str:
    """Everything between the head and the foot of a report."""
    numbers = measured.numbers
    timeline = timeline_of(measured.fold)
    return "".join(
        [
            _tiles(numbers),
            section(
                "Utilization",
                "What each GPU did. Shares are of the whole time shown.",
                charts.utilization(timeline),
            ),
            section(
                "Waits",
                "How long jobs waited from submission to their first start.",
                charts.waits(measured) + _spread_table(numbers),
            ),
            section(
                "Where waiting time went",
                "Each moment of a waiting job has one cause.",
                charts.waiting_causes(numbers),
            ),
            section(
                "Fairness",
                "GPU-hours of each team in the loaded window, beside its weighted "
                "share of what it asked for.",
                charts.fairness(measured),
            ),
            section(
                "The fleet over time",
                "One row a domain of the lowest level; the darker, the fuller.",
                charts.fleet_map(measured.fold),
            ),
            section("Queue", "", charts.queue(timeline)),
            section("Lost work and preemptions", "", charts.lost_work(numbers)),
            section("Numbers", "", _headline_table(numbers)),
        ]
    )


def section(title: str, words: str, content: str) -> str:
    """A part of the page with a heading."""
    told = f'<p class="quiet">{escape(words)}</p>' if words else ""
    return f"<section><h2>{escape(title)}</h2>{told}{content}</section>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is names."""
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    whole = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table>{whole}</table></div>'


def _tiles(numbers: Mapping[str, Any]) -> str:
    tiles = (
        (f"{numbers['allocation']:.1%}", "of capacity held by gangs"),
        (f"{numbers['goodput']:.1%}", "of capacity doing kept work"),
        (charts.duration(numbers["wait_s"]["small"]["p90"]), "small jobs' p90 wait"),
        (charts.duration(numbers["wait_s"]["large"]["p90"]), "large gangs' p90 wait"),
        (f"{numbers['fairness']['max_error']:.1%}", "worst unfairness of a day"),
        (f"{numbers['lost_share']:.2%}", "of held time was lost work"),
        (f"{numbers['starved']}", "starved jobs"),
    )
    items = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(words)}</span></div>'
        for value, words in tiles
    )
    return f'<div class="tiles">{items}</div>'


def _spread_table(numbers: Mapping[str, Any]) -> str:
    rows = []
    for key, words in (("wait_s", "wait"), ("jct_s", "from submission to end")):
        for band, spread in numbers[key].items():
            cells = [charts.duration(spread[name]) for name in _PERCENTILES]
            if spread["max"]:
                rows.append([f"{words}, {band}", *cells])
    for band, spread in numbers["slowdown"].items():
        if spread["max"]:
            rows.append([f"slowdown, {band}", *(f"{spread[name]:,.2f}" for name in _PERCENTILES)])
    return table(("", *_PERCENTILES), rows)


def _headline_table(numbers: Mapping[str, Any]) -> str:
    placement, decision = numbers["placement"], numbers.get("decision_ms")
    rows = [
        (
            "jobs / finished / rejected",
            f"{numbers['jobs']:,} / {numbers['finished']:,} / {numbers['rejected']:,}",
        ),
        (
            "loaded window / makespan",
            f"{charts.duration(numbers['window_s'])} / {charts.duration(numbers['makespan_s'])}",
        ),
        ("demand of the window / capacity", f"{numbers['demand']:.1%}"),
        ("allocation / goodput", f"{numbers['allocation']:.2%} / {numbers['goodput']:.2%}"),
        (
            "lost GPU-hours",
            f"{numbers['lost_gpu_hours']:,.1f} ({numbers['lost_share']:.2%} of held)",
        ),
        (
            "preemptions / of them without a start",
            f"{numbers['preemptions']:,} / {numbers['evictions_without_start']:,}",
        ),
        (
            "GPU-hours of preempted attempts",
            f"{numbers['preempted_gpu_hours']:,.0f} ({numbers['preempted_share']:.1%} of held)",
        ),
        ("gangs at their best level", f"{placement['best_level']:.1%}"),
        ("the same, of gangs larger than a node", f"{placement['best_level_multi_node']:.1%}"),
        ("levels crossed, mean", f"{placement['mean_levels_crossed']:.2f}"),
        ("largest unfairness over 24 h", f"{numbers['fairness']['max_error']:.2%}"),
        ("starved", f"{numbers['starved']:,}"),
    ]
    if decision:
        rows.append(
            (
                "decision time p50 / p99 / max",
                " / ".join(f"{decision[name]:.2f} ms" for name in ("p50", "p99", "max")),
            )
        )
    if numbers.get("digest"):
        rows.append(("digest", numbers["digest"][:32]))
    return table(("", "value"), rows)
