"""Commands that read a history again: scenarios and `gangline replay`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gangline.cli.errors import NOT_FOUND
from gangline.cli.history_options import opened, source_options
from gangline.cli.output import Column, Row, for_people, output_options, put, put_one, say, seconds
from gangline.cli.progress import Progress
from gangline.cli.replay_checks import (
    command_archive,
    command_check,
    command_diff,
    command_whatif,
    moment_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gangline.replay.checkpoints import SignedCheckpoint
    from gangline.replay.verify import Report


@click.command("scenario")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def command_scenario(*, files: tuple[Path, ...]) -> int:
    """Run scenario files on the real core: `FILE: ok`, or where it went otherwise."""
    from gangline.replay.scenario import run_files  # noqa: PLC0415 - the core is heavy

    return run_files(files, sys.stdout)


@click.group("replay")
def command_replay() -> None:
    """Read a history again: verify it, check it, look into it, compare it."""


for _command in (command_check, command_diff, command_whatif, command_archive):
    command_replay.add_command(_command)


@command_replay.command("verify")
@source_options
@click.option(
    "--from",
    "from_seq",
    type=click.IntRange(min=1),
    help="The first batch to check; what is before is only folded. "
    "[default: 1, or the one after the checkpoint]",
)
@click.option("--to", "to_seq", type=click.IntRange(min=1), help="The last one. [default: all]")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    help="A signed checkpoint: the history must hold the very batch that was signed.",
)
@click.option(
    "--key", type=click.Path(path_type=Path), help="The public key (Ed25519, PEM) that signed it."
)
@output_options
def command_verify(  # noqa: PLR0913 - one argument for each option
    *,
    bus: str | None,
    cell: str,
    file: Path | None,
    from_seq: int | None,
    to_seq: int | None,
    checkpoint: Path | None,
    key: Path | None,
    output: str | None,
) -> int:
    """Run the core again over the recorded inputs: every batch must come out byte for byte."""
    from gangline.replay.verify import verify  # noqa: PLC0415 - the core is heavy
    from gangline.scheduler import core  # noqa: PLC0415

    signed = _signed(checkpoint, key)
    progress = Progress("verifying", "batches")
    with opened(bus, cell, file) as source:
        report = verify(
            source, core, from_seq=from_seq, to_seq=to_seq, checkpoint=signed, progress=progress
        )
    progress.end()
    put_one(_verify_row(report), output=output, key="digest", text=_verify_lines)
    return 0 if report.ok else 1


def _signed(checkpoint: Path | None, key: Path | None) -> SignedCheckpoint | None:
    """The checkpoint, its signature checked; None when none was named."""
    from gangline.replay.checkpoints import load_public_key, read_checkpoint  # noqa: PLC0415

    if checkpoint is None and key is None:
        return None
    if checkpoint is None or key is None:
        raise click.UsageError("--checkpoint FILE and --key FILE go together")
    return read_checkpoint(checkpoint, load_public_key(key))


def _verify_row(report: Report) -> Row:
    """The report as data."""
    difference = report.difference
    return {
        "ok": report.ok,
        "first_seq": report.first_seq,
        "last_seq": report.last_seq,
        "steps": report.steps,
        "facts": report.facts,
        "heartbeats": report.heartbeats,
        "decisions": report.decisions,
        "unconsumed_facts": report.unconsumed_facts,
        "unchecked_edges": report.unchecked_edges,
        "seconds": round(report.seconds, 3),
        "events_per_s": round(report.events_per_s),
        "digest": report.digest,
        "difference": None if difference is None else str(difference),
        "diff": "" if difference is None else difference.diff,
        "notes": list(report.notes),
    }


def _verify_lines(row: Row) -> Iterator[str]:
    """The outcome for people."""
    if row["difference"] is not None:
        yield f"DIFFERENT: {row['difference']}"
        yield from row["diff"].splitlines()
    else:
        yield (
            f"verified batches {row['first_seq']} to {row['last_seq']}: "
            f"{row['decisions']:,} decisions from {row['facts']:,} facts are as recorded"
        )
    yield f"  {row['events_per_s']:,} events/s, {row['seconds']} s; digest {row['digest']}"
    if row["unchecked_edges"]:
        yield f"  {row['unchecked_edges']} steps whose heartbeats are no longer kept"
    for note in row["notes"]:
        yield f"  {note}"


@command_replay.command("at")
@click.argument("when", metavar="T")
@source_options
@output_options
def command_at(
    *, when: str, bus: str | None, cell: str, file: Path | None, output: str | None
) -> None:
    """The whole state at T: a time, `03:00`, `10m` (ago), ms since the epoch, seq:N, or now."""
    from gangline.replay.timetravel import state_at  # noqa: PLC0415 - the core

    moment = moment_of(when)
    with opened(bus, cell, file) as source:
        state = state_at(source, moment)
    put_one(state, output=output, key="state_digest", text=_state_lines)


def _state_lines(state: Row) -> Iterator[str]:
    """A state for people: fleet, queue, placements, teams."""
    at = datetime.fromtimestamp(state["at_ms"] / 1_000, UTC)
    yield f"{at:%Y-%m-%d %H:%M:%S} UTC, batch {state['seq']}, term {state['term']}, digest "
    yield f"  {state['state_digest']}"
    yield "fleet: " + ", ".join(f"{name} {value}" for name, value in state["fleet"].items())
    for team in state["teams"]:
        yield (
            f"team {team['team']}: {team['used']} of {team['guaranteed']} GPUs, "
            f"{team['borrowed']} borrowed, {team['lent']} lent, {team['queued']} jobs wait"
        )
        for model, of_it in team["by_model"].items():
            yield f"  {of_it['used']} of {of_it['guaranteed']} GPUs of {model}"
    for row in state["placements"]:
        nodes = ",".join(seat["node"] for seat in row["seats"])
        yield f"{row['state']}: {row['job']} ({row['team']}, {row['gpus']} GPUs) on {nodes}"
    for row in state["queue"]:
        yield (
            f"waits {row['position']}: {row['job']} ({row['team']}, {row['gpus']} GPUs) for "
            f"{seconds(row['waited_ms'] / 1_000)}: {row['reason']} {row['reason_text']}".rstrip()
        )


@command_replay.command("show")
@click.argument("job")
@source_options
@output_options
def command_show(
    *, job: str, bus: str | None, cell: str, file: Path | None, output: str | None
) -> int:
    """A job's whole life, from the log alone."""
    from gangline.replay.show import life_of, told  # noqa: PLC0415 - the core is heavy

    with opened(bus, cell, file) as source:
        lines = life_of(source, job)
    if not lines:
        say(f"gangline replay show: there never was a job {job}")
        return NOT_FOUND
    if for_people(output):
        for line in told(lines):
            click.echo(line)
    else:
        columns = [Column(name, name.upper()) for name in ("seq", "at_ms", "kind", "text")]
        put([asdict(line) for line in lines], output=output, columns=columns, key="seq")
    return 0
