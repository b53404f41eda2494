"""Commands around the simulator: workloads and traces."""

from __future__ import annotations

from pathlib import Path

import click

from gangline.cli.output import say


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
    from gangline.replay.workload import (  # noqa: PLC0415 - only this command needs it
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
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="A CSV file.")
def command_import(*, source_format: str, files: tuple[Path, ...], out: Path) -> None:
    """Turn a public trace into a trace CSV.

    Formats: philly, helios, acme, pai, slurm, csv.
    """
    from gangline.replay.importers import import_trace  # noqa: PLC0415 - only this command

    for line in import_trace(source_format, files, out).lines():
        say(line)
