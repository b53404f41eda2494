"""`make demo`: the main job from end to end, with real processes, a preemption and two deaths.

python -m gangline.cli.demo_run --bus embedded --dir .gangline

Starts a stack of its own under DIR/demo (what an earlier demo left there goes), submits the jobs of
`demo_jobs`, kills the leading scheduler and a node, and ends with a summary, a verification of the
whole log, and exit code 0 if everything that it promises came about.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from gangline.cli import demo_jobs
from gangline.cli import stack as stacks
from gangline.cli.connection import stack_bus
from gangline.cli.demo_words import Narrator
from gangline.cli.errors import code_of
from gangline.cli.nodes import power_off
from gangline.cli.output import Column, put, seconds, styled
from gangline.client import Client, GanglineError, JobSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WAIT_S: Final = 60.0
_POLL_S: Final = 0.2


class DemoError(Exception):
    """Something that the demo waits for did not come about; the message says what."""


@click.command()
@click.option("--bus", callback=stack_bus, default="embedded", help="embedded, kafka, or a URL.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path(".gangline"))
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="Of the page. [default: 8642, or any]"
)
@click.option("--keep", is_flag=True, help="Leave everything running at the end.")
def demo(*, bus: str, directory: Path, port: int, keep: bool) -> int:
    """Run the demo."""
    if not demo_jobs.EXAMPLES.is_dir():
        raise DemoError(
            "its jobs are the repository's examples/: `make demo` in a clone runs it; "
            "`gangline demo` needs no clone"
        )
    folder = directory / "demo"
    _clear(folder)
    plan = stacks.Plan(
        directory=folder,
        agents=4,
        gpus=8,
        bus=bus,
        heartbeat_s=1.0,
        policy=demo_jobs.POLICY,
        port=port,
    )
    try:
        click.echo(f"Starting log, views, two schedulers and four nodes under {folder} …")
        stack = stacks.up(plan, tell=lambda line: click.echo(f"  {line}"))
        click.echo(f"The page is at {styled(stack.url, underline=True)}")
        code = _play(stack)
        if keep:
            stack = stacks.up(plan)
        click.echo(_last_words(stack, keep=keep))
        return code
    finally:
        if not keep:
            stacks.down(folder)


def _last_words(stack: stacks.Stack, *, keep: bool) -> str:
    """Where the page is, or was and how to have one that stays."""
    folder = stack.plan.directory
    if keep:
        return (
            f"Everything goes on; stop it: gangline down --dir {folder}\nThe page is at {stack.url}"
        )
    return (
        f"To look around in what you saw: .venv/bin/gangline up --dir {folder}\n"
        f"The page is then at {stack.url}"
    )


def _clear(folder: Path) -> None:
    """Take away what an earlier demo left."""
    stacks.down(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _play(stack: stacks.Stack) -> int:
    """The story, its summary, and whether its promises were kept."""
    began = time.monotonic()
    with Client(stack.url) as client:
        narrator = Narrator(Client(stack.url))
        narrator.start()
        dead_node = _story(stack, client, narrator)
        jobs = {name: client.job(name) for name in _names()}
        narrator.stop()
        _summary(jobs)
        kept = demo_jobs.promises(
            jobs,
            dead_node=dead_node,
            leaders=narrator.leaders,
            ring_said=_output_of(client, "ring"),
        )
    for promise in kept:
        mark = styled("✓", fg="green") if promise.kept else styled("✗", fg="red")
        click.echo(f"  {mark} {promise.words}")
    verified = _verify(stack)
    click.echo(f"\n{len(jobs)} jobs in {seconds(time.monotonic() - began)}.")
    return 0 if verified and all(promise.kept for promise in kept) else 1


def _output_of(client: Client, job: str) -> str:
    """All that a job's last attempt printed."""
    listing = client.request("GET", f"/v1/jobs/{job}/logs")
    paths = [f"/v1/jobs/{job}/logs/{each['node']}/{each['file']}" for each in listing["files"]]
    parts = [client.read_part(p, attempt=listing["attempt"], offset=0)[0] for p in paths]
    return b"".join(parts).decode(errors="replace")


def _names() -> list[str]:
    batches = (demo_jobs.FIRST, demo_jobs.SECOND, demo_jobs.LAST)
    return [name for batch in batches for name in batch] + ["impossible"]


