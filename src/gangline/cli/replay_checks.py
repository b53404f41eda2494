"""Commands of `gangline replay` that judge or compare histories."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gangline.cli.history_options import opened, source_options
from gangline.cli.output import Row, output_options, put_one
from gangline.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command("check")
@source_options
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Stop after so many findings.",
)
@output_options
def command_check(
    *, bus: str | None, cell: str, file: Path | None, most: int, output: str | None
) -> int:
    """Check the decisions alone, without the core: holds, gangs, quotas, ledger, evictions, causes.

    `verify` asks whether these decisions follow by the core; `check` whether the core was right.
    """
    from gangline.replay.check.checker import check  # noqa: PLC0415 - schemas are heavy

    progress = Progress("checking", "batches")
    with opened(bus, cell, file) as source:
        report = check(source, most=most, progress=progress)
    progress.end()
    row = {
        "ok": report.ok,
        "batches": report.batches,
        "decisions": report.decisions,
        "last_seq": report.last_seq,
        "findings": [
            {**asdict(each), "position": str(each.position), "said": str(each)}
            for each in report.findings
        ],
    }
    put_one(row, output=output, key="last_seq", text=_check_lines)
    return 0 if report.ok else 1


def _check_lines(row: Row) -> Iterator[str]:
    """The outcome for people."""
    for finding in row["findings"]:
        yield finding["said"]
    verdict = "are right" if row["ok"] else f"were checked; {len(row['findings'])} findings"
    yield f"{row['decisions']:,} decisions in {row['batches']:,} batches {verdict}"
