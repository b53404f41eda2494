"""The pictures of a report, each from a measured history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gangline.replay.measures.records import BANDS, band_of
from gangline.replay.report.svg import Axis, Bar, Plot, bars, legend
from gangline.replay.report.timeline import STATES, Timeline, block_map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gangline.replay.measures import Fold, Measured

BAND_WORDS: Final = {"small": "1-7 GPUs", "medium": "8-127 GPUs", "large": "128+ GPUs"}
CAUSES: Final = (
    ("dependency", "another job"),
    ("hold", "held"),
    ("borrow_limit", "quota"),
    ("starting", "starting"),
    ("fair_share", "order"),
    ("reservation", "reservation"),
    ("nodes_unhealthy", "unhealthy nodes"),
    ("topology", "topology"),
    ("capacity", "capacity"),
    ("unsaid", "not said yet"),
)


def utilization(timeline: Timeline) -> str:
    """GPUs by what they do, stacked, over time."""
    most = max(timeline.capacity, default=1.0) or 1.0
    plot = Plot(
        title="GPUs by what they do over time",
        x=_days_axis(timeline.days),
        y=Axis(low=0, high=most),
        height=320,
        x_text=_day,
        y_text=lambda gpus: f"{gpus:,.0f}",
    )
    base = [0.0] * len(timeline.days)
    shown = []
    for key, words in STATES:
        heights = timeline.states[key]
        if not any(heights):
            continue
        top = [low + height for low, height in zip(base, heights, strict=True)]
        mean = sum(heights) / len(heights) / most
        plot.area(timeline.days, base, top, css=f"s-{key}", label=f"{words}: {mean:.1%} on average")
        shown.append((f"s-{key}", f"{words} {mean:.1%}"))
        base = top
    return plot.svg() + legend(shown)


def waits(measured: Measured) -> str:
    """What share of each band's jobs had started after a wait of so long."""
    waits_s = {band: _waits_s(measured.fold, band) for band in BANDS}
    longest = max((values[-1] for values in waits_s.values() if values), default=0.0)
    plot = Plot(
        title="Share of jobs that had started, by wait",
        x=Axis(low=1, high=max(10.0, longest * 1.1), log=True),
        y=Axis(low=0, high=1),
        x_text=duration,
        y_text=lambda share: f"{share:.0%}",
        x_ticks=[s for s in _NICE_S if s <= max(10.0, longest * 1.1)],
    )
    for band, values in waits_s.items():
        if values:
            xs = [1.0, *(max(1.0, value) for value in values)]
            ys = [0.0, *((index + 1) / len(values) for index in range(len(values)))]
            plot.line(xs, ys, css=f"l-{band}", label=BAND_WORDS[band])
    words = [(f"l-{band}", f"{band} ({BAND_WORDS[band]})") for band in BANDS if waits_s[band]]
    return plot.svg() + legend(words)


def fairness(measured: Measured) -> str:
    """What each team got, beside what it was entitled to, in GPU-hours."""
    rows = []
    for team, hours in measured.numbers["fairness"]["per_team"].items():
        got, due = hours["delivered_gpu_hours"], hours["entitled_gpu_hours"]
        more = f"{(got - due) / due:+.1%}" if due else ""
        rows.append(
            Bar(
                name=team,
                parts=[("delivered", got, f"delivered {got:,.0f} GPU-hours")],
                note=f"{got:,.0f} got",
            )
        )
        rows.append(
            Bar(
                name="",
                parts=[("entitled", due, f"entitled to {due:,.0f} GPU-hours")],
                note=f"{due:,.0f} due  {more}",
            )
        )
    words = [("delivered", "delivered GPU-hours"), ("entitled", "entitled GPU-hours")]
    return bars(rows, title="Delivered and entitled GPU-hours by team") + legend(words)


