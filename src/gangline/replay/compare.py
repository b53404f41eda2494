"""Policies side by side: the same trace, fleet and faults under each, and one page about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gangline.replay.baselines import BASELINES
from gangline.replay.measures.records import BANDS
from gangline.replay.report import About, write_report
from gangline.replay.report.charts import duration, utilization
from gangline.replay.report.page import section, table, write_page
from gangline.replay.report.svg import Bar, bars
from gangline.replay.report.timeline import timeline_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from gangline.replay.measures import Measured

Numbers = dict[str, Any]


class Metric(NamedTuple):
    """A number to compare. of: takes it from the JSON object; text: writes it."""

    words: str
    of: Callable[[Numbers], float]
    text: Callable[[float], str]


def write_reports(
    done: Mapping[str, Measured], folder: Path, *, title: str, command: str
) -> list[Path]:
    """A page for each policy, and above several one that compares them; their paths."""
    if len(done) == 1:
        (name, measured) = next(iter(done.items()))
        return [write_report(measured, _about(name, measured, title, command), folder)]
    paths = [
        write_report(measured, _about(name, measured, title, command), folder / name)
        for name, measured in done.items()
    ]
    return [write_comparison(done, folder, title=title, command=command), *paths]


def write_comparison(
    done: Mapping[str, Measured], folder: Path, *, title: str, command: str
) -> Path:
    """One page with every policy beside the others."""
    first = next(iter(done.values())).numbers
    about = About(
        title=title,
        subtitle=f"{first['jobs']:,} jobs under {len(done)} policies: {', '.join(done)}",
        command=command,
        footnote="Compare ratios: absolute times depend on rules for ties and capacity that no "
        "trace tells.",
    )
    numbers = {name: measured.numbers for name, measured in done.items()}
    body = [
        section("Policies", "", _policies(list(done))),
        section("Side by side", "", _table(numbers)),
        *(_bars(metric, numbers) for metric in METRICS[:9]),
        *(
            section(f"Utilization: {name}", "", utilization(timeline_of(measured.fold)))
            for name, measured in done.items()
        ),
    ]
    return write_page(about, "".join(body), folder)


def _about(name: str, measured: Measured, title: str, command: str) -> About:
    numbers = measured.numbers
    left_out = numbers.get("left_out") or {}
    told = ", ".join(f"{count:,} rows left out: {why}" for why, count in sorted(left_out.items()))
    return About(
        title=title,
        subtitle=f"{numbers['jobs']:,} jobs, policy {name}, seed {numbers.get('seed', '')}",
        command=command,
        footnote=told,
    )


def _policies(names: Sequence[str]) -> str:
    rows = [(name, BASELINES[name].about) for name in names if name in BASELINES]
    return f'<div class="words">{table(("policy", "what it does"), rows)}</div>'


def _table(numbers: Mapping[str, Numbers]) -> str:
    rows = [
        [metric.words, *(metric.text(metric.of(found)) for found in numbers.values())]
        for metric in METRICS
    ]
    return table(("", *numbers), rows)


def _bars(metric: Metric, numbers: Mapping[str, Numbers]) -> str:
    rows = [
        Bar(
            name=name,
            parts=[(f"p{index % 5}", metric.of(found), metric.text(metric.of(found)))],
            note=metric.text(metric.of(found)),
        )
        for index, (name, found) in enumerate(numbers.items())
    ]
    return section(metric.words, "", bars(rows, title=metric.words))


def _wait(band: str, key: str) -> Callable[[Numbers], float]:
    return lambda found: float(found["wait_s"][band][key])


def _slowdown(band: str) -> Callable[[Numbers], float]:
    return lambda found: float(found["slowdown"][band]["mean"])


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _plain(value: float) -> str:
    return f"{value:,.2f}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


METRICS: Final = (
    Metric("allocation", lambda n: n["allocation"], _percent),
    Metric("goodput", lambda n: n["goodput"], _percent),
    Metric("mean wait", _wait("all", "mean"), duration),
    Metric("mean slowdown", _slowdown("all"), _plain),
    *(Metric(f"mean wait, {band}", _wait(band, "mean"), duration) for band in BANDS),
    Metric("worst unfairness of a day", lambda n: n["fairness"]["max_error"], _percent),
    Metric("preemptions", lambda n: n["preemptions"], _count),
    *(Metric(f"p99 wait, {band}", _wait(band, "p99"), duration) for band in BANDS),
    *(Metric(f"mean slowdown, {band}", _slowdown(band), _plain) for band in BANDS),
    Metric("mean time to completion", lambda n: n["jct_s"]["all"]["mean"], duration),
    Metric("makespan", lambda n: n["makespan_s"], duration),
    Metric("gangs at their best level", lambda n: n["placement"]["best_level"], _percent),
    Metric("lost GPU-hours", lambda n: n["lost_gpu_hours"], _count),
    Metric("starved", lambda n: n["starved"], _count),
    Metric("finished", lambda n: n["finished"], _count),
)
