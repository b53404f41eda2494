"""Commands of `gangline replay` that judge or compare histories."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gangline.cli.connection import bus_of_stack, bus_or_stacks
from gangline.cli.history_options import opened, source_options
from gangline.cli.output import Column, Row, output_options, put, put_one
from gangline.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.replay.timetravel import When


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


@click.command("diff")
@click.argument("one", metavar="A", type=click.Path(path_type=Path))
@click.argument("two", metavar="B", type=click.Path(path_type=Path))
@click.option("--at", "when", metavar="T", help="Compare the states at T instead of the decisions.")
@output_options
def command_diff(*, one: Path, two: Path, when: str | None, output: str | None) -> int:
    """Where two log files part: the first batch, decision or field that is another one in B.

    The same log under another policy, quota or fleet: see `gangline replay whatif`.
    """
    from gangline.replay.diff import first_difference, state_differences  # noqa: PLC0415
    from gangline.replay.history import FileSource  # noqa: PLC0415 - schemas are heavy

    sources = FileSource(one), FileSource(two)
    if when is None:
        found = first_difference(*sources)
        row: Row = {"same": found is None, "difference": found}
    else:
        moment = moment_of(when)
        from gangline.replay.timetravel import state_at  # noqa: PLC0415 - the core is heavy

        states = [state_at(source, moment) for source in sources]
        differences = state_differences(*states)
        row = {"same": not differences, "differences": differences}
    put_one(row, output=output, key="same", text=_diff_lines)
    return 0 if row["same"] else 1


def moment_of(when: str) -> When:
    """A moment, or a usage error."""
    from gangline.api.moment import parse_moment  # noqa: PLC0415 - the core is heavy

    try:
        return parse_moment(when, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _diff_lines(row: Row) -> Iterator[str]:
    """The outcome for people."""
    if row["same"]:
        yield "no difference"
    for each in row.get("differences", ()):
        yield f"{each['path']}: {each['a']} / {each['b']}"
    found = row.get("difference")
    if found is not None:
        yield f"{found['position']}: {found['what']} of batch {found['seq']} differs"
        yield f"  A: {found['a']}"
        yield f"  B: {found['b']}"


@click.command("whatif")
@source_options
@click.option("--at", "when", metavar="T", required=True, help="Where the history forks.")
@click.option("--until", metavar="T", help="How far the fork goes. [default: the history's end]")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    required=True,
    metavar="KEY=VALUE",
    help="What is otherwise: a policy key, team.NAME.guaranteed (borrow, lend, weight), "
    "node.NAME=withdrawn (cordoned), nodes=+N. (Again for more.)",
)
@output_options
def command_whatif(
    *,
    bus: str | None,
    cell: str,
    file: Path | None,
    when: str,
    until: str | None,
    pairs: tuple[str, ...],
    output: str | None,
) -> None:
    """Fork history at T under another quota, policy or fleet: who wins and loses, and how much.

    Both sides are simulated from the same state with the same jobs, programs and faults.
    """
    from gangline.replay.whatif import told, what_if  # noqa: PLC0415 - the core is heavy
    from gangline.replay.whatif_changes import parse_changes  # noqa: PLC0415
    from gangline.replay.whatif_past import read_past  # noqa: PLC0415
    from gangline.scheduler import core  # noqa: PLC0415

    end_ms = None if until is None else moment_of(until).at_ms
    if until is not None and end_ms is None:
        raise click.UsageError("--until is a time, or milliseconds since the epoch")
    with opened(bus, cell, file) as source:
        past = read_past(source, moment_of(when), until_ms=end_ms)
    if past.until_ms <= past.at_ms:
        raise click.UsageError("nothing comes after --at: name an --until that is later")
    changes = parse_changes(pairs, core.load(past.chunks))
    put_one(what_if(past, changes), output=output, key="seq", text=told)


@click.command("archive")
@click.argument("place")
@bus_or_stacks
@click.option("--before", metavar="T", help="Only what was appended before T. [default: all]")
@output_options
def command_archive(
    *, place: str, bus: str | None, cell: str, before: str | None, output: str | None
) -> None:
    """Copy what the archive in PLACE lacks of a live log; `--archive PLACE` reads across both.

    PLACE: a folder, or the URL of a bucket (s3://bucket/prefix).
    """
    from gangline.events.bus import open_log  # noqa: PLC0415 - drivers are heavy
    from gangline.replay.archive import Archive  # noqa: PLC0415

    before_ms = None if before is None else moment_of(before).at_ms
    log = open_log(bus or bus_of_stack(), cell, environ=os.environ)
    try:
        written = Archive(place, cell=cell).append(log, before_ms=before_ms)
    finally:
        log.close()
    rows = [
        {
            "file": each.name,
            "partition": f"{each.partition.topic}-{each.partition.partition}",
            "first": each.first,
            "last": each.last,
        }
        for each in written
    ]
    columns = [Column(name, name.upper()) for name in ("partition", "first", "last", "file")]
    put(rows, output=output, columns=columns, key="file")
