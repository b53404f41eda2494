"""Commands about jobs."""

from __future__ import annotations

import os
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from gangline.cli.completing import job_names, team_names
from gangline.cli.connection import connect
from gangline.cli.job_words import headline, is_now, job_lines
from gangline.cli.live import at_option, job_at, jobs_at, look, queue_at, watch_option
from gangline.cli.outcome import each, words
from gangline.cli.output import (
    Column,
    Row,
    ago,
    ahead,
    for_people,
    nodes_in_words,
    output_options,
    pairs,
    put,
    put_one,
    say,
    seconds,
)
from gangline.events.terms import WaitCause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gangline.client import Client, Submitted

_MOST_JOBS: Final = 1_000_000
_CLASSES: Final = click.Choice(["low", "normal", "high", "urgent"])
_STATES: Final = click.Choice(
    ["queued", "starting", "running", "preempting", "succeeded", "failed", "cancelled", "rejected"]
)
_REASONS: Final = click.Choice([str(cause) for cause in WaitCause])


@click.command("submit")
@click.option("--team", required=True, shell_complete=team_names, help="Whose job it is.")
@click.option("--gpus", type=int, required=True, help="GPUs of the whole gang.")
@click.option("--gpus-per-node", type=int, help="Exactly so many on each node.")
@click.option("--name", help="A name for people; the job's id begins with it.")
@click.option("--id", "key", help="The job's id; the same again is the same job.")
@click.option("--priority", type=_CLASSES, help="Its class. [default: normal]")
@click.option("--limit", help="The job ends after this, like 2h.")
@click.option("--checkpoint", help="It saves at least this often; without: it cannot save.")
@click.option("--grace", help="Between the stop signal and SIGKILL.")
@click.option("--topology", help="any, preferred:LEVEL or required:LEVEL.")
@click.option("--retries", type=int, help="Restarts after its own failures.")
@click.option("--after", multiple=True, help="Wait for this job's success. (Again for more.)")
@click.option("--preemptible", type=click.Choice(["yes", "no"]), help="[default: yes]")
@click.option("--count", type=int, help="So many tasks, ID.1 to ID.COUNT.")
@click.option("--runtime", help="Without a command: hold the GPUs for so long.")
@click.option("--exits", type=int, help="Without a command: the code to end with.")
@click.option("--exits-after", help="Without a command: end after this.")
@click.option("--env", "-e", multiple=True, callback=pairs, help="KEY=VALUE. (Again for more.)")
@click.option("--label", "-l", "labels", multiple=True, callback=pairs, help="KEY=VALUE.")
@click.option("--select", "selector", multiple=True, callback=pairs, help="Node label KEY=VALUE.")
@click.option("--workdir", help="Where it runs. [default: this folder, with a command]")
@click.option(
    "--launcher",
    type=click.Choice(["per-node", "per-gpu", "torchrun", "raw"]),
    help="What starts on each node. [default: per-node]",
)
@click.option(
    "--stop-signal",
    help="Sent first, like TERM, or USR1@90s: 90 s before the end of its grace, which is to be at "
    "least as long (--grace). [default: TERM]",
)
@click.option(
    "--progress-timeout",
    help="Without a sign of progress for so long (a touch of GANGLINE_PROGRESS_FILE, a checkpoint; "
    "output, where it never touches that) it counts as hung, and starts anew; no retry is lost.",
)
@click.option(
    "--at-most-one-writer",
    is_flag=True,
    default=None,
    help="It stops by itself on a node that cannot be reached for a minute.",
)
@click.option("--image", help="Run it in a container of this image.")
@click.option("--wait", "wait_for_end", is_flag=True, help="Wait for its end; exit with its code.")
@click.option("--dry-run", is_flag=True, help="Submit nothing; say when and where it would start.")
@output_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def command_submit(
    *,
    key: str | None,
    output: str | None,
    wait_for_end: bool,
    dry_run: bool,
    **fields: Any,  # noqa: ANN401
) -> int:
    """Submit a job, like `gangline submit --team vision --gpus 8 -- python train.py`.

    Its id goes to stdout. A job that can never start is said to be rejected at once.
    """
    spec = {name: value for name, value in fields.items() if value not in (None, (), {})}
    if "command" in spec and "workdir" not in spec:
        spec["workdir"] = os.getcwd()  # noqa: PTH109 - a text is what is sent
    with connect() as client:
        if dry_run:
            found = client.dry_run(spec)
            put_one(found, output=output, key="verdict", text=_forecast_lines)
            return 1 if found["verdict"] == "rejected" else 0
        done = _submitted(client, spec, key)
        put_one(
            {"job": done.job, "position": done.position},
            output=output,
            key="job",
            text=lambda row: [row["job"]],
        )
        if not spec.keys() & {"command", "runtime", "exits", "exits_after"}:
            say(f"{done.job} has no command: it holds its GPUs until it is cancelled")
        if "@" in spec.get("stop_signal", "") and "grace" not in spec:
            _say_short_grace(client, spec["stop_signal"])
        if wait_for_end:
            code = client.wait(done.job)
            say(headline(client.job(done.job)))
            return code
        return _say_rejection(client, done.job, done.position)


