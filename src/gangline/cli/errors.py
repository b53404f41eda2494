"""What is said of an error, and with which code the command ends.

0 ok · 1 failed · 2 bad usage or input · 3 not found · 4 denied · 5 conflict · 6 not yet ·
7 not reachable · 130 interrupted.
"""

from __future__ import annotations

import re
from typing import Final

import click

from gangline.api.nearest import nearest

FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
INTERRUPTED: Final = 130
# By name, so that an error's module is not imported before it is raised.
_CODES: Final = {
    "InvalidError": 2,
    "NotFoundError": 3,
    "DeniedError": 4,
    "ConflictError": 5,
    "NotYetError": 6,
    "UnreachableError": 7,
    "LogUnreachableError": 7,
    "ViewsUnreachableError": 7,
    "SettingsError": 2,
    "TokensError": 2,
    "HooksError": 2,
    "BadInputError": 2,
    "LogFileError": 2,
    "RebuildError": 1,
    "LogDifferenceError": 1,
    "UnknownLogicError": 1,
    "CheckpointError": 2,
    "ArchiveError": 2,
    "ChainBrokenError": 1,
    "GanglineError": 1,
    "LogError": 1,
    "LocalServerError": 1,
    "StackError": 1,
    "EndToEndError": 1,
    "DemoError": 1,
    "AgentError": 1,
    "JournalError": 1,
    "NodeKeyError": 1,
}


_MOST_SHOWN: Final = 80
# Longer than a path; what somebody pasted by mistake is not said back whole.
_LONG_WORD: Final = re.compile(r"\S{500,}")
_START_IT: Final = "start it; `gangline up` without GANGLINE_DATABASE_URL brings one of its own"


def code_of(error: BaseException) -> tuple[str, int]:
    """The line to say and the exit code of an error."""
    if isinstance(error, click.exceptions.Exit):
        return "", error.exit_code
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return "", INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.message.rstrip(), error.exit_code  # somebody looks around: the help, as it is
    if isinstance(error, click.ClickException):
        return _harmless(_usage(error)), error.exit_code
    line, code = _of_ours(error) or _of_others(error)
    return _harmless(line), code


def _harmless(line: str) -> str:
    """A line that may quote anything, without what turns a terminal around, and not endless."""
    seen = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    return _LONG_WORD.sub(lambda found: f"{found[0][:_MOST_SHOWN]}…", seen)


def _of_ours(error: BaseException) -> tuple[str, int] | None:
    """What our own errors say, by the name of their class."""
    for kind in type(error).__mro__:
        if kind.__name__ in _CODES:
            return f"gangline: {_one_line(error)}", _CODES[kind.__name__]
    return None


def _of_others(error: BaseException) -> tuple[str, int]:
    """What is said of errors of the system, of Postgres, and of our mistakes."""
    if type(error).__name__ == "OperationalError":
        return f"gangline: Postgres is not reachable: {_one_line(error)}; {_START_IT}", 7
    if isinstance(error, UnicodeEncodeError):
        if error.encoding != "utf-8":
            return f"gangline: {error.encoding} cannot show this; set PYTHONUTF8=1", FAILED
        return "gangline: a name on the command line is no UTF-8", USAGE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"gangline: {where}{error.strerror or error}", USAGE if error.filename else FAILED
    return (
        f"gangline: this is our mistake: {type(error).__name__}: {_one_line(error)} "
        "(GANGLINE_DEBUG=1 shows where)"
    ), FAILED


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _usage(error: click.ClickException) -> str:
    """A usage error in one line, with the nearest valid name."""
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "gangline"
    said = _one_line(error.message or error)  # type: ignore[arg-type]
    if isinstance(error, click.NoSuchOption):
        known = [o for p in context.command.params for o in p.opts] if context is not None else []
        said = f"there is no option {error.option_name}{nearest(error.option_name, known)}"
    elif isinstance(error, click.MissingParameter):
        said = _one_line_of(error.format_message()).replace(". Choose from:", ": one of")
    elif isinstance(error, click.BadParameter):
        said = _one_line_of(error.format_message())
    help_hint = f" (see `{name} --help`)" if isinstance(error, click.UsageError) else ""
    return f"{name}: {said.rstrip('.')}{help_hint}"


def _one_line_of(text: str) -> str:
    return " ".join(text.split())
