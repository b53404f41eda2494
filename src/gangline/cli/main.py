"""The `gangline` command: which subcommands there are, and what becomes of their errors.

A subcommand's module is imported when the subcommand is called, so that `gangline queue` does not
pay for the scheduler. Data go to stdout, words to stderr; an error is one line, and the exit code
says its kind.
"""

from __future__ import annotations

import difflib
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Final

import click
from click.shell_completion import CompletionItem

from gangline.cli.errors import code_of
from gangline.streams import let_go_of_output

_JOBS: Final = "gangline.cli.jobs"
_FLEET: Final = "gangline.cli.fleet"
_SERVERS: Final = "gangline.cli.servers"
_REPLAY: Final = "gangline.cli.replaying"
_SIMULATE: Final = "gangline.cli.simulating"
_STACK: Final = "gangline.cli.stack_commands"

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "submit": (_JOBS, "Submit a job."),
    "run": ("gangline.cli.run_job", "Run a command on GPUs and watch it."),
    "cancel": (_JOBS, "Cancel jobs."),
    "queue": (_JOBS, "What waits, in order, and why."),
    "top": ("gangline.cli.top", "The fleet at a glance, live."),
    "jobs": (_JOBS, "Jobs, newest first."),
    "job": (_JOBS, "A job with its attempts."),
    "why": (_JOBS, "Why a job waits, in plain words."),
    "logs": ("gangline.cli.logs", "What a job prints."),
    "ranks": ("gangline.cli.ranks", "How each rank of a job gets on, and which are slow."),
    "events": ("gangline.cli.events", "What happened to a job, or decisions as they are made."),
    "hold": (_JOBS, "Keep jobs from starting."),
    "release": (_JOBS, "Let held jobs start."),
    "priority": (_JOBS, "Put a job in another class."),
    "teams": (_FLEET, "Teams with their guarantees, use and loans."),
    "team": (_FLEET, "Make or change a team."),
    "nodes": (_FLEET, "Nodes with their GPUs, health and service."),
    "node": ("gangline.cli.node_command", "Let a node into the fleet, or take nodes out."),
    "cordon": (_FLEET, "Keep new work off nodes."),
    "uncordon": (_FLEET, "Let nodes take new work again."),
    "drain": (_FLEET, "Empty nodes."),
    "maintenance": (_FLEET, "Announce a window in which a node is out of service."),
    "policy": ("gangline.cli.policy", "The policy's keys with units and defaults; sets them."),
    "token": ("gangline.cli.tokens", "Make, list and revoke tokens of the API."),
    "demo": ("gangline.cli.demo_fleet", "Show a simulated busy fleet, with the page."),
    "webhooks": ("gangline.cli.webhooks", "Tell other programs of each job's end."),
    "up": (_STACK, "Start the whole stack in the background."),
    "down": (_STACK, "Stop it and keep its data."),
    "status": (_STACK, "What of it runs."),
    "scheduler": (_SERVERS, "Run a scheduler."),
    "projector": (_SERVERS, "Keep the views up to date."),
    "agent": (_SERVERS, "Run a node's agent."),
    "api": (_SERVERS, "Run the REST API and the page."),
    "views": (_SERVERS, "Build views anew."),
    "replay": (_REPLAY, "Read a history again: verify, check, at, show, diff, whatif, archive."),
    "scenario": (_REPLAY, "Run scenario files on the real core."),
    "simulate": (_SIMULATE, "Run a trace on a fleet, on simulated time."),
    "workload": (_SIMULATE, "Make up a workload."),
    "import": (_SIMULATE, "Turn a public trace into a trace CSV."),
    "bench": ("gangline.cli.bench", "Measure how fast it is, and how long a failover takes."),
    "completion": ("gangline.cli.completing", "Let the shell complete commands and names."),
    "init": (_SERVERS, "Make the topics of a cell."),
    "acl": (_SERVERS, "Print the rights of each role on Kafka."),
}
"""Name of each subcommand: the module that has it (as `command_NAME`), and its line of help."""

_ELSEWHERE: Final = {
    "sacct": "jobs", "salloc": "submit", "sbatch": "submit", "scancel": "cancel",
    "sinfo": "nodes", "sprio": "queue", "squeue": "queue", "srun": "submit", "sshare": "teams",
}  # fmt: skip
"""What people who come from Slurm type, and what it is called here (docs/slurm.md)."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, f"command_{cmd_name.replace('-', '_')}")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and options that begin like this, without importing anything."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        names = [name for name in COMMANDS if name.startswith(incomplete)]
        return [CompletionItem(name, help=COMMANDS[name][1]) for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list for --help, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; an unknown name is answered with the nearest one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = [_ELSEWHERE.get(name), *difflib.get_close_matches(name, COMMANDS, n=1)]
            hint = next((f"; did you mean {known}?" for known in close if known), "")
            raise click.UsageError(f"there is no command {name}{hint}", ctx=ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gangline", prog_name="gangline")
def cli() -> None:
    """Schedule GPU training jobs: every gang starts together, and everything is one line in a log.

    GANGLINE_URL (and GANGLINE_API_TOKEN) name the API; without them it is the one that
    `gangline up` started in GANGLINE_DIR (default .gangline).
    """


def main(args: list[str] | None = None) -> None:
    """Run a command line and exit with its code."""
    sys.exit(run(args))


def _open_what_is_closed() -> None:
    """Whoever starts us without output (`>&-`) wants none."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115


def run(args: list[str] | None = None) -> int:
    """Run a command line; its exit code. Errors are one line on stderr."""
    _open_what_is_closed()
    try:
        if args is None and "_GANGLINE_COMPLETE" in os.environ:
            cli.main(prog_name="gangline")  # answers the shell, and exits
        code = cli.main(args, prog_name="gangline", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return 1  # whoever read it has enough
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("GANGLINE_DEBUG"):
            raise
        line, code = code_of(error)
        with suppress(OSError):
            click.echo(line, err=True, nl=bool(line))
        return code
    finally:
        let_go_of_output()
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