def _say_short_grace(client: Client, stop_signal: str) -> None:
    """Where the policy's grace is shorter than the signal's lead, say that it comes at once."""
    from gangline.api.durations import parse_ms, show_ms  # noqa: PLC0415 - standard library only

    signal, _, lead = stop_signal.partition("@")
    policy = client.request("GET", "/v1/policy")["items"]
    grace_ms = next(row["value"] for row in policy if row["key"] == "preemption_grace")
    if parse_ms(lead) > grace_ms:
        say(
            f"its grace is the policy's, {show_ms(grace_ms)}: {signal} comes at once, "
            f"not {lead} before the end; --grace makes it longer"
        )


def _forecast_lines(row: Row) -> Iterator[str]:
    """What would become of a job, for people."""
    if row["verdict"] == "rejected":
        yield f"it would be rejected: {row['reason_text'] or row['reason']}"
        if row["nearest"]:
            yield f"  the nearest that could start: {row['nearest']}"
        return
    if row["verdict"] == "now":
        yield f"it would start now, on {nodes_in_words(row['nodes'])}"
    elif row["verdict"] == "later":
        yield (
            f"it would start {ahead(row['start_at'])}, on {nodes_in_words(row['nodes'])}, number "
            f"{row['position']} of those that wait"
        )
    else:
        yield "no start was found in the time for looking"
    if row["reason_text"]:
        yield f"  not sooner because ({row['reason']}) it {row['reason_text']}"
    if row["preempts"]:
        yield f"  it would move out {', '.join(row['preempts'])}"
    if row["verdict"] != "now":
        yield f"  assuming that {row['assuming']}"


def _submitted(client: Client, spec: dict[str, Any], key: str | None) -> Submitted:
    """Submit; where the answer is lost, say how to ask again without a second job."""
    from gangline.client import (  # noqa: PLC0415 - as in connect()
        ConflictError,
        InvalidError,
        UnreachableError,
        new_key,
    )

    key = key or new_key(spec)
    try:
        return client.submit(spec, key=key)
    except UnreachableError as error:
        raise UnreachableError(
            f"{error}; submitting again with --id {key} cannot make a second job",
            status=error.status,
        ) from error
    except ConflictError as error:
        raise ConflictError(f"another job was submitted as {key}; take another --id") from error
    except InvalidError as error:
        raise InvalidError(str(error).replace("Idempotency-Key", "--id")) from error


def _say_rejection(client: Client, job: str, position: str) -> int:
    """1, and why, when the scheduler has refused the job already; 0 otherwise."""
    from gangline.client import GanglineError  # noqa: PLC0415 - as in connect()

    try:
        found = client.job(job, min_position=position)
    except GanglineError:
        say(f"{job} stands in the log at {position}; the views do not show it yet")
        return 0
    if found["state"] != "rejected":
        return 0
    nearest = f"; the nearest that could: {found['nearest']}" if found.get("nearest") else ""
    reason = found.get("reason_text") or found["reason"]
    say(f"gangline submit: {job} was rejected: {reason}{nearest}")
    return 1


