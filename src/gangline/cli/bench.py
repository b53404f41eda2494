"""`gangline bench`: how fast it is, as one JSON object."""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.output import say
from gangline.cli.parameters import OutFile
from gangline.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: Final = ("decide", "replay", "end-to-end", "failover", "project", "ask")


@click.command("bench")
@click.argument("names", nargs=-1, required=True, type=click.Choice(NAMES), metavar="NAME…")
@click.option(
    "--nodes", type=click.IntRange(min=1), help="[default: decide, failover 1000, replay 100]"
)
@click.option("--gpus-per-node", type=click.IntRange(min=1), help="decide: [default: 8]")
@click.option("--pending", type=click.IntRange(min=1), help="decide: the queue. [default: 500]")
@click.option("--fill", type=click.FloatRange(0, 1), help="decide: held GPUs. [default: 0.95]")
@click.option("--finished", type=click.IntRange(min=0), help="decide: jobs in the history.")
@click.option("--hours", type=click.IntRange(min=1), help="replay: of the log. [default: 24]")
@click.option("--agents", type=click.IntRange(min=1), help="end-to-end: [default: 1000]")
@click.option("--bus", help="end-to-end, failover: its URL. [default: embedded]")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="project: [default: 2000] ask: [default: 1000000]"
)
@click.option(
    "--database",
    envvar="GANGLINE_DATABASE_URL",
    help="project, ask: Postgres of the views; a cell comes and goes there. [default: embedded]",
)
@click.option("--seed", type=int, help="[default: 1]")
@click.option(
    "--json",
    "file",
    type=OutFile(),
    default=Path("-"),
    show_default=True,
    help="Where the numbers go; - for stdout.",
)
def command_bench(*, names: tuple[str, ...], file: Path, **options: Any) -> None:  # noqa: ANN401
    """Measure decide, replay, end-to-end, failover, project, ask; several give one object."""
    given = {key: value for key, value in options.items() if value is not None}
    done = {name: _run(name, given) for name in dict.fromkeys(names)}
    text = json.dumps(done if len(done) > 1 else next(iter(done.values())), indent=1)
    if str(file) == "-":
        click.echo(text)
    else:
        file.write_text(text + "\n", encoding="utf-8")
        say(f"wrote {file}")


def _run(name: str, given: dict[str, Any]) -> dict[str, Any]:
    progress = Progress(f"bench {name}", _UNITS[name])
    try:
        return _BENCHES[name](given, progress)
    finally:
        progress.end()


def _decide(given: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from gangline.replay.bench_decide import DecideSettings, bench_decide  # noqa: PLC0415

    keys = ("nodes", "gpus_per_node", "pending", "fill", "seed", "finished")
    return bench_decide(DecideSettings(**_only(given, *keys)), progress=progress)


def _replay(given: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from gangline.replay.bench_replay import ReplaySettings, bench_replay  # noqa: PLC0415

    settings = ReplaySettings(**_only(given, "nodes", "hours", "seed"))
    if "nodes" in given:
        # The mission's proportion: 1,900 jobs a day on 1,000 nodes.
        keys = {**_only(given, "nodes", "hours", "seed")}
        settings = ReplaySettings(**keys, jobs_per_day=max(1, given["nodes"] * 1900 // 1000))
    return bench_replay(settings, progress=progress)


def _end_to_end(given: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from gangline.cli.bench_end_to_end import run  # noqa: PLC0415

    return run(progress=progress, **_only(given, "bus", "agents"))


def _failover(given: dict[str, Any], progress: Progress) -> dict[str, Any]:
    from gangline.cli.bench_end_to_end import bus_or_embedded  # noqa: PLC0415
    from gangline.replay.bench_failover import FailoverSettings, bench_failover  # noqa: PLC0415

    with bus_or_embedded(given.get("bus")) as url, TemporaryDirectory() as folder:
        settings = FailoverSettings(
            bus=url, cell=f"bench-{uuid.uuid4().hex[:8]}", **_only(given, "nodes")
        )
        return bench_failover(settings, Path(folder), progress=progress)


def _project(given: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    from gangline.projections.bench import bench_project  # noqa: PLC0415

    return _in_postgres(bench_project, given)


def _ask(given: dict[str, Any], _progress: Progress) -> dict[str, Any]:
    from gangline.projections.bench_ask import bench_ask  # noqa: PLC0415

    return _in_postgres(bench_ask, given)


def _in_postgres(bench: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Run it in the database that was named, or in one that comes and goes."""
    from gangline.cli.bench_end_to_end import embedded_postgres  # noqa: PLC0415

    jobs = _only(given, "jobs")
    if "database" in given:
        return asdict(bench(given["database"], tick=say, **jobs))
    with embedded_postgres() as dsn:
        return asdict(bench(dsn, tick=say, **jobs))


def _only(given: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: given[key] for key in keys if key in given}


_UNITS: Final = {
    "decide": "gangs ended",
    "replay": "batches",
    "end-to-end": "jobs",
    "failover": "changes of leader",
    "project": "jobs",
    "ask": "questions",
}
_BENCHES: Final[dict[str, Callable[[dict[str, Any], Progress], dict[str, Any]]]] = {
    "decide": _decide,
    "replay": _replay,
    "end-to-end": _end_to_end,
    "failover": _failover,
    "project": _project,
    "ask": _ask,
}