def _story(stack: stacks.Stack, client: Client, narrator: Narrator) -> str:
    """Everything that happens; the node that died."""
    narrator.say("two teams, 16 GPUs guaranteed to each")
    for team, numbers in demo_jobs.TEAMS.items():
        client.request("PUT", f"/v1/teams/{team}", body=numbers)
    narrator.say("small jobs, a gang of two nodes, one that fails once, and a mistake")
    _submit(client, demo_jobs.FIRST)
    client.submit(demo_jobs.IMPOSSIBLE, key="impossible")
    _until(client, "mistake", lambda job: job["state"] == "running")
    narrator.say("the mistake is cancelled")
    client.cancel("mistake", why="it was a mistake")
    client.wait_all(demo_jobs.FIRST, timeout_s=_WAIT_S)

    narrator.say("three jobs fill the fleet: train (high), patient (low), steady (normal)")
    _submit(client, demo_jobs.SECOND)
    for name in demo_jobs.SECOND:
        _until(client, name, lambda job: job["state"] == "running")
    _until(client, "patient", _has_saved)
    narrator.say("an urgent job comes: it has to preempt, and patient is the cheapest victim")
    _submit(client, demo_jobs.LAST)
    _until(client, "urgent", lambda job: job["state"] == "running")

    leader = _leader(stack, narrator)
    narrator.say(f"the leading scheduler, {leader}, is killed; jobs run on, a standby takes over")
    stack.running[leader].send(signal.SIGKILL)
    client.wait_all([*demo_jobs.LAST, "steady"], timeout_s=_WAIT_S)
    dead_node = _kill_node(stack, client, narrator)
    client.wait_all(demo_jobs.SECOND, timeout_s=_WAIT_S)
    return dead_node


def _submit(client: Client, jobs: Mapping[str, JobSpec]) -> None:
    client.submit_many(jobs.values(), keys=jobs)


def _until(client: Client, job: str, holds: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    """The job's row as soon as something holds of it; DemoError when it does not in time."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        try:
            row = client.job(job)
            if holds(row):
                return row
        except GanglineError as error:
            if error.status != 404:
                raise
        time.sleep(_POLL_S)
    raise DemoError(f"{job} did not get on within {_WAIT_S:g} s; see the page or the logs")


def _has_saved(job: Mapping[str, Any]) -> bool:
    attempts = job["attempts_list"]
    return bool(attempts) and attempts[-1]["checkpoints"] > 0


def _leader(stack: stacks.Stack, narrator: Narrator) -> str:
    """The name of the scheduler that leads now."""
    return next(name for name in reversed(narrator.leaders) if name in stack.running)


def _kill_node(stack: stacks.Stack, client: Client, narrator: Narrator) -> str:
    """Kill the last node of `train`: the agent and all processes, as when a machine dies."""
    row = _until(client, "train", lambda job: job["state"] == "running" and _has_saved(job))
    node = demo_jobs.nodes_of(row["attempts_list"][-1])[-1]
    narrator.say(f"{node}, a node of train, dies: agent and processes are gone")
    stack.running[node].send(signal.SIGKILL)
    power_off(stack.plan.agent_folder(node))
    return node


_SUMMARY: Final = (
    Column("job", "JOB"),
    Column("team", "TEAM"),
    Column("class", "CLASS"),
    Column("gpus", "GPUS", right=True),
    Column("state", "STATE"),
    Column("attempts", "ATTEMPTS", right=True),
    Column("preemptions", "PREEMPTED", right=True),
    Column("wait_s", "WAITED", seconds, right=True),
    Column("productive_s", "WORKED", seconds, right=True),
    Column("lost_gpu_s", "LOST GPU-S", lambda value: f"{value or 0:.0f}", right=True),
    Column("nodes", "NODES", lambda nodes: ",".join(nodes or ())),
)


def _summary(jobs: Mapping[str, Mapping[str, Any]]) -> None:
    click.echo("")
    put(jobs.values(), output="table", columns=_SUMMARY, key="job")
    click.echo("")


def _verify(stack: stacks.Stack) -> bool:
    """Run the core again over the whole log."""
    from gangline.events.bus import open_log  # noqa: PLC0415 - drivers are heavy
    from gangline.replay.history import LogSource  # noqa: PLC0415
    from gangline.replay.verify import verify  # noqa: PLC0415
    from gangline.scheduler import core  # noqa: PLC0415

    log = open_log(stack.bus, stack.plan.cell)
    try:
        report = verify(LogSource(log), core)
    finally:
        log.close()
    if report.difference is not None:
        click.echo(f"  replay verify: DIFFERENT: {report.difference}")
        return False
    click.echo(
        f"\nreplay verify: {report.decisions} decisions from {report.facts} facts and "
        f"{report.heartbeats} heartbeats come out byte for byte ({report.events_per_s:,.0f}/s)"
    )
    return True


def _stop(number: int, _frame: object) -> NoReturn:
    """A closed terminal and a kill are a Ctrl-C: what the demo started must not outlive it."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)  # a second one would break the cleaning up
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> None:
    """Run the demo and exit with its code; errors are one line."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        code = demo.main(prog_name="demo", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - no traceback reaches a user
        line, code = code_of(error)
        click.echo(line, err=True)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