@click.command("cancel")
@click.argument("jobs", nargs=-1, required=True, shell_complete=job_names)
@click.option("--why", default="", help="What a colleague should read.")
@output_options
def command_cancel(*, jobs: tuple[str, ...], why: str, output: str | None) -> None:
    """Cancel jobs: at once where they wait, after their grace where they run."""
    with connect() as client:
        asked = [job for job in jobs if not _has_ended(client, job)]
        _change(client, asked, lambda job: client.cancel(job, why=why), output, "cancelling")


def _has_ended(client: Client, job: str) -> bool:
    """Whether there is nothing to cancel any more, which is said."""
    from gangline.client import ENDED, NotFoundError  # noqa: PLC0415 - as in connect()

    try:
        found = client.job(job)
    except NotFoundError:
        return False  # whoever is asked to cancel it says so, if there is none
    if found["state"] not in ENDED:
        return False
    say(f"nothing to cancel: {headline(found)}")
    return True


@click.command("hold")
@click.argument("jobs", nargs=-1, required=True, shell_complete=job_names)
@click.option("--why", default="", help="What a colleague should read.")
@output_options
def command_hold(*, jobs: tuple[str, ...], why: str, output: str | None) -> None:
    """Keep jobs from starting until they are released; what runs goes on."""
    with connect() as client:
        _change(client, jobs, lambda job: client.hold(job, why=why), output, "holding")


@click.command("release")
@click.argument("jobs", nargs=-1, required=True, shell_complete=job_names)
@output_options
def command_release(*, jobs: tuple[str, ...], output: str | None) -> None:
    """Let held jobs start."""
    with connect() as client:
        _change(client, jobs, client.release, output, "releasing")


@click.command("priority")
@click.argument("job", shell_complete=job_names)
@click.argument("priority", type=_CLASSES)
@output_options
def command_priority(*, job: str, priority: str, output: str | None) -> None:
    """Put a job in another class."""
    with connect() as client:
        ask = partial(client.set_priority, priority=priority)
        _change(client, [job], ask, output, f"priority {priority}:")


def _change(
    client: Client,
    jobs: Iterable[str],
    ask: Callable[[str], Submitted],
    output: str | None,
    word: str,
) -> None:
    """Ask for all, and say what became of each, or write it down as data."""
    plain = not for_people(output)
    rows: list[dict[str, Any]] = []
    try:
        for job, done, told in each(
            jobs,
            lambda job: {"position": ask(job).position},
            lambda job, position: words(client, position, done=f"{word} {job}"),
        ):
            rows.append({"job": job, **done})
            if not plain:
                say(told)
    finally:
        if plain:
            columns = [Column("job", "JOB"), Column("position", "POSITION")]
            put(rows, output=output, columns=columns, key="job")


_QUEUE: Final = (
    Column("position", "#", right=True),
    Column("job", "JOB"),
    Column("team", "TEAM"),
    Column("class", "CLASS"),
    Column("gpus", "GPUS", right=True),
    Column("submitted_at", "WAITED", ago, right=True),
    Column("estimated_start_p50", "STARTS", ahead, right=True),
    Column("estimated_start_p90", "LATEST", ahead, right=True, wide=True),
    Column("reason", "REASON"),
    Column("reason_text", "BECAUSE", wide=True),
)


_THEN: Final = {
    "submitted_at": Column("age_s", "WAITED", seconds, right=True),
    "estimated_start_p50": Column("starts_in_s", "STARTS IN", seconds, right=True),
}
"""Columns that count from the moment that was asked about, instead of from now."""


def _columns(columns: Iterable[Column], at: str | None) -> list[Column]:
    """The columns of a table about now, or about a moment."""
    left_out = {"estimated_start_p90"} if at else set()
    kept = (column for column in columns if column.name not in left_out)
    return [_THEN.get(column.name, column) if at else column for column in kept]


@click.command("queue")
@click.option("--team", shell_complete=team_names, help="Only this team's jobs.")
@click.option("--reason", type=_REASONS, help="Only jobs that wait for this reason.")
@at_option
@watch_option
@output_options
def command_queue(*, at: str | None, watch: bool, output: str | None, **where: str | None) -> None:
    """What waits, in order, and why; `-o wide` adds the reasons' numbers."""
    with connect() as client:
        look(
            lambda: (
                _filtered(queue_at(client, at), where)
                if at
                else list(client.pages("/v1/queue", **where))
            ),
            lambda rows: put(rows, output=output, columns=_columns(_QUEUE, at), key="job"),
            watch=watch,
        )