def fleet_map(fold: Fold) -> str:
    """How full each lowest domain of the fleet was over time."""
    names, days, rows = block_map(fold)
    count = len(names)
    plot = Plot(
        title="How full each part of the fleet was over time",
        x=Axis(low=0, high=max(days[-1], 1e-9)),
        y=Axis(low=0, high=count),
        height=max(140, min(520, 40 + 9 * count)),
        x_text=_day,
        y_text=lambda at: names[count - 1 - int(at)],
        y_ticks=[row + 0.5 for row in range(0, count, -(-count // 14))],
    )
    for index, row in enumerate(rows):
        low = count - 1 - index
        for start, end, share in _runs(days, row):
            label = f"{names[index]}, day {start:.1f} to {end:.1f}: {share:.0%} held"
            plot.cell(start, end, low + 0.04, low + 0.96, opacity=share, label=label)
    return plot.svg() + legend([("heat0", "empty"), ("heat", "all GPUs held")])


def queue(timeline: Timeline) -> str:
    """Waiting jobs, and the GPUs that they ask for, over time."""
    pictures = []
    for heights, words, css in (
        (timeline.waiting_jobs, "jobs waiting", "l-small"),
        (timeline.waiting_gpus, "GPUs that waiting jobs ask for", "l-large"),
    ):
        plot = Plot(
            title=f"{words} over time",
            x=_days_axis(timeline.days),
            y=Axis(low=0, high=max(heights, default=0) or 1.0),
            height=170,
            x_text=_day,
            y_text=lambda value: f"{value:,.0f}",
        )
        plot.line(timeline.days, heights, css=css, label=words)
        pictures.append(f"<h3>{words}</h3>{plot.svg()}")
    return "".join(pictures)


def lost_work(numbers: Mapping[str, Any]) -> str:
    """Lost GPU-hours by cause, and preemptions by cause."""
    lost = numbers["lost_gpu_hours_by_cause"]
    preempted = numbers["preemptions_by_cause"]
    hours = [
        Bar(
            name=cause,
            parts=[("s-lost", value, f"{value:,.1f} GPU-hours")],
            note=f"{value:,.1f} GPU-hours",
        )
        for cause, value in sorted(lost.items(), key=lambda item: -item[1])
    ]
    counts = [
        Bar(name=cause, parts=[("s-starting", value, f"{value:,}")], note=f"{value:,} gangs")
        for cause, value in preempted.items()
    ]
    nothing = '<p class="quiet">none</p>'
    return (
        "<h3>work lost, by what stopped it</h3>"
        + (bars(hours, title="Lost GPU-hours by cause") if hours else nothing)
        + "<h3>preemptions, by right</h3>"
        + (bars(counts, title="Preemptions by cause") if counts else nothing)
    )


def waiting_causes(numbers: Mapping[str, Any]) -> str:
    """Where the waiting time of each band went."""
    rows = []
    for band in BANDS:
        hours = numbers["waiting"][band]
        total = sum(hours.values())
        parts = [
            (f"c-{cause}", hours[cause] / total, f"{words}: {hours[cause]:,.0f} job-hours")
            for cause, words in CAUSES
            if hours.get(cause)
        ]
        rows.append(Bar(name=band, parts=parts, note=f"{total:,.0f} job-hours"))
    used = [
        (f"c-{cause}", words)
        for cause, words in CAUSES
        if any(numbers["waiting"][band].get(cause) for band in BANDS)
    ]
    return bars(rows, title="Waiting time by cause", most=1.0) + legend(used)


_NICE_S: Final = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)


def duration(seconds: float) -> str:
    """A time in its largest unit."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            value = seconds / size
            return (
                f"{value:.0f} {unit}"
                if value >= 10 or value == int(value)
                else f"{value:.1f} {unit}"
            )
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"


def _waits_s(fold: Fold, band: str) -> list[float]:
    """Waits of a band in ascending order, at most some hundreds of them."""
    waited = sorted(
        (job.first_start_ms - job.submitted_ms) / 1000
        for job in fold.jobs.values()
        if job.first_start_ms and band_of(job.gpus) == band
    )
    if len(waited) <= 400:
        return waited
    return [waited[min(len(waited) - 1, index * len(waited) // 400)] for index in range(1, 401)]


def _runs(days: Sequence[float], row: Sequence[float]) -> list[tuple[float, float, float]]:
    """Neighbouring cells of nearly one value together, so that the picture stays small."""
    runs: list[tuple[float, float, float]] = []
    for index, value in enumerate(row):
        share = round(value * 20) / 20
        if runs and runs[-1][2] == share:
            runs[-1] = (runs[-1][0], days[index + 1], share)
        else:
            runs.append((days[index], days[index + 1], share))
    return [run for run in runs if run[2] > 0]


def _days_axis(days: Sequence[float]) -> Axis:
    return Axis(low=days[0] if days else 0.0, high=days[-1] if len(days) > 1 else 1.0)


def _day(value: float) -> str:
    return f"day {value:g}"
