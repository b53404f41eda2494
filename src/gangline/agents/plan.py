"""What agent and supervisor tell each other: small files in the attempt's folder.

The agent writes `intent.json` (who it is going to be) before it starts a supervisor, `plan.json`
(what to run), `order.json` (when to stop) and `lease.json` (until when an at-most-one writer may
go on if nobody says more); the supervisor writes `supervisor.json` (who it
is), `started.json`, `stuck.json` and at last `result.json`. Every file appears whole or not at
all. `VERSION` stands in each of the supervisor's: a supervisor outlives upgrades of the agent, so
fields are only ever added. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from gangline.agents import procfs

if TYPE_CHECKING:
    from pathlib import Path

VERSION: Final = 1
INTENT: Final = "intent.json"
PLAN: Final = "plan.json"
ORDER: Final = "order.json"
LEASE: Final = "lease.json"
LOCK: Final = "lock"
SUPERVISOR: Final = "supervisor.json"
STARTED: Final = "started.json"
STUCK: Final = "stuck.json"
RESULT: Final = "result.json"
NOTICE: Final = "notice.json"
PROGRESS: Final = "progress"
OPEN_FOLDER: Final = "job"
"""The subfolder that the job's own user may write: notice and progress files."""


def read(path: Path) -> dict[str, Any] | None:
    """The object in a file; None when there is no such file or it holds no object."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(path: Path, value: dict[str, Any], *, mode: int = 0o600) -> None:
    """Put an object into a file, whole or not at all."""
    procfs.write_whole(path, json.dumps(value, indent=1).encode(), mode=mode)


def write_surely(path: Path, value: dict[str, Any]) -> None:
    """The same in a folder that its job may have removed or closed, where it runs as our user."""
    try:
        write(path, value)
    except (FileNotFoundError, PermissionError):
        mend(path.parent)
        write(path, value)


def mend(folder: Path) -> None:
    """Have the folder of an attempt back, as far as that can be."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        folder.chmod(0o711)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlan:
    """One process to start.

    Argv: its words. env: all of its environment. out, err: paths of its log files.
    """

    rank: int
    argv: tuple[str, ...]
    env: dict[str, str]
    out: str
    err: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a supervisor needs to know; it removes the file once read, as it may hold secrets.

    cleanup: a command to run when all is over (a container's removal), empty for none. log_bytes,
    log_files: when an output file is rotated, and how many old ones are kept. cgroup: a folder of
    cgroup v2 to live in, empty for none. checkpoints: the folder to save in, made for the user;
    checkpoints_named: by the user, as the job itself named its root. stuck_ms: how long after the
    first SIGKILL whoever is left counts as unkillable.
    """

    token: str
    ranks: tuple[RankPlan, ...]
    workdir: str = ""
    user: str = ""
    cleanup: tuple[str, ...] = ()
    log_bytes: int = 64 * 1024 * 1024
    log_files: int = 3
    cgroup: str = ""
    checkpoints: str = ""
    checkpoints_named: bool = False
    stuck_ms: int = 60_000

    def save(self, folder: Path) -> None:
        """Write it where the supervisor looks for it."""
        write(folder / PLAN, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read it; OSError, ValueError or KeyError when that cannot be."""
        plain = json.loads((folder / PLAN).read_bytes())
        ranks = tuple(
            RankPlan(**{**rank, "argv": tuple(rank["argv"])}) for rank in plain.pop("ranks")
        )
        cleanup = tuple(plain.pop("cleanup", ()))
        return cls(ranks=ranks, cleanup=cleanup, **plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Stop.

    Signal_ms, deadline_ms: when to signal and when to kill, in milliseconds since the machine's
    boot.
    """

    signal: int
    signal_ms: int
    deadline_ms: int
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How an attempt ended on this node.

    code: the first non-zero exit code of its ranks in time (128 + N for signal N), else 0.
    reason: `exited`, `stopped` or `infrastructure`. ranks: the exit code of each rank.
    failed_at_ms: when that rank ended, Unix time, 0 for none: other nodes may fail by it and be
    heard of sooner, as this one waits for all its processes. first_rank: which one, -1 for none.
    """

    code: int
    signal: int = 0
    reason: str = "exited"
    detail: str = ""
    failed_at_ms: int = 0
    first_rank: int = -1
    ranks: dict[str, int] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write it for good."""
        write_surely(folder / RESULT, {"version": VERSION, **asdict(self)})


def tell(err: Path, words: str) -> None:
    """Say something in a rank's own error output, where its people look; as far as it can be."""
    with contextlib.suppress(OSError), err.open("a", encoding="utf-8", errors="replace") as output:
        output.write(f"gangline: {words}\n")


def load_result(folder: Path) -> Result | None:
    """The result of an attempt, None while there is none."""
    plain = read(folder / RESULT)
    if plain is None:
        return None
    known = {name: plain[name] for name in Result.__dataclass_fields__ if name in plain}
    return Result(**known)


def load_order(folder: Path) -> Order | None:
    """The newest order, None while there is none."""
    plain = read(folder / ORDER)
    if plain is None:
        return None
    known = {name: plain[name] for name in Order.__dataclass_fields__ if name in plain}
    return Order(**known)