def _filtered(rows: Iterable[Row], where: dict[str, str | None]) -> list[Row]:
    """Rows that are as asked for."""
    return [row for row in rows if all(v in (None, row.get(k)) for k, v in where.items())]


_JOBS: Final = (
    Column("job", "JOB"),
    Column("team", "TEAM"),
    Column("class", "CLASS"),
    Column("gpus", "GPUS", right=True),
    Column("state", "STATE"),
    Column("attempts", "TRIES", right=True),
    Column("preemptions", "PREEMPTED", right=True, wide=True),
    Column("submitted_at", "AGE", ago, right=True),
    Column("wait_s", "WAITED", seconds, right=True),
    Column("exit_code", "CODE", right=True, wide=True),
    Column("reason", "REASON"),
    Column("nodes", "NODES", lambda nodes: ",".join(nodes or ()), wide=True),
)


@click.command("jobs")
@click.option("--team", shell_complete=team_names, help="Only this team's jobs.")
@click.option("--state", type=_STATES, help="Only jobs in this state.")
@click.option("--priority", type=_CLASSES, help="Only jobs of this class.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, _MOST_JOBS), help="At most so many. [default: 100]"
)
@at_option
@watch_option
@output_options
def command_jobs(
    *,
    limit: int | None,
    at: str | None,
    watch: bool,
    output: str | None,
    **filters: str | None,
) -> None:
    """Jobs, newest first; with `--at`, those that had not ended then."""
    most = limit or 100
    with connect() as client:
        look(
            lambda: _jobs(client, at, most, filters),
            lambda rows: put(rows, output=output, columns=_columns(_JOBS, at), key="job"),
            watch=watch,
        )


def _jobs(client: Client, at: str | None, most: int, filters: dict[str, str | None]) -> list[Row]:
    """The newest jobs that are as asked for."""
    if at:
        renamed = {"class" if k == "priority" else k: value for k, value in filters.items()}
        return _filtered(jobs_at(client, at), renamed)[:most]
    return list(islice(client.pages("/v1/jobs", limit=min(most, 1_000), **filters), most))


@click.command("job")
@click.argument("job", shell_complete=job_names)
@at_option
@watch_option
@output_options
def command_job(*, job: str, at: str | None, watch: bool, output: str | None) -> None:
    """A job with its attempts; of an array, how its tasks are."""
    with connect() as client:
        look(
            lambda: job_at(client, job, at) if at else client.job(job),
            lambda row: put_one(row, output=output, key="job", text=job_lines),
            watch=watch,
        )


@click.command("why")
@click.argument("job", shell_complete=job_names)
@at_option
@watch_option
@output_options
def command_why(*, job: str, at: str | None, watch: bool, output: str | None) -> None:
    """Why a job waits, in plain words."""
    with connect() as client:
        path = client.route("jobs", job, "why")
        look(
            lambda: client.request("GET", path, params={"at": at}),
            lambda found: put_one(found, output=output, key="job", text=_why_lines),
            watch=watch,
        )


def _why_lines(row: Row) -> Iterator[str]:
    """The reason, and when it may end."""
    if row["state"] != "queued":
        yield f"{row['job']} does not wait: it {is_now(row)}"
        return
    yield f"{row['job']} waits: {row['reason'] or 'the scheduler has not decided yet'}"
    if row.get("reason_text"):
        yield f"  {row['reason_text']}"
    if row.get("position"):
        yield f"  number {row['position']} in the queue, waiting for {_waited(row)}"
    if row.get("estimated_start_p50"):
        early, late = ahead(row["estimated_start_p50"]), ahead(row.get("estimated_start_p90"))
        yield f"  may start {early}" + (
            f", nine times in ten {late} at the latest" if late != early else ""
        )


def _waited(row: Row) -> str:
    """How long it has waited: until now, or until the moment that was asked about."""
    return ago(row["submitted_at"]) if row.get("submitted_at") else seconds(row["waited_s"])
