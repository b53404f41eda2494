"""Commands around the simulator: workloads and traces."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.output import Column, put, say
from gangline.cli.parameters import OutFile
from gangline.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gangline.replay.simulate import Simulation

FAULTS: Final = (
    "none, rsc1, rsc2, failures per 1,000 node-days, or a CSV file; "
    "with +groups, +lemons, +jobs, +stragglers."
)


@click.command("workload")
@click.option("--nodes", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--jobs-per-day", type=click.IntRange(min=1), default=1900, show_default=True)
@click.option("--days", type=click.IntRange(min=1), default=14, show_default=True)
@click.option("--load", type=float, default=1.1, show_default=True, help="Demand over capacity.")
@click.option("--teams", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="A folder.")
def command_workload(*, out: Path, **fields: int) -> None:
    """Make up a workload: trace.csv, fleet.toml and teams.toml."""
    from gangline.replay.workload import (  # noqa: PLC0415
        WorkloadSettings,
        make_workload,
        write_workload,
    )

    workload = make_workload(WorkloadSettings(**fields))
    write_workload(workload, out)
    say(f"wrote {len(workload.jobs):,} jobs for {workload.fleet.gpus:,} GPUs to {out}")


@click.command("import")
@click.argument("source_format", metavar="FORMAT")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", type=OutFile(), required=True, help="A CSV file.")
def command_import(*, source_format: str, files: tuple[Path, ...], out: Path) -> None:
    """Turn a public trace into a trace CSV.

    Formats: philly, helios, acme, pai, slurm, csv.
    """
    from gangline.replay.importers import import_trace  # noqa: PLC0415

    for line in import_trace(source_format, files, out).lines():
        say(line)


@click.command("simulate")
@click.option("--trace", type=click.Path(path_type=Path), required=True, help="CSV, or .csv.gz.")
@click.option("--fleet", type=click.Path(path_type=Path), required=True, help="TOML.")
@click.option("--teams", type=click.Path(path_type=Path), help="TOML. [default: equal shares]")
@click.option("--policy", type=click.Path(path_type=Path), help="TOML of policy keys.")
@click.option("--faults", default="none", show_default=True, help=FAULTS)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--checkpoint",
    default="30m",
    show_default=True,
    help="Interval of jobs whose row names none; 0: they cannot save.",
)
@click.option(
    "--speedup-load",
    type=float,
    default=1.0,
    show_default=True,
    help="Jobs arrive so many times faster.",
)
@click.option("--limit-jobs", type=int, help="Only the first so many jobs.")
@click.option("--compare", help="Policies side by side, like fifo,backfill,gangline.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False, writable=True),
    help="A folder for a page with pictures.",
)
@click.option("--log", type=OutFile(), help="A file for the whole history.")
@click.option(
    "--json",
    "file",
    type=OutFile(),
    help="A file for the numbers; - for stdout.",
)
def command_simulate(
    *,
    checkpoint: str,
    compare: str | None,
    report: Path | None,
    file: Path | None,
    **fields: Any,  # noqa: ANN401
) -> None:
    """Run a trace on a fleet through the real core, on simulated time."""
    from gangline.replay.baselines import GANGLINE, parse_baselines  # noqa: PLC0415
    from gangline.replay.compare import write_reports  # noqa: PLC0415
    from gangline.replay.simulate import run  # noqa: PLC0415
    from gangline.replay.simulation_input import SimulationSettings, read_inputs  # noqa: PLC0415

    inputs = read_inputs(SimulationSettings(checkpoint_ms=_interval_ms(checkpoint), **fields))
    for line in inputs.trace.left_out_lines():
        say(line)
    done = {}
    for baseline in parse_baselines(compare) if compare else (GANGLINE,):
        progress = Progress(f"simulating {baseline.name}", "jobs", total=len(inputs.jobs))
        done[baseline.name] = run(
            inputs,
            baseline=baseline,
            progress=_teller(progress),
            log=fields["log"] if baseline is GANGLINE else None,
        )
        progress.end()
    numbers = {name: measured.numbers for name, measured in done.items()}
    if report is not None:
        title = f"Simulation of {fields['trace'].name}"
        command = shlex.join(["gangline", *sys.argv[1:]])
        for page in write_reports(done, report, title=title, command=command):
            say(f"wrote {page}")
    if file is not None:
        _write_json(numbers if compare else numbers[GANGLINE.name], file)
    if file is None or str(file) != "-":
        put(_side_by_side(numbers), output=None, columns=_columns(numbers), key="number")


def _teller(progress: Progress) -> Callable[[Simulation], None]:
    """What tells how many jobs have ended."""
    return lambda simulation: progress(simulation.done)


def _interval_ms(text: str) -> int:
    """A checkpoint interval: a duration, or 0."""
    from gangline.api.durations import parse_ms  # noqa: PLC0415

    try:
        return 0 if text == "0" else parse_ms(text)
    except ValueError as error:
        raise click.UsageError(f"--checkpoint: {error}") from error


def _write_json(value: object, file: Path) -> None:
    text = json.dumps(value, indent=1)
    if str(file) == "-":
        click.echo(text)
    else:
        file.write_text(text + "\n", encoding="utf-8")


_SHOWN: Final = (
    "jobs", "finished", "makespan_s", "allocation", "goodput", "demand", "lost_gpu_hours",
    "preemptions", "evictions_without_start", "starved", "events", "events_per_s", "wall_s",
    "digest",
)  # fmt: skip
_SPREADS: Final = ("wait_s", "jct_s", "slowdown")


def _side_by_side(numbers: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each number, a column for each policy."""
    for shown in _SHOWN:
        yield {
            "number": shown,
            **{name: _cell(found.get(shown)) for name, found in numbers.items()},
        }
    for spread in _SPREADS:
        for band in ("all", "small", "medium", "large"):
            found = {name: each[spread][band] for name, each in numbers.items()}
            values = {
                name: f"{_rounded(each['p50'])} / {_rounded(each['p99'])}"
                for name, each in found.items()
                if each["p50"] is not None
            }
            yield {"number": f"{spread} {band} p50 / p99", **values}


def _columns(numbers: Mapping[str, object]) -> list[Column]:
    names = [Column(name, name.upper(), _short, right=True) for name in numbers]
    return [Column("number", "NUMBER"), *names]


def _cell(value: object) -> object:
    """The digest is shown by its beginning; `--json` has all of it."""
    return value[:16] if isinstance(value, str) else value


def _rounded(value: float) -> str:
    """Four significant digits, never as a power of ten."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


def _short(value: object) -> str:
    if isinstance(value, float):
        return _rounded(value)
    return "" if value is None else str(value)
